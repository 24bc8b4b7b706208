//! The order of numbers, for kernels that sort: one sort of 64-bit words, which a page downloads once.

/// Bits in the order of the numbers: a NaN is above all, and zeros of either sign are equal.
pub(super) fn bits(x: f32) -> u32 {
    match x {
        _ if x.is_nan() => u32::MAX,
        0.0 => 1 << 31,
        _ if x > 0.0 => x.to_bits() | 1 << 31,
        _ => !x.to_bits(),
    }
}

/// A word to sort by: by `bits`, the largest first if `descending`, and by `place` where bits are equal.
pub(super) fn word(bits: u32, place: u32, descending: bool) -> u64 {
    let bits = if descending { !bits } else { bits };
    u64::from(bits) << 32 | u64::from(place)
}

/// The bits of a word that was made without `descending`.
#[cfg(feature = "graphs")]
pub(super) fn bits_of(word: u64) -> u32 {
    (word >> 32) as u32
}

/// The place of a word.
pub(super) fn place(word: u64) -> u32 {
    word as u32
}

/// Sorts the words and keeps the first `n`.
#[inline(never)]
pub(super) fn first(words: &mut Vec<u64>, n: usize) {
    if (1..words.len()).contains(&n) {
        words.select_nth_unstable(n - 1);
    }
    words.truncate(n);
    words.sort_unstable();
}

#[cfg(test)]
mod tests {
    use super::{bits, first, place, word};

    #[test]
    fn the_first_words_are_those_of_the_largest_numbers_ties_by_place() {
        let x = [1.0, f32::NEG_INFINITY, 0.0, -0.0, f32::NAN, -2.5, 1.0, f32::INFINITY, -f32::NAN];
        let places = |n, descending| {
            let mut words: Vec<u64> =
                (0u32..).zip(x).map(|(i, x)| word(bits(x), i, descending)).collect();
            first(&mut words, n);
            words.into_iter().map(place).collect::<Vec<u32>>()
        };
        assert_eq!(places(9, false), [1, 5, 2, 3, 0, 6, 7, 4, 8]);
        assert_eq!(places(9, true), [4, 8, 7, 0, 6, 2, 3, 5, 1]);
        assert_eq!(places(4, true), [4, 8, 7, 0]);
        assert_eq!((places(0, true), places(99, false).len()), (vec![], 9));
    }
}
