//! Codebooks: the values that an index of the `iq`, `mxfp4` and `nvfp4` formats stands for.
//!
//! A *book* lists groups of values that a format may hold, 8 values of 3 levels or 4 values of 8 levels.
//! A group's *code* is the number whose digits, lowest first, are the levels of its values (base 3 or
//! base 8); a book is a set of codes, and an index counts its members upwards. The sets are in
//! `codebook_members.rs`: a bit for each possible group, 4 kB for all books. What is linked is one
//! `u16` a group with the levels as fields of 2 or 3 bits: 9 kB for all books, read as they are by
//! the scalar decoders. [`grid8`] and [`grid4`] make bytes of them, one load an index, for kernels
//! that pay 33 kB for that.

use super::codebook_members as members;

/// Magnitudes of `iq2_xxs`, `iq2_xs` and `iq2_s`, by level.
pub const IQ2_LEVELS: [u8; 3] = [8, 25, 43];
/// Magnitudes of `iq3_xxs`.
pub const IQ3_XXS_LEVELS: [u8; 8] = [4, 12, 20, 28, 36, 44, 52, 62];
/// Magnitudes of `iq3_s`.
pub const IQ3_S_LEVELS: [u8; 8] = [1, 3, 5, 7, 9, 11, 13, 15];
/// Values of `iq1_s` and `iq1_m`, as the bits of an `i8`.
pub const IQ1_LEVELS: [u8; 3] = [255, 0, 1];

/// Values of `iq4_nl` and `iq4_xs` by nibble.
pub const IQ4_NL: [i8; 16] =
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];
/// Values of `mxfp4` and `nvfp4` by nibble: those of E2M1 (a sign, 2 bits of exponent, 1 of fraction),
/// twice as large, so that they are integers; the scale is halved for it.
pub const FP4: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// `iq2_xxs`: levels of 8 values, 2 bits each, the first value lowest.
pub static IQ2_XXS: [u16; 256] = book(members::IQ2_XXS, 3);
/// `iq2_xs`, as [`IQ2_XXS`].
pub static IQ2_XS: [u16; 512] = book(members::IQ2_XS, 3);
/// `iq2_s`, as [`IQ2_XXS`].
pub static IQ2_S: [u16; 1024] = book(members::IQ2_S, 3);
/// `iq1_s` and `iq1_m`, as [`IQ2_XXS`].
pub static IQ1_S: [u16; 2048] = book(members::IQ1_S, 3);
/// `iq3_xxs`: levels of 4 values, 3 bits each, the first value lowest.
pub static IQ3_XXS: [u16; 256] = book(members::IQ3_XXS, 8);
/// `iq3_s`, as [`IQ3_XXS`].
pub static IQ3_S: [u16; 512] = book(members::IQ3_S, 8);

/// A book's values as bytes: value `i` of group `n` is byte `i` of entry `n`, lowest first.
///
/// `levels` are [`IQ2_LEVELS`], or [`IQ1_LEVELS`] whose bytes are `i8`.
pub const fn grid8<const N: usize>(book: &[u16; N], levels: [u8; 3]) -> [u64; N] {
    let mut out = [0; N];
    let mut n = 0;
    while n < N {
        let mut i = 0;
        while i < 8 {
            out[n] |= (levels[(book[n] >> (2 * i) & 3) as usize] as u64) << (8 * i);
            i += 1;
        }
        n += 1;
    }
    out
}

/// As [`grid8`], for the books of 4 values: `levels` are [`IQ3_XXS_LEVELS`] or [`IQ3_S_LEVELS`].
pub const fn grid4<const N: usize>(book: &[u16; N], levels: [u8; 8]) -> [u32; N] {
    let mut out = [0; N];
    let mut n = 0;
    while n < N {
        let mut i = 0;
        while i < 4 {
            out[n] |= (levels[(book[n] >> (3 * i) & 7) as usize] as u32) << (8 * i);
            i += 1;
        }
        n += 1;
    }
    out
}

/// Eight signs from seven bits: bit `i` set makes value `i` negative, and the eighth makes the number of
/// negative values even.
pub const fn even_signs(seven: u8) -> u8 {
    let seven = seven & 127;
    seven | ((seven.count_ones() as u8 & 1) << 7)
}

/// The members of a set of codes, in order, with their digits apart.
const fn book<const N: usize>(members: &[u8], base: u16) -> [u16; N] {
    let (digits, bits) = if base == 3 { (8, 2) } else { (4, 3) };
    let mut out = [0; N];
    let (mut n, mut code) = (0, 0u16);
    while (code as usize) < 4 * members.len() {
        let digit = members[code as usize / 4];
        let four = if digit <= b'9' { digit - b'0' } else { digit - b'a' + 10 };
        if four >> (code % 4) & 1 == 1 {
            let (mut rest, mut i) = (code, 0);
            while i < digits {
                out[n] |= (rest % base) << (bits * i);
                rest /= base;
                i += 1;
            }
            n += 1;
        }
        code += 1;
    }
    assert!(n == N); // a book of another size does not compile
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_in_order_and_have_the_levels_of_their_books() {
        // From ggml's tables, first, middle and last of each.
        static XXS: [u64; 256] = grid8(&IQ2_XXS, IQ2_LEVELS);
        assert_eq!(XXS[0], 0x0808080808080808);
        assert_eq!(XXS[1], 0x080808080808082b);
        let s = grid8(&IQ2_S, IQ2_LEVELS);
        assert_eq!(s[1023], 0x2b2b2b2b2b2b2b2b);
        let one = grid8(&IQ1_S, IQ1_LEVELS);
        assert_eq!((one[0], one[1]), (u64::MAX, 0xffffffffffffff01));
        assert_eq!(one[2047], 0x0101010101010101);
        assert_eq!(grid4(&IQ3_XXS, IQ3_XXS_LEVELS)[..2], [0x04040404, 0x04040414]);
        assert_eq!(grid4(&IQ3_S, IQ3_S_LEVELS)[..2], [0x01010101, 0x01010103]);
        assert!(IQ2_XS.windows(2).all(|w| w[0] != w[1]));
    }

    #[test]
    fn the_number_of_negative_values_is_even() {
        assert_eq!([0, 1, 2, 3, 126, 127].map(even_signs), [0, 0x81, 0x82, 3, 126, 255]);
        assert!((0..128).all(|i| even_signs(i).count_ones().is_multiple_of(2)));
    }
}
