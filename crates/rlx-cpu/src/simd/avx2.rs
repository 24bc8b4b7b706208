//! x86-64: AVX2 with FMA and F16C; the same where AVX-512 VNNI is there too; and VBMI besides.
//!
//! **Unsafe.** Intrinsics that touch memory take references to arrays of their exact size, and
//! ask for no alignment. The others are safe wherever the features are, which the token proves:
//! its field is private and `new` is the only place that makes one.
#![allow(unsafe_code)]

use super::{LANES, Simd, Task};
use core::arch::x86_64::*;

macro_rules! level {
    ($(#[$doc:meta])* $name:ident, $features:literal, [$($detect:tt),*]) => {
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
            fn store_f16(self, x: __m256, out: &mut [u8; 2 * LANES]) {
                // SAFETY: F16C by the token; 16 bytes are there; no alignment asked.
                unsafe {
                    let h = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(x);
                    _mm_storeu_si128(out.as_mut_ptr().cast(), h);
                }
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
    ["avx2", "fma", "f16c"]
);

level!(
    /// AVX2, FMA, F16C and AVX-512 VNNI.
    Vnni,
    "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni",
    ["avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512vl", "avx512vnni"]
);

level!(
    /// AVX2, FMA, F16C, AVX-512 VNNI and VBMI.
    Vbmi,
    "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni,avx512vbmi",
    ["avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512vl", "avx512vnni", "avx512vbmi"]
);
