//! x86-64: AVX2 with FMA and F16C; and the same with AVX-512 VNNI's 256-bit dot product.
//!
//! **Unsafe.** Intrinsics that touch memory take references to arrays of their exact size, and
//! ask for no alignment. The others are safe wherever the features are, which the token proves:
//! its field is private and `new` is the only place that makes one.
#![allow(unsafe_code)]

use super::{LANES, Simd, Task};
use core::arch::x86_64::*;

macro_rules! level {
    ($(#[$doc:meta])* $name:ident, $features:literal, [$($detect:tt),*],
        |$acc:ident, $a:ident, $b:ident| $madd:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(crate) struct $name(());

        impl $name {
            /// The token, if this processor has the features.
            #[inline(always)]
            pub(crate) fn new() -> Option<Self> {
                ($(is_x86_feature_detected!($detect) &&)* true).then_some(Self(()))
            }

            /// Runs `task` compiled for these features.
            #[inline(always)]
            pub(crate) fn run<T: Task>(self, task: T) -> T::Output {
                #[target_feature(enable = $features)]
                fn inner<T: Task>(s: $name, task: T) -> T::Output {
                    task.run(s)
                }
                // SAFETY: the features that `inner` enables are those `new` has detected.
                unsafe { inner(self, task) }
            }
        }

        impl Simd for $name {
            type F = __m256;
            type B = __m256i;
            type H = __m256i;
            type I = __m256i;

            #[inline(always)]
            fn splat(self, x: f32) -> __m256 {
                // SAFETY: AVX by the token.
                unsafe { _mm256_set1_ps(x) }
            }
            #[inline(always)]
            fn load(self, x: &[f32; LANES]) -> __m256 {
                // SAFETY: AVX by the token; 32 bytes are there; no alignment asked.
                unsafe { _mm256_loadu_ps(x.as_ptr()) }
            }
            #[inline(always)]
            fn store(self, x: __m256, out: &mut [f32; LANES]) {
                // SAFETY: AVX by the token; 32 bytes are there; no alignment asked.
                unsafe { _mm256_storeu_ps(out.as_mut_ptr(), x) }
            }
            #[inline(always)]
            fn add(self, a: __m256, b: __m256) -> __m256 {
                // SAFETY: AVX by the token.
                unsafe { _mm256_add_ps(a, b) }
            }
            #[inline(always)]
            fn sub(self, a: __m256, b: __m256) -> __m256 {
                // SAFETY: AVX by the token.
                unsafe { _mm256_sub_ps(a, b) }
            }
            #[inline(always)]
            fn mul(self, a: __m256, b: __m256) -> __m256 {
                // SAFETY: AVX by the token.
                unsafe { _mm256_mul_ps(a, b) }
            }
            #[inline(always)]
            fn div(self, a: __m256, b: __m256) -> __m256 {
                // SAFETY: AVX by the token.
                unsafe { _mm256_div_ps(a, b) }
            }
            #[inline(always)]
            fn max(self, a: __m256, b: __m256) -> __m256 {
                // SAFETY: AVX by the token.
                unsafe { _mm256_max_ps(a, b) }
            }
            #[inline(always)]
            fn min(self, a: __m256, b: __m256) -> __m256 {
                // SAFETY: AVX by the token.
                unsafe { _mm256_min_ps(a, b) }
            }
            #[inline(always)]
            fn fma(self, a: __m256, b: __m256, c: __m256) -> __m256 {
                // SAFETY: FMA by the token.
                unsafe { _mm256_fmadd_ps(a, b, c) }
            }
            #[inline(always)]
            fn exp2(self, n: __m256) -> __m256 {
                // SAFETY: AVX2 by the token.
                unsafe {
                    let biased = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
                    _mm256_castsi256_ps(_mm256_slli_epi32::<23>(biased))
                }
            }
            #[inline(always)]
            fn load_f16(self, x: &[u8; 2 * LANES]) -> __m256 {
                // SAFETY: F16C by the token; 16 bytes are there; no alignment asked.
                unsafe { _mm256_cvtph_ps(_mm_loadu_si128(x.as_ptr().cast())) }
            }
            #[inline(always)]
            fn store_f16(self, x: __m256, out: &mut [u8; 2 * LANES]) {
                // SAFETY: F16C by the token; 16 bytes are there; no alignment asked.
                unsafe {
                    let h = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(x);
                    _mm_storeu_si128(out.as_mut_ptr().cast(), h);
                }
            }
            #[inline(always)]
            fn load_bf16(self, x: &[u8; 2 * LANES]) -> __m256 {
                // SAFETY: AVX2 by the token; 16 bytes are there; no alignment asked.
                unsafe {
                    let h = _mm256_cvtepu16_epi32(_mm_loadu_si128(x.as_ptr().cast()));
                    _mm256_castsi256_ps(_mm256_slli_epi32::<16>(h))
                }
            }
            #[inline(always)]
            fn f16(self, bits: u16) -> f32 {
                // SAFETY: F16C by the token.
                unsafe { _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(i32::from(bits)))) }
            }

            #[inline(always)]
            fn bytes(self, x: &[u8; 32]) -> __m256i {
                // SAFETY: AVX by the token; 32 bytes are there; no alignment asked.
                unsafe { _mm256_loadu_si256(x.as_ptr().cast()) }
            }
            #[inline(always)]
            fn nibbles(self, x: &[u8; 16]) -> __m256i {
                // SAFETY: AVX2 by the token; 16 bytes are there; no alignment asked.
                unsafe {
                    let low = _mm_loadu_si128(x.as_ptr().cast());
                    let both = _mm256_set_m128i(_mm_srli_epi16::<4>(low), low);
                    _mm256_and_si256(both, _mm256_set1_epi8(15))
                }
            }
            #[inline(always)]
            fn splat_u8(self, x: u8) -> __m256i {
                // SAFETY: AVX by the token.
                unsafe { _mm256_set1_epi8(x as i8) }
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
            fn sub_u8(self, a: __m256i, b: __m256i) -> __m256i {
                // SAFETY: AVX2 by the token.
                unsafe { _mm256_sub_epi8(a, b) }
            }
            #[inline(always)]
            fn shr(self, a: __m256i, n: u32) -> __m256i {
                // SAFETY: AVX2 by the token. Bits that came from the neighbour are masked away.
                unsafe {
                    let shifted = _mm256_srl_epi16(a, _mm_cvtsi32_si128(n as i32));
                    _mm256_and_si256(shifted, _mm256_set1_epi8((0xffu8 >> n) as i8))
                }
            }
            #[inline(always)]
            fn shl(self, a: __m256i, n: u32) -> __m256i {
                // SAFETY: AVX2 by the token. Bits that came from the neighbour are masked away.
                unsafe {
                    let shifted = _mm256_sll_epi16(a, _mm_cvtsi32_si128(n as i32));
                    _mm256_and_si256(shifted, _mm256_set1_epi8((0xffu8 << n) as i8))
                }
            }
            #[inline(always)]
            fn widen(self, a: __m256i) -> [__m256; 4] {
                // SAFETY: AVX2 by the token.
                unsafe {
                    let (low, high) = (_mm256_castsi256_si128(a), _mm256_extracti128_si256::<1>(a));
                    let f = |x: __m128i| _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(x));
                    [f(low), f(_mm_srli_si128::<8>(low)), f(high), f(_mm_srli_si128::<8>(high))]
                }
            }

            #[inline(always)]
            fn dot(self, a: __m256i, b: __m256i) -> __m256i {
                // SAFETY: AVX2 by the token. Two products of at most 127^2 do not saturate.
                unsafe { _mm256_maddubs_epi16(a, b) }
            }
            #[inline(always)]
            fn dot_signed(self, a: __m256i, b: __m256i) -> __m256i {
                // SAFETY: AVX2 by the token. |a| is at most 128, b at least -127, so negating b
                // is exact, and two products of at most 128 * 127 do not saturate.
                unsafe { _mm256_maddubs_epi16(_mm256_abs_epi8(a), _mm256_sign_epi8(b, a)) }
            }
            #[inline(always)]
            fn load_i16(self, x: &[u8; 32]) -> __m256i {
                self.bytes(x)
            }
            #[inline(always)]
            fn widen_i8(self, x: &[u8; 16]) -> __m256i {
                // SAFETY: AVX2 by the token; 16 bytes are there; no alignment asked.
                unsafe { _mm256_cvtepi8_epi16(_mm_loadu_si128(x.as_ptr().cast())) }
            }
            #[inline(always)]
            fn twice_u8(self, x: &[u8; 8]) -> __m256i {
                // SAFETY: AVX2 by the token; 8 bytes are there; no alignment asked.
                unsafe {
                    let x = _mm_loadl_epi64(x.as_ptr().cast());
                    _mm256_cvtepu8_epi16(_mm_unpacklo_epi8(x, x))
                }
            }
            #[inline(always)]
            fn splat_i16(self, low: i16, high: i16) -> __m256i {
                // SAFETY: AVX2 by the token.
                unsafe { _mm256_set_m128i(_mm_set1_epi16(high), _mm_set1_epi16(low)) }
            }
            #[inline(always)]
            fn mul_i16(self, a: __m256i, b: __m256i) -> __m256i {
                // SAFETY: AVX2 by the token.
                unsafe { _mm256_mullo_epi16(a, b) }
            }
            #[inline(always)]
            fn zero(self) -> __m256i {
                // SAFETY: AVX by the token.
                unsafe { _mm256_setzero_si256() }
            }
            #[inline(always)]
            fn madd(self, $acc: __m256i, $a: __m256i, $b: __m256i) -> __m256i {
                // SAFETY: AVX2, and VNNI where it is used, by the token.
                unsafe { $madd }
            }
            #[inline(always)]
            fn to_f32(self, a: __m256i) -> __m256 {
                // SAFETY: AVX by the token.
                unsafe { _mm256_cvtepi32_ps(a) }
            }
            #[inline(always)]
            fn sum(self, a: __m256) -> f32 {
                // SAFETY: AVX by the token. The order is that of the trait's own sum.
                unsafe {
                    let q = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
                    let d = _mm_add_ps(q, _mm_movehl_ps(q, q));
                    _mm_cvtss_f32(_mm_add_ss(d, _mm_shuffle_ps::<1>(d, d)))
                }
            }
        }
    };
}

level!(
    /// AVX2, FMA, F16C.
    Avx2,
    "avx2,fma,f16c",
    ["avx2", "fma", "f16c"],
    |acc, a, b| _mm256_add_epi32(acc, _mm256_madd_epi16(a, b))
);

level!(
    /// AVX2, FMA, F16C and AVX-512 VNNI at 256 bits.
    Vnni,
    "avx2,fma,f16c,avx512f,avx512vl,avx512vnni",
    ["avx2", "fma", "f16c", "avx512f", "avx512vl", "avx512vnni"],
    |acc, a, b| _mm256_dpwssd_epi32(acc, a, b)
);
