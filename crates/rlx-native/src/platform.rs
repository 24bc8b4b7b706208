//! What only the operating system knows.

/// The most memory this process has had resident, in bytes. `None` where the system does not say
/// (everywhere but Linux).
pub fn peak_rss_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #[test]
    fn a_process_has_a_peak_of_at_least_a_page() {
        assert!(super::peak_rss_bytes().is_some_and(|bytes| bytes >= 4096));
    }
}
