//! What a compiler is told beside a program: a protocol buffer, written by hand.

/// A number as protocol buffers have it: seven bits a byte, the low ones first.
fn varint(mut n: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while n > 0x7f {
        bytes.push(n as u8 | 0x80);
        n >>= 7;
    }
    bytes.push(n as u8);
    bytes
}

/// A field that is a number.
fn number(field: u8, n: u64) -> Vec<u8> {
    [vec![field << 3], varint(n)].concat()
}

/// A field that is a message, a text or a list of numbers.
fn message(field: u8, bytes: &[u8]) -> Vec<u8> {
    [vec![field << 3 | 2], varint(bytes.len() as u64), bytes.to_vec()].concat()
}

/// A serialised `CompileOptionsProto` of a program with so many replicas, on the devices of these ids; without ids,
/// the plugin takes its first ones.
///
/// Field 3, `executable_build_options`, has `num_replicas` (4), `num_partitions` (5), which is 1, and
/// `device_assignment` (9): replicas (1), partitions (2) and for each partition (3) the ids of its replicas (1). Field
/// 7, `env_option_overrides`, is a map of names of XLA's options to values, of which field 2 is a boolean: XLA may
/// otherwise drop a rounding to a narrow type between two steps that are wider.
pub(super) fn options(replicas: u64, ids: &[u64]) -> Vec<u8> {
    let mut build = [number(4, replicas), number(5, 1)].concat();
    if !ids.is_empty() {
        let all: Vec<u8> = ids.iter().flat_map(|&id| varint(id)).collect();
        let assignment =
            [number(1, replicas), number(2, 1), message(3, &message(1, &all))].concat();
        build.extend(message(9, &assignment));
    }
    let precision = [message(1, b"xla_allow_excess_precision"), message(2, &number(2, 0))];
    [message(3, &build), message(7, &precision.concat())].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_take_as_many_bytes_as_they_need() {
        assert_eq!(varint(0), [0]);
        assert_eq!(varint(300), [0xac, 2]);
        assert_eq!(varint(u64::MAX).len(), 10);
    }

    #[test]
    fn replicas_are_assigned_to_devices() {
        let precision =
            [&[0x3a, 32, 0x0a, 26], &b"xla_allow_excess_precision"[..], &[0x12, 2, 0x10, 0]]
                .concat();
        assert_eq!(options(1, &[]), [&[0x1a, 4, 0x20, 1, 0x28, 1], &precision[..]].concat());
        let assigned =
            [0x1a, 16, 0x20, 2, 0x28, 1, 0x4a, 10, 8, 2, 0x10, 1, 0x1a, 4, 0x0a, 2, 1, 3];
        assert_eq!(options(2, &[1, 3]), [&assigned[..], &precision[..]].concat());
    }
}
