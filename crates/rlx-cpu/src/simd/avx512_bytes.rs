//! Codebooks and single bits by AVX-512's permutations of bytes (VBMI): 64 lookups in 128 bytes take one
//! instruction where a gather of 16 words takes some 25 cycles, and 64 fields of bits take one.
//!
//! **Unsafe.** The functions are called at [`Vbmi`](super::avx2::Vbmi) alone, whose token says that the
//! features are there; loads are of whole parts of arrays and ask for no alignment.
#![allow(unsafe_code)]

use super::avx2::Vbmi;
use super::books::{Eights, Fours};
use super::lanes::Lanes;
use core::arch::x86_64::*;

/// Entries `low + 256 part` of the table, for each byte of `low`. A permutation takes 7 bits of an index; the
/// eighth chooses between two.
#[inline(always)]
fn look_up_256<const N: usize>(_: Vbmi, table: &[u8; N], part: usize, low: __m512i) -> __m512i {
    // SAFETY: AVX-512 VBMI by the token; 64 bytes are there; no alignment asked.
    unsafe {
        let table = table.as_chunks::<64>().0;
        let [a, b, c, d] = [
            _mm512_loadu_si512(table[4 * part].as_ptr().cast()),
            _mm512_loadu_si512(table[4 * part + 1].as_ptr().cast()),
            _mm512_loadu_si512(table[4 * part + 2].as_ptr().cast()),
            _mm512_loadu_si512(table[4 * part + 3].as_ptr().cast()),
        ];
        let first = _mm512_permutex2var_epi8(a, low, b);
        let second = _mm512_permutex2var_epi8(c, low, d);
        _mm512_mask_blend_epi8(_mm512_movepi8_mask(low), first, second)
    }
}

/// `b` where a byte of `top` has the bit, else `a`.
#[inline(always)]
fn choose(_: Vbmi, top: __m512i, bit: i8, a: __m512i, b: __m512i) -> __m512i {
    // SAFETY: AVX-512 BW by the token.
    unsafe { _mm512_mask_blend_epi8(_mm512_test_epi8_mask(top, _mm512_set1_epi8(bit)), a, b) }
}

#[inline(always)]
fn look_up_512<const N: usize>(
    s: Vbmi,
    table: &[u8; N],
    part: usize,
    low: __m512i,
    top: __m512i,
) -> __m512i {
    let a = look_up_256(s, table, 2 * part, low);
    choose(s, top, 1, a, look_up_256(s, table, 2 * part + 1, low))
}

#[inline(always)]
fn look_up_1024<const N: usize>(
    s: Vbmi,
    table: &[u8; N],
    part: usize,
    low: __m512i,
    top: __m512i,
) -> __m512i {
    let a = look_up_512(s, table, 2 * part, low, top);
    choose(s, top, 2, a, look_up_512(s, table, 2 * part + 1, low, top))
}

/// Entry `low + 256 top` of the table for every byte.
#[inline(always)]
fn look_up<const N: usize>(s: Vbmi, table: &[u8; N], low: __m512i, top: __m512i) -> __m512i {
    const { assert!(N == 256 || N == 512 || N == 1024 || N == 2048) };
    match N {
        256 => look_up_256(s, table, 0, low),
        512 => look_up_512(s, table, 0, low, top),
        1024 => look_up_1024(s, table, 0, low, top),
        _ => {
            let a = look_up_1024(s, table, 0, low, top);
            choose(s, top, 4, a, look_up_1024(s, table, 1, low, top))
        }
    }
}

/// Eight bits of each word from bits `at` on, each to its byte. What lies behind the word's end is not
/// zero: callers mask it.
#[inline(always)]
fn fields(_: Vbmi, w: __m512i, at: [u8; 4]) -> __m512i {
    // SAFETY: AVX-512 VBMI by the token. A control byte is a bit of 64: the second word's are 32 up.
    unsafe {
        let first = u64::from(u32::from_le_bytes(at));
        let control = first | (first + 0x2020_2020) << 32;
        _mm512_multishift_epi64_epi8(_mm512_set1_epi64(control as i64), w)
    }
}

/// As [`Lanes::bits`].
#[inline(always)]
pub(super) fn bits(s: Vbmi, w: __m512i, i: u32) -> __m512i {
    // From a bit further down, since they count twice; before the first is the last of both words'.
    let at = 4 * i as u8;
    and(s, fields(s, w, [at.wrapping_sub(1) & 63, at, at + 1, at + 2]), 2)
}

/// As [`Lanes::pairs`].
#[inline(always)]
pub(super) fn pairs(s: Vbmi, w: __m512i, i: u32) -> __m512i {
    levels(s, w, i as u8)
}

#[inline(always)]
fn and(_: Vbmi, a: __m512i, mask: u8) -> __m512i {
    // SAFETY: AVX-512 by the token.
    unsafe { _mm512_and_si512(a, _mm512_set1_epi8(mask as i8)) }
}

/// As [`Lanes::eights`].
#[inline(always)]
pub(super) fn eights<const N: usize>(
    s: Vbmi,
    book: &Eights<N>,
    low: __m512i,
    top: __m512i,
) -> [[__m512i; 2]; 4] {
    let first = look_up(s, &book.first, low, top);
    let second = look_up(s, &book.second, low, top);
    [
        [levels(s, first, 0), levels(s, second, 0)],
        [levels(s, first, 1), levels(s, second, 1)],
        [levels(s, first, 2), levels(s, second, 2)],
        [levels(s, first, 3), levels(s, second, 3)],
    ]
}

/// Four levels of two bits of each word's byte `p`.
#[inline(always)]
fn levels(s: Vbmi, codes: __m512i, p: u8) -> __m512i {
    and(s, fields(s, codes, [8 * p, 8 * p + 2, 8 * p + 4, 8 * p + 6]), 3)
}

/// As [`Lanes::fours`].
#[inline(always)]
pub(super) fn fours<const N: usize>(
    s: Vbmi,
    book: &Fours<N>,
    low: __m512i,
    top: __m512i,
) -> [__m512i; 4] {
    let first = look_up(s, &book.first, low, top);
    let second = look_up(s, &book.second, low, top);
    [
        values(s, book, first, second, 0),
        values(s, book, first, second, 1),
        values(s, book, first, second, 2),
        values(s, book, first, second, 3),
    ]
}

/// Values of the nibbles of byte `p` of two words.
#[inline(always)]
fn values<const N: usize>(
    s: Vbmi,
    book: &Fours<N>,
    first: __m512i,
    second: __m512i,
    p: u8,
) -> __m512i {
    let at = [8 * p, 8 * p + 4, 8 * p, 8 * p + 4];
    let (first, second) = (fields(s, first, at), fields(s, second, at));
    // SAFETY: AVX-512 BW by the token.
    let both = unsafe { _mm512_mask_blend_epi16(0xaaaa_aaaa, first, second) };
    s.look_up(&book.values, and(s, both, 15))
}
