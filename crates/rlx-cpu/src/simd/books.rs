//! Codebooks as levels look entries up: by a gather of words, or by permutations of bytes.

use rlx_core::formats::codebook::grid4;

/// Entries of eight levels of two bits each.
pub(crate) struct Eights<const N: usize> {
    /// Levels as nibbles: of the bytes' low ones levels 0..4, of their high ones 4..8.
    pub(super) nibbles: [u32; N],
    /// Levels 0..4 and 4..8, two bits each.
    #[cfg(target_arch = "x86_64")]
    pub(super) codes: [[u8; N]; 2],
}

impl<const N: usize> Eights<N> {
    pub(crate) const fn new(book: &[u16; N]) -> Self {
        let mut nibbles = [0; N];
        let mut n = 0;
        while n < N {
            let mut i = 0;
            while i < 8 {
                let level = (book[n] as u32 >> (2 * i)) & 3;
                nibbles[n] |= level << (8 * (i % 4) + 4 * (i / 4));
                i += 1;
            }
            n += 1;
        }
        Eights {
            nibbles,
            #[cfg(target_arch = "x86_64")]
            codes: [bytes(book, 0), bytes(book, 8)],
        }
    }
}

/// Entries of four values, each one of eight levels.
pub(crate) struct Fours<const N: usize> {
    /// Values as bytes.
    pub(super) words: [u32; N],
    /// Levels 0 and 1, and 2 and 3, a nibble each.
    #[cfg(target_arch = "x86_64")]
    pub(super) codes: [[u8; N]; 2],
    /// Values of levels, twice.
    #[cfg(target_arch = "x86_64")]
    pub(super) values: [u8; 16],
}

impl<const N: usize> Fours<N> {
    pub(crate) const fn new(book: &[u16; N], levels: [u8; 8]) -> Self {
        Fours {
            words: grid4(book, levels),
            #[cfg(target_arch = "x86_64")]
            codes: [nibbles(book, 0), nibbles(book, 6)],
            #[cfg(target_arch = "x86_64")]
            values: {
                let [a, b, c, d, e, f, g, h] = levels;
                [a, b, c, d, e, f, g, h, a, b, c, d, e, f, g, h]
            },
        }
    }
}

/// Two levels of each entry, from bit `shift` on, as nibbles.
#[cfg(target_arch = "x86_64")]
const fn nibbles<const N: usize>(book: &[u16; N], shift: u32) -> [u8; N] {
    let mut out = [0; N];
    let mut n = 0;
    while n < N {
        let two = book[n] >> shift;
        out[n] = (two & 7 | (two << 1) & 0x70) as u8;
        n += 1;
    }
    out
}

/// Eight bits of each entry, from `shift` on.
#[cfg(target_arch = "x86_64")]
const fn bytes<const N: usize>(book: &[u16; N], shift: u32) -> [u8; N] {
    let mut out = [0; N];
    let mut n = 0;
    while n < N {
        out[n] = (book[n] >> shift) as u8;
        n += 1;
    }
    out
}
