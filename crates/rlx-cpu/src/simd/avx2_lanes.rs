//! x86-64 with AVX2: 8 rows in a vector.
//!
//! **Unsafe.** As in `avx2.rs`: intrinsics that touch memory take references to arrays of their exact
//! size and ask for no alignment; the others are safe where the features are, which the token proves.
//! A gather's indices are masked to the table's length.
#![allow(unsafe_code)]

use super::avx2::Avx2;
use super::lanes::{Lanes, four, head, head_f32};
use core::arch::x86_64::*;

/// Sums of pairs of products in 16 bits, and what was settled of them.
#[derive(Clone, Copy)]
pub(crate) struct Sums {
    pairs: __m256i,
    settled: __m256i,
}

/// Neighbours of 16 bits added, in 32.
#[inline(always)]
fn widened(_: Avx2, pairs: __m256i) -> __m256i {
    // SAFETY: AVX2 by the token.
    unsafe { _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)) }
}

impl Lanes for Avx2 {
    type V = __m256i;
    type G = __m256;
    type A = Sums;
    type AS = __m256i;
    const LANES: usize = 8;
    const TILE: usize = 4;
    const MOST: i32 = i16::MAX as i32;

    #[inline(always)]
    fn words(self, x: &[u8]) -> __m256i {
        // SAFETY: AVX2 by the token; 32 bytes are there; no alignment asked.
        unsafe { _mm256_loadu_si256(head::<32>(x).as_ptr().cast()) }
    }
    #[inline(always)]
    fn fetch(self, line: *const u8) {
        // SAFETY: part of x86-64; a prefetch reads nothing that the program sees, and from where there
        // is nothing it does nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(line.cast()) }
    }
    #[inline(always)]
    fn bytes(self, x: &[u8]) -> __m256i {
        // SAFETY: AVX2 by the token; 8 bytes are there; no alignment asked.
        unsafe { _mm256_cvtepu8_epi32(_mm_loadl_epi64(head::<8>(x).as_ptr().cast())) }
    }
    #[inline(always)]
    fn signed_bytes(self, x: &[u8]) -> __m256i {
        // SAFETY: AVX2 by the token; 8 bytes are there; no alignment asked.
        unsafe { _mm256_cvtepi8_epi32(_mm_loadl_epi64(head::<8>(x).as_ptr().cast())) }
    }
    #[inline(always)]
    fn put_words(self, x: __m256i, out: &mut [u8]) {
        if let Some(out) = out.first_chunk_mut::<32>() {
            // SAFETY: AVX2 by the token; 32 bytes are there; no alignment asked.
            unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), x) }
        }
    }
    #[inline(always)]
    fn set(self, x: u32) -> __m256i {
        // SAFETY: AVX2 by the token.
        unsafe { _mm256_set1_epi32(x as i32) }
    }
    #[inline(always)]
    fn and(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: AVX2 by the token.
        unsafe { _mm256_and_si256(a, b) }
    }
    #[inline(always)]
    fn or(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: AVX2 by the token.
        unsafe { _mm256_or_si256(a, b) }
    }
    #[inline(always)]
    fn xor(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: AVX2 by the token.
        unsafe { _mm256_xor_si256(a, b) }
    }
    #[inline(always)]
    fn plus(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: AVX2 by the token.
        unsafe { _mm256_add_epi32(a, b) }
    }
    #[inline(always)]
    fn minus(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: AVX2 by the token.
        unsafe { _mm256_sub_epi32(a, b) }
    }
    #[inline(always)]
    fn times(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: AVX2 by the token.
        unsafe { _mm256_mullo_epi32(a, b) }
    }
    #[inline(always)]
    fn equal(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: AVX2 by the token.
        unsafe { _mm256_cmpeq_epi32(a, b) }
    }
    #[inline(always)]
    fn left(self, a: __m256i, n: u32) -> __m256i {
        // SAFETY: AVX2 by the token.
        unsafe { _mm256_sll_epi32(a, _mm_cvtsi32_si128(n as i32)) }
    }
    #[inline(always)]
    fn right(self, a: __m256i, n: u32) -> __m256i {
        // SAFETY: AVX2 by the token.
        unsafe { _mm256_srl_epi32(a, _mm_cvtsi32_si128(n as i32)) }
    }
    #[inline(always)]
    fn signed_right(self, a: __m256i, n: u32) -> __m256i {
        // SAFETY: AVX2 by the token.
        unsafe { _mm256_sra_epi32(a, _mm_cvtsi32_si128(n as i32)) }
    }
    #[inline(always)]
    fn minus_bytes(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: AVX2 by the token.
        unsafe { _mm256_sub_epi8(a, b) }
    }
    #[inline(always)]
    fn look_up(self, table: &[u8; 16], a: __m256i) -> __m256i {
        // SAFETY: AVX2 by the token; 16 bytes are there; no alignment asked.
        unsafe {
            let table = _mm256_broadcastsi128_si256(_mm_loadu_si128(table.as_ptr().cast()));
            _mm256_shuffle_epi8(table, a)
        }
    }
    #[inline(always)]
    fn gather(self, table: &[u32], a: __m256i) -> __m256i {
        assert!(table.len().is_power_of_two() && table.len() <= 1 << 20);
        // SAFETY: AVX2 by the token; masked, every index lies in the table, whose length was
        // just looked at.
        unsafe {
            let a = _mm256_and_si256(a, _mm256_set1_epi32(table.len() as i32 - 1));
            _mm256_i32gather_epi32::<4>(table.as_ptr().cast(), a)
        }
    }

    #[inline(always)]
    fn start(self, sum: i32) -> Sums {
        Sums { pairs: self.set(0), settled: self.set(sum as u32) }
    }
    #[inline(always)]
    fn dot(self, acc: Sums, w: __m256i, x: &[u8]) -> Sums {
        // SAFETY: AVX2 by the token. Two products of at most 127^2 do not saturate.
        let pairs = unsafe {
            let pairs = _mm256_maddubs_epi16(w, _mm256_set1_epi32(four(x) as i32));
            _mm256_add_epi16(acc.pairs, pairs)
        };
        Sums { pairs, ..acc }
    }
    #[inline(always)]
    fn settle(self, acc: Sums) -> Sums {
        Sums { pairs: self.set(0), settled: self.total(acc) }
    }
    #[inline(always)]
    fn total(self, acc: Sums) -> __m256i {
        self.plus(acc.settled, widened(self, acc.pairs))
    }
    #[inline(always)]
    fn zero_signed(self, _: i32) -> __m256i {
        self.set(0)
    }
    #[inline(always)]
    fn dot_signed(self, acc: __m256i, w: __m256i, x: &[u8]) -> __m256i {
        // SAFETY: AVX2 by the token. |w| is at most 128 and x at least -127, so negating x is exact,
        // and two products of at most 128 * 127 do not saturate.
        let pairs = unsafe {
            let x = _mm256_sign_epi8(_mm256_set1_epi32(four(x) as i32), w);
            _mm256_maddubs_epi16(_mm256_abs_epi8(w), x)
        };
        self.plus(acc, widened(self, pairs))
    }
    #[inline(always)]
    fn total_signed(self, acc: __m256i) -> __m256i {
        acc
    }

    #[inline(always)]
    fn floats(self, a: __m256i) -> __m256 {
        // SAFETY: AVX2 by the token.
        unsafe { _mm256_cvtepi32_ps(a) }
    }
    #[inline(always)]
    fn halves(self, a: __m256i) -> __m256 {
        // SAFETY: AVX2 by the token.
        unsafe {
            let low = _mm256_and_si256(a, _mm256_set1_epi32(0xffff));
            let packed = _mm256_permute4x64_epi64::<0b1000>(_mm256_packus_epi32(low, low));
            _mm256_cvtph_ps(_mm256_castsi256_si128(packed))
        }
    }
    #[inline(always)]
    fn as_floats(self, a: __m256i) -> __m256 {
        // SAFETY: AVX2 by the token.
        unsafe { _mm256_castsi256_ps(a) }
    }
    #[inline(always)]
    fn take_f32(self, x: &[u8]) -> __m256 {
        self.as_floats(self.words(x))
    }
    #[inline(always)]
    fn take_f16(self, x: &[u8]) -> __m256 {
        // SAFETY: AVX2 by the token; 16 bytes are there; no alignment asked.
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(head::<16>(x).as_ptr().cast())) }
    }
    #[inline(always)]
    fn take_bf16(self, x: &[u8]) -> __m256 {
        // SAFETY: AVX2 by the token; 16 bytes are there; no alignment asked.
        unsafe {
            let h = _mm256_cvtepu16_epi32(_mm_loadu_si128(head::<16>(x).as_ptr().cast()));
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(h))
        }
    }
    #[inline(always)]
    fn take(self, x: &[f32]) -> __m256 {
        // SAFETY: AVX2 by the token; 32 bytes are there; no alignment asked.
        unsafe { _mm256_loadu_ps(head_f32::<8>(x).as_ptr()) }
    }
    #[inline(always)]
    fn put(self, x: __m256, out: &mut [f32]) {
        if let Some(out) = out.first_chunk_mut::<8>() {
            // SAFETY: AVX2 by the token; 32 bytes are there; no alignment asked.
            unsafe { _mm256_storeu_ps(out.as_mut_ptr(), x) }
        }
    }
    #[inline(always)]
    fn all(self, x: f32) -> __m256 {
        // SAFETY: AVX2 by the token.
        unsafe { _mm256_set1_ps(x) }
    }
    #[inline(always)]
    fn product(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: AVX2 by the token.
        unsafe { _mm256_mul_ps(a, b) }
    }
    #[inline(always)]
    fn add_product(self, a: __m256, b: __m256, c: __m256) -> __m256 {
        // SAFETY: AVX2 by the token.
        unsafe { _mm256_fmadd_ps(a, b, c) }
    }
    #[inline(always)]
    fn across(self, a: __m256) -> f32 {
        // SAFETY: AVX by the token.
        unsafe {
            let q = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let d = _mm_add_ps(q, _mm_movehl_ps(q, q));
            _mm_cvtss_f32(_mm_add_ss(d, _mm_shuffle_ps::<1>(d, d)))
        }
    }
}
