//! Which of a sorted list of texts begin a text.

use crate::order;
use alloc::vec::Vec;

/// Finds the texts of a list with which a text begins, byte by byte: each byte narrows a range of the
/// sorted list. One search takes a binary search for each byte of the longest match and one more, so it
/// is bounded by the longest text of the list.
#[derive(Clone, Debug, Default)]
pub(super) struct Prefixes {
    /// Numbers of the texts, by their bytes.
    sorted: Vec<u32>,
    /// `sorted[first[b]..first[b + 1]]` begin with byte `b`.
    first: Vec<u32>,
}

impl Prefixes {
    /// `text` gives the bytes of a number; empty texts are left out, and of equal ones the first stays.
    pub(super) fn new<'a>(numbers: Vec<u32>, text: impl Fn(u32) -> &'a [u8]) -> Self {
        let mut sorted = numbers;
        sorted.retain(|&n| !text(n).is_empty());
        order::sort_by_key(&mut sorted, |&n| (text(n), n));
        sorted.dedup_by_key(|n| text(*n));
        let first = (0..=256)
            .map(|b| sorted.partition_point(|&n| usize::from(text(n)[0]) < b) as u32)
            .collect();
        Self { sorted, first }
    }

    /// Calls `found` with the number and the length of each text that begins `bytes`, shorter ones first.
    pub(super) fn each<'a>(
        &self,
        bytes: &[u8],
        text: impl Fn(u32) -> &'a [u8],
        mut found: impl FnMut(u32, usize),
    ) {
        let Some(&byte) = bytes.first() else { return };
        let Some(ends) = self.first.get(usize::from(byte)..usize::from(byte) + 2) else { return };
        let mut range = &self.sorted[ends[0] as usize..ends[1] as usize];
        let mut depth = 1;
        while let Some(&n) = range.first() {
            // The shortest text of the range stands first.
            if text(n).len() == depth {
                found(n, depth);
                range = &range[1..];
            }
            let Some(&byte) = bytes.get(depth) else { return };
            let start = range.partition_point(|&n| text(n)[depth] < byte);
            let end = start + range[start..].partition_point(|&n| text(n)[depth] == byte);
            range = &range[start..end];
            depth += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_begin_a_text_come_in_order_of_length() {
        let texts: [&[u8]; 6] = [b"ab", b"a", b"", b"abcd", b"b", b"ab"];
        let text = |n: u32| texts[n as usize];
        let prefixes = Prefixes::new((0..6).collect(), text);
        let found = |bytes: &[u8]| {
            let mut found = Vec::new();
            prefixes.each(bytes, text, |n, len| found.push((n, len)));
            found
        };
        assert_eq!(found(b"abc"), [(1, 1), (0, 2)]);
        assert_eq!(found(b"abcde"), [(1, 1), (0, 2), (3, 4)]);
        assert_eq!(found(b"ba"), [(4, 1)]);
        assert_eq!((found(b"c"), found(b"")), (Vec::new(), Vec::new()));
    }
}
