//! How much memory this machine has left.

/// Bytes that the system can give without taking them from programs, swap included; `None` where it
/// does not say.
pub fn free_bytes() -> Option<u64> {
    if cfg!(target_os = "linux") {
        parse(&std::fs::read_to_string("/proc/meminfo").ok()?)
    } else {
        None
    }
}

/// `MemAvailable` and `SwapFree` of `/proc/meminfo`, whose sizes are in kibibytes.
fn parse(text: &str) -> Option<u64> {
    let of = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    (of("MemAvailable")? + of("SwapFree").unwrap_or(0)).checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_available_and_the_free_swap_are_added() {
        let text = "MemTotal:  9 kB\nMemFree: 1 kB\nMemAvailable:   5 kB\nSwapTotal: 4 kB\nSwapFree: 3 kB\n";
        assert_eq!(parse(text), Some(8 * 1024));
        assert_eq!(parse("MemAvailable: 5 kB\n"), Some(5 * 1024));
        assert_eq!(parse("MemTotal: 5 kB\n"), None);
        assert_eq!(parse("MemAvailable: 18446744073709551615 kB\n"), None);
    }

    #[test]
    fn this_machine_has_some() {
        assert_eq!(free_bytes().is_some(), cfg!(target_os = "linux"));
        assert!(free_bytes().is_none_or(|n| n > 0));
    }
}
