//! Codebooks and single bits by AVX-512's permutations of bytes (VBMI): 64 lookups in 128 bytes take one
//! instruction where a gather of 16 words takes some 25 cycles, and 64 fields of bits take one.
//!
//! **Unsafe.** The functions are called at [`Vbmi`](super::avx2::Vbmi) alone, whose token says that the
//! features are there; loads are of whole parts of arrays and ask for no alignment.
#![allow(unsafe_code)]

use super::avx2::Vbmi;
use super::books::{Eights, Fours};
use super::lanes::Lanes;
use crate::written_out::{each, list};
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

/// Entry `low + 256 top` of the table for every byte.
#[inline(always)]
fn look_up<const N: usize>(s: Vbmi, table: &[u8; N], low: __m512i, top: __m512i) -> __m512i {
    const { assert!(N == 256 || N == 512 || N == 1024 || N == 2048) };
    let mut found = [low; 8];
    each!(I in 0 1 2 3 4 5 6 7 => if I < N / 256 { found[I] = look_up_256(s, table, I, low) });
    each!(I in 0 1 2 3 => if I < N / 512 { found[I] = choose(s, top, 1, found[2 * I], found[2 * I + 1]) });
    each!(I in 0 1 => if I < N / 1024 { found[I] = choose(s, top, 2, found[2 * I], found[2 * I + 1]) });
    if N == 2048 { choose(s, top, 4, found[0], found[1]) } else { found[0] }
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
pub(super) fn bits(s: Vbmi, w: __m512i, i: usize, up: u32) -> __m512i {
    // A field begins `up` bits before its own; before bit 0 stands the last of both words.
    let at = list!(J in 0 1 2 3 => (4 * i + J).wrapping_sub(up as usize) as u8 & 63);
    and(s, fields(s, w, at), 1 << up)
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
    let codes = list!(I in 0 1 => look_up(s, &book.codes[I], low, top));
    list!(P in 0 1 2 3 => list!(I in 0 1 => pairs(s, codes[I], P)))
}

/// As [`Lanes::pairs`].
#[inline(always)]
pub(super) fn pairs(s: Vbmi, w: __m512i, i: usize) -> __m512i {
    and(s, fields(s, w, list!(J in 0 1 2 3 => (8 * i + 2 * J) as u8)), 3)
}

/// As [`Lanes::fours`].
#[inline(always)]
pub(super) fn fours<const N: usize>(
    s: Vbmi,
    book: &Fours<N>,
    low: __m512i,
    top: __m512i,
) -> [__m512i; 4] {
    let codes = list!(I in 0 1 => look_up(s, &book.codes[I], low, top));
    list!(P in 0 1 2 3 => {
        const AT: [u8; 4] = [8 * P as u8, 8 * P as u8 + 4, 8 * P as u8, 8 * P as u8 + 4];
        let nibbles = list!(I in 0 1 => fields(s, codes[I], AT));
        // SAFETY: AVX-512 BW by the token.
        let both = unsafe { _mm512_mask_blend_epi16(0xaaaa_aaaa, nibbles[0], nibbles[1]) };
        s.look_up(&book.values, and(s, both, 15))
    })
}
