//! AArch64: a vector of 8 f32 is a pair of 4. Advanced SIMD is part of every AArch64 target that
//! Rust has; the dot product instructions are not stable yet, so products widen to 16 bits.
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

#[inline(always)]
fn load16(x: &[u8; 16]) -> uint8x16_t {
    // SAFETY: neon by the target; 16 bytes are there.
    unsafe { vld1q_u8(x.as_ptr()) }
}

/// Four f16 in the low halves of 32-bit lanes to f32.
#[inline(always)]
fn f16x4(h: uint32x4_t) -> float32x4_t {
    // SAFETY: neon by the target.
    unsafe {
        let and = |mask: u32| vandq_u32(h, vdupq_n_u32(mask));
        let magnitude = vreinterpretq_f32_u32(vshlq_n_u32::<13>(and(0x7fff)));
        let factor = vreinterpretq_f32_u32(vdupq_n_u32(0x7780_0000));
        let scaled = vreinterpretq_u32_f32(vmulq_f32(magnitude, factor));
        let is_special = vceqq_u32(and(0x7c00), vdupq_n_u32(0x7c00));
        let special = vandq_u32(is_special, vdupq_n_u32(0x7f80_0000));
        let sign = vshlq_n_u32::<16>(and(0x8000));
        vreinterpretq_f32_u32(vorrq_u32(vorrq_u32(scaled, special), sign))
    }
}

impl Simd for Neon {
    type F = [float32x4_t; 2];
    type B = [uint8x16_t; 2];
    type H = [int16x8_t; 2];
    type I = [int32x4_t; 2];

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
    fn load_f16(self, x: &[u8; 2 * LANES]) -> Self::F {
        // SAFETY: neon by the target.
        unsafe {
            let h = vreinterpretq_u16_u8(load16(x));
            [f16x4(vmovl_u16(vget_low_u16(h))), f16x4(vmovl_high_u16(h))]
        }
    }
    #[inline(always)]
    fn store_f16(self, x: Self::F, out: &mut [u8; 2 * LANES]) {
        let mut v = [0.0; LANES];
        self.store(x, &mut v);
        for (i, x) in v.into_iter().enumerate() {
            [out[2 * i], out[2 * i + 1]] = half::f16::from_f32(x).to_le_bytes();
        }
    }
    #[inline(always)]
    fn load_bf16(self, x: &[u8; 2 * LANES]) -> Self::F {
        // SAFETY: neon by the target.
        unsafe {
            let h = vreinterpretq_u16_u8(load16(x));
            each([vmovl_u16(vget_low_u16(h)), vmovl_high_u16(h)], |h| {
                vreinterpretq_f32_u32(vshlq_n_u32::<16>(h))
            })
        }
    }

    #[inline(always)]
    fn bytes(self, x: &[u8; 32]) -> Self::B {
        // SAFETY: neon by the target; 32 bytes are there, the second load is 16 in.
        unsafe { [vld1q_u8(x.as_ptr()), vld1q_u8(x.as_ptr().add(16))] }
    }
    #[inline(always)]
    fn nibbles(self, x: &[u8; 16]) -> Self::B {
        let x = load16(x);
        // SAFETY: neon by the target.
        unsafe { [vandq_u8(x, vdupq_n_u8(15)), vshrq_n_u8::<4>(x)] }
    }
    #[inline(always)]
    fn splat_u8(self, x: u8) -> Self::B {
        // SAFETY: neon by the target.
        unsafe { [vdupq_n_u8(x); 2] }
    }
    #[inline(always)]
    fn and(self, a: Self::B, b: Self::B) -> Self::B {
        // SAFETY: neon by the target.
        zip(a, b, |a, b| unsafe { vandq_u8(a, b) })
    }
    #[inline(always)]
    fn or(self, a: Self::B, b: Self::B) -> Self::B {
        // SAFETY: neon by the target.
        zip(a, b, |a, b| unsafe { vorrq_u8(a, b) })
    }
    #[inline(always)]
    fn sub_u8(self, a: Self::B, b: Self::B) -> Self::B {
        // SAFETY: neon by the target.
        zip(a, b, |a, b| unsafe { vsubq_u8(a, b) })
    }
    #[inline(always)]
    fn shr(self, a: Self::B, n: u32) -> Self::B {
        // SAFETY: neon by the target. A negative count shifts right.
        each(a, |a| unsafe { vshlq_u8(a, vdupq_n_s8(-(n as i8))) })
    }
    #[inline(always)]
    fn shl(self, a: Self::B, n: u32) -> Self::B {
        // SAFETY: neon by the target.
        each(a, |a| unsafe { vshlq_u8(a, vdupq_n_s8(n as i8)) })
    }
    #[inline(always)]
    fn widen(self, a: Self::B) -> [Self::F; 4] {
        // SAFETY: neon by the target.
        unsafe {
            let a = each(a, |a| vreinterpretq_s8_u8(a));
            let quarter = |h: int16x8_t| {
                let low = vcvtq_f32_s32(vmovl_s16(vget_low_s16(h)));
                [low, vcvtq_f32_s32(vmovl_high_s16(h))]
            };
            [
                quarter(vmovl_s8(vget_low_s8(a[0]))),
                quarter(vmovl_high_s8(a[0])),
                quarter(vmovl_s8(vget_low_s8(a[1]))),
                quarter(vmovl_high_s8(a[1])),
            ]
        }
    }

    #[inline(always)]
    fn dot(self, a: Self::B, b: Self::B) -> Self::H {
        self.dot_signed(a, b)
    }
    #[inline(always)]
    fn dot_signed(self, a: Self::B, b: Self::B) -> Self::H {
        // Pairs are (i, i + 8) of a half here: only sums of a half are read.
        // SAFETY: neon by the target.
        zip(a, b, |a, b| unsafe {
            let (a, b) = (vreinterpretq_s8_u8(a), vreinterpretq_s8_u8(b));
            let low = vmull_s8(vget_low_s8(a), vget_low_s8(b));
            vmlal_high_s8(low, a, b)
        })
    }
    #[inline(always)]
    fn load_i16(self, x: &[u8; 32]) -> Self::H {
        // SAFETY: neon by the target.
        each(self.bytes(x), |x| unsafe { vreinterpretq_s16_u8(x) })
    }
    #[inline(always)]
    fn widen_i8(self, x: &[u8; 16]) -> Self::H {
        // SAFETY: neon by the target.
        unsafe {
            let x = vreinterpretq_s8_u8(load16(x));
            [vmovl_s8(vget_low_s8(x)), vmovl_high_s8(x)]
        }
    }
    #[inline(always)]
    fn twice_u8(self, x: &[u8; 8]) -> Self::H {
        // SAFETY: neon by the target; 8 bytes are there.
        unsafe {
            let x = vld1_u8(x.as_ptr());
            let widen = |x: uint8x8_t| vreinterpretq_s16_u16(vmovl_u8(x));
            [widen(vzip1_u8(x, x)), widen(vzip2_u8(x, x))]
        }
    }
    #[inline(always)]
    fn splat_i16(self, low: i16, high: i16) -> Self::H {
        // SAFETY: neon by the target.
        unsafe { [vdupq_n_s16(low), vdupq_n_s16(high)] }
    }
    #[inline(always)]
    fn mul_i16(self, a: Self::H, b: Self::H) -> Self::H {
        // SAFETY: neon by the target.
        zip(a, b, |a, b| unsafe { vmulq_s16(a, b) })
    }
    #[inline(always)]
    fn zero(self) -> Self::I {
        // SAFETY: neon by the target.
        unsafe { [vdupq_n_s32(0); 2] }
    }
    #[inline(always)]
    fn madd(self, acc: Self::I, a: Self::H, b: Self::H) -> Self::I {
        let one = |acc: int32x4_t, a: int16x8_t, b: int16x8_t| {
            // SAFETY: neon by the target.
            unsafe { vmlal_high_s16(vmlal_s16(acc, vget_low_s16(a), vget_low_s16(b)), a, b) }
        };
        [one(acc[0], a[0], b[0]), one(acc[1], a[1], b[1])]
    }
    #[inline(always)]
    fn to_f32(self, a: Self::I) -> Self::F {
        // SAFETY: neon by the target.
        each(a, |a| unsafe { vcvtq_f32_s32(a) })
    }
}
