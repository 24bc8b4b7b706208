//! x86-64 with AVX-512 VNNI: 16 rows in a vector. With VBMI codebooks are read otherwise (`avx512_bytes.rs`).
//!
//! **Unsafe.** As in `avx2.rs`: intrinsics that touch memory take references to arrays of their exact
//! size and ask for no alignment; the others are safe where the features are, which the token proves.
//! A gather's indices are masked to the table's length.
#![allow(unsafe_code)]

use super::avx2::{Vbmi, Vnni};
use super::avx512_bytes;
use super::books::{Eights, Fours};
use super::lanes::{Lanes, four, head, head_f32};
use core::arch::x86_64::*;

macro_rules! lanes {
    ($name:ident, $($own:tt)*) => {
        impl Lanes for $name {
            type V = __m512i;
            type G = __m512;
            type A = __m512i;
            type AS = __m512i;
            const LANES: usize = 16;
            const TILE: usize = 8;
            const FLOATS: usize = 12;

            #[inline(always)]
            fn words(self, x: &[u8]) -> __m512i {
                // SAFETY: AVX-512 by the token; 64 bytes are there; no alignment asked.
                unsafe { _mm512_loadu_si512(head::<64>(x).as_ptr().cast()) }
            }
            #[inline(always)]
            fn fetch(self, line: *const u8) {
                // SAFETY: part of x86-64; a prefetch reads nothing that the program sees, and from where there
                // is nothing it does nothing.
                unsafe { _mm_prefetch::<_MM_HINT_T1>(line.cast()) }
            }
            #[inline(always)]
            fn bytes(self, x: &[u8]) -> __m512i {
                // SAFETY: AVX-512 by the token; 16 bytes are there; no alignment asked.
                unsafe { _mm512_cvtepu8_epi32(_mm_loadu_si128(head::<16>(x).as_ptr().cast())) }
            }
            #[inline(always)]
            fn signed_bytes(self, x: &[u8]) -> __m512i {
                // SAFETY: AVX-512 by the token; 16 bytes are there; no alignment asked.
                unsafe { _mm512_cvtepi8_epi32(_mm_loadu_si128(head::<16>(x).as_ptr().cast())) }
            }
            #[inline(always)]
            fn put_words(self, x: __m512i, out: &mut [u8]) {
                if let Some(out) = out.first_chunk_mut::<64>() {
                    // SAFETY: AVX-512 by the token; 64 bytes are there; no alignment asked.
                    unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast(), x) }
                }
            }
            #[inline(always)]
            fn set(self, x: u32) -> __m512i {
                // SAFETY: AVX-512 by the token.
                unsafe { _mm512_set1_epi32(x as i32) }
            }
            #[inline(always)]
            fn and(self, a: __m512i, b: __m512i) -> __m512i {
                // SAFETY: AVX-512 by the token.
                unsafe { _mm512_and_si512(a, b) }
            }
            #[inline(always)]
            fn or(self, a: __m512i, b: __m512i) -> __m512i {
                // SAFETY: AVX-512 by the token.
                unsafe { _mm512_or_si512(a, b) }
            }
            #[inline(always)]
            fn xor(self, a: __m512i, b: __m512i) -> __m512i {
                // SAFETY: AVX-512 by the token.
                unsafe { _mm512_xor_si512(a, b) }
            }
            #[inline(always)]
            fn plus(self, a: __m512i, b: __m512i) -> __m512i {
                // SAFETY: AVX-512 by the token.
                unsafe { _mm512_add_epi32(a, b) }
            }
            #[inline(always)]
            fn minus(self, a: __m512i, b: __m512i) -> __m512i {
                // SAFETY: AVX-512 by the token.
                unsafe { _mm512_sub_epi32(a, b) }
            }
            #[inline(always)]
            fn times(self, a: __m512i, b: __m512i) -> __m512i {
                // SAFETY: AVX-512 by the token.
                unsafe { _mm512_mullo_epi32(a, b) }
            }
            #[inline(always)]
            fn equal(self, a: __m512i, b: __m512i) -> __m512i {
                // SAFETY: AVX-512 by the token.
                unsafe { _mm512_maskz_set1_epi32(_mm512_cmpeq_epi32_mask(a, b), -1) }
            }
            #[inline(always)]
            fn left(self, a: __m512i, n: u32) -> __m512i {
                // SAFETY: AVX-512 by the token.
                unsafe { _mm512_sll_epi32(a, _mm_cvtsi32_si128(n as i32)) }
            }
            #[inline(always)]
            fn right(self, a: __m512i, n: u32) -> __m512i {
                // SAFETY: AVX-512 by the token.
                unsafe { _mm512_srl_epi32(a, _mm_cvtsi32_si128(n as i32)) }
            }
            #[inline(always)]
            fn signed_right(self, a: __m512i, n: u32) -> __m512i {
                // SAFETY: AVX-512 by the token.
                unsafe { _mm512_sra_epi32(a, _mm_cvtsi32_si128(n as i32)) }
            }
            #[inline(always)]
            fn minus_bytes(self, a: __m512i, b: __m512i) -> __m512i {
                // SAFETY: AVX-512 BW by the token.
                unsafe { _mm512_sub_epi8(a, b) }
            }
            #[inline(always)]
            fn look_up(self, table: &[u8; 16], a: __m512i) -> __m512i {
                // SAFETY: AVX-512 BW by the token; 16 bytes are there; no alignment asked.
                unsafe {
                    let table = _mm512_broadcast_i32x4(_mm_loadu_si128(table.as_ptr().cast()));
                    _mm512_shuffle_epi8(table, a)
                }
            }
            #[inline(always)]
            fn gather(self, table: &[u32], a: __m512i) -> __m512i {
                assert!(table.len().is_power_of_two() && table.len() <= 1 << 20);
                // SAFETY: AVX-512 by the token; masked, every index lies in the table, whose length was
                // just looked at.
                unsafe {
                    let a = _mm512_and_si512(a, _mm512_set1_epi32(table.len() as i32 - 1));
                    _mm512_i32gather_epi32::<4>(a, table.as_ptr().cast())
                }
            }

            #[inline(always)]
            fn with_signs(self, w: [__m512i; 2], signs: __m512i, p: usize) -> [__m512i; 2] {
                // SAFETY: AVX-512 BW by the token. A word's byte `p` to all four of it; each looks at its bit.
                unsafe {
                    let at = i32::from_le_bytes([p as u8; 4]);
                    let every = _mm512_set4_epi32(at + 0x0c0c_0c0c, at + 0x0808_0808, at + 0x0404_0404, at);
                    let signs = _mm512_shuffle_epi8(signs, every);
                    let minus = _mm512_test_epi8_mask(signs, _mm512_set1_epi32(0x0804_0201));
                    let a = _mm512_mask_sub_epi8(w[0], minus, _mm512_setzero_si512(), w[0]);
                    let minus = _mm512_test_epi8_mask(signs, _mm512_set1_epi32(0x8040_2010_u32 as i32));
                    let b = _mm512_mask_sub_epi8(w[1], minus, _mm512_setzero_si512(), w[1]);
                    [a, b]
                }
            }

            #[inline(always)]
            fn start(self, sum: i32) -> __m512i {
                self.set(sum as u32)
            }
            #[inline(always)]
            fn dot(self, acc: __m512i, w: __m512i, x: &[u8]) -> __m512i {
                // SAFETY: AVX-512 VNNI by the token.
                unsafe { _mm512_dpbusd_epi32(acc, w, _mm512_set1_epi32(four(x) as i32)) }
            }
            #[inline(always)]
            fn total(self, acc: __m512i) -> __m512i {
                acc
            }
            #[inline(always)]
            fn zero_signed(self, sum: i32) -> __m512i {
                // `dot_signed` adds 128 to every weight.
                self.set((-128 * sum) as u32)
            }
            #[inline(always)]
            fn dot_signed(self, acc: __m512i, w: __m512i, x: &[u8]) -> __m512i {
                self.dot(acc, self.xor(w, self.set(0x8080_8080)), x)
            }
            #[inline(always)]
            fn total_signed(self, acc: __m512i) -> __m512i {
                acc
            }

            #[inline(always)]
            fn floats(self, a: __m512i) -> __m512 {
                // SAFETY: AVX-512 by the token.
                unsafe { _mm512_cvtepi32_ps(a) }
            }
            #[inline(always)]
            fn halves(self, a: __m512i) -> __m512 {
                // SAFETY: AVX-512 by the token.
                unsafe { _mm512_cvtph_ps(_mm512_cvtepi32_epi16(a)) }
            }
            #[inline(always)]
            fn as_floats(self, a: __m512i) -> __m512 {
                // SAFETY: AVX-512 by the token.
                unsafe { _mm512_castsi512_ps(a) }
            }
            #[inline(always)]
            fn take_f32(self, x: &[u8]) -> __m512 {
                self.as_floats(self.words(x))
            }
            #[inline(always)]
            fn take_f16(self, x: &[u8]) -> __m512 {
                // SAFETY: AVX-512 by the token; 32 bytes are there; no alignment asked.
                unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(head::<32>(x).as_ptr().cast())) }
            }
            #[inline(always)]
            fn take_bf16(self, x: &[u8]) -> __m512 {
                // SAFETY: AVX-512 by the token; 32 bytes are there; no alignment asked.
                unsafe {
                    let h = _mm512_cvtepu16_epi32(_mm256_loadu_si256(head::<32>(x).as_ptr().cast()));
                    _mm512_castsi512_ps(_mm512_slli_epi32::<16>(h))
                }
            }
            #[inline(always)]
            fn take(self, x: &[f32]) -> __m512 {
                // SAFETY: AVX-512 by the token; 64 bytes are there; no alignment asked.
                unsafe { _mm512_loadu_ps(head_f32::<16>(x).as_ptr()) }
            }
            #[inline(always)]
            fn put(self, x: __m512, out: &mut [f32]) {
                if let Some(out) = out.first_chunk_mut::<16>() {
                    // SAFETY: AVX-512 by the token; 64 bytes are there; no alignment asked.
                    unsafe { _mm512_storeu_ps(out.as_mut_ptr(), x) }
                }
            }
            #[inline(always)]
            fn all(self, x: f32) -> __m512 {
                // SAFETY: AVX-512 by the token.
                unsafe { _mm512_set1_ps(x) }
            }
            #[inline(always)]
            fn product(self, a: __m512, b: __m512) -> __m512 {
                // SAFETY: AVX-512 by the token.
                unsafe { _mm512_mul_ps(a, b) }
            }
            #[inline(always)]
            fn add_product(self, a: __m512, b: __m512, c: __m512) -> __m512 {
                // SAFETY: AVX-512 by the token.
                unsafe { _mm512_fmadd_ps(a, b, c) }
            }
            #[inline(always)]
            fn across(self, a: __m512) -> f32 {
                // SAFETY: AVX-512 by the token.
                unsafe { _mm512_reduce_add_ps(a) }
            }

            $($own)*
        }
    };
}

lanes!(Vnni,);

lanes! {
    Vbmi,
    #[inline(always)]
    fn bits(self, w: __m512i, i: usize, up: u32) -> __m512i {
        avx512_bytes::bits(self, w, i, up)
    }
    #[inline(always)]
    fn pairs(self, w: __m512i, i: usize) -> __m512i {
        avx512_bytes::pairs(self, w, i)
    }
    #[inline(always)]
    fn eights<const N: usize>(
        self,
        book: &Eights<N>,
        low: __m512i,
        top: __m512i,
    ) -> [[__m512i; 2]; 4] {
        avx512_bytes::eights(self, book, low, top)
    }
    #[inline(always)]
    fn fours<const N: usize>(self, book: &Fours<N>, low: __m512i, top: __m512i) -> [__m512i; 4] {
        avx512_bytes::fours(self, book, low, top)
    }
}
