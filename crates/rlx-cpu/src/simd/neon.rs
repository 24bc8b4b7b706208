//! AArch64: a vector of 8 f32 is a pair of 4. Advanced SIMD is part of every AArch64 target that
//! Rust has. Its products widen to 16 bits; `neon_dot.rs` is for processors with dot products.
//!
//! **Unsafe.** Intrinsics that touch memory take references to arrays of their exact size, and
//! ask for no alignment beyond the element's. The others need the `neon` feature, which
//! `new` stands for: the target has it.
#![allow(unsafe_code)]

use super::{LANES, Simd};
use core::arch::aarch64::*;

/// Advanced SIMD.
#[derive(Clone, Copy)]
pub(crate) struct Neon(());

impl Neon {
    /// The token: every AArch64 target has the feature.
    #[inline(always)]
    pub(crate) fn new() -> Self {
        const { assert!(cfg!(target_feature = "neon")) }
        Self(())
    }
}

#[inline(always)]
fn zip<A: Copy, B: Copy, C>(a: [A; 2], b: [B; 2], f: impl Fn(A, B) -> C) -> [C; 2] {
    [f(a[0], b[0]), f(a[1], b[1])]
}

#[inline(always)]
fn each<A: Copy, C>(a: [A; 2], f: impl Fn(A) -> C) -> [C; 2] {
    [f(a[0]), f(a[1])]
}

impl Simd for Neon {
    type F = [float32x4_t; 2];

    #[inline(always)]
    fn splat(self, x: f32) -> Self::F {
        // SAFETY: neon by the target.
        unsafe { [vdupq_n_f32(x); 2] }
    }
    #[inline(always)]
    fn load(self, x: &[f32; LANES]) -> Self::F {
        // SAFETY: neon by the target; 8 floats are there, the second load is 4 in.
        unsafe { [vld1q_f32(x.as_ptr()), vld1q_f32(x.as_ptr().add(4))] }
    }
    #[inline(always)]
    fn store(self, x: Self::F, out: &mut [f32; LANES]) {
        // SAFETY: neon by the target; 8 floats are there, the second store is 4 in.
        unsafe {
            vst1q_f32(out.as_mut_ptr(), x[0]);
            vst1q_f32(out.as_mut_ptr().add(4), x[1]);
        }
    }
    #[inline(always)]
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        // SAFETY: neon by the target.
        zip(a, b, |a, b| unsafe { vaddq_f32(a, b) })
    }
    #[inline(always)]
    fn sub(self, a: Self::F, b: Self::F) -> Self::F {
        // SAFETY: neon by the target.
        zip(a, b, |a, b| unsafe { vsubq_f32(a, b) })
    }
    #[inline(always)]
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        // SAFETY: neon by the target.
        zip(a, b, |a, b| unsafe { vmulq_f32(a, b) })
    }
    #[inline(always)]
    fn div(self, a: Self::F, b: Self::F) -> Self::F {
        // SAFETY: neon by the target.
        zip(a, b, |a, b| unsafe { vdivq_f32(a, b) })
    }
    #[inline(always)]
    fn max(self, a: Self::F, b: Self::F) -> Self::F {
        // SAFETY: neon by the target.
        zip(a, b, |a, b| unsafe { vbslq_f32(vcgtq_f32(a, b), a, b) })
    }
    #[inline(always)]
    fn min(self, a: Self::F, b: Self::F) -> Self::F {
        // SAFETY: neon by the target.
        zip(a, b, |a, b| unsafe { vbslq_f32(vcltq_f32(a, b), a, b) })
    }
    #[inline(always)]
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        // SAFETY: neon by the target.
        unsafe { [vfmaq_f32(c[0], a[0], b[0]), vfmaq_f32(c[1], a[1], b[1])] }
    }
    #[inline(always)]
    fn exp2(self, n: Self::F) -> Self::F {
        // SAFETY: neon by the target.
        each(n, |n| unsafe {
            let biased = vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(127));
            vreinterpretq_f32_s32(vshlq_n_s32::<23>(biased))
        })
    }
    #[inline(always)]
    fn store_f16(self, x: Self::F, out: &mut [u8; 2 * LANES]) {
        let mut v = [0.0; LANES];
        self.store(x, &mut v);
        for (i, x) in v.into_iter().enumerate() {
            [out[2 * i], out[2 * i + 1]] = half::f16::from_f32(x).to_le_bytes();
        }
    }
}
