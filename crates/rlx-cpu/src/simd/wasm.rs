//! WebAssembly simd128: a vector of 8 f32 is a pair of 4.
//!
//! **Unsafe.** Only loads and stores are: they take references to arrays of their exact size, and
//! wasm asks for no alignment. The feature is one of the whole module (the `cfg` on this file's
//! declaration): a module that holds it runs only where it is there.
#![allow(unsafe_code)]

use super::{LANES, Simd};
use core::arch::wasm32::*;

/// simd128, which this build has.
#[derive(Clone, Copy)]
pub(crate) struct Simd128 {
    /// 0, which the compiler does not know.
    zero: u32,
}

impl Simd128 {
    #[inline(always)]
    pub(super) fn new() -> Simd128 {
        Simd128 { zero: core::hint::black_box(0) }
    }

    /// A constant that is made once for a loop. Engines make one that is known in three instructions, at
    /// every use.
    #[inline(always)]
    pub(super) fn constant(self, x: u32) -> v128 {
        u32x4_splat(x ^ self.zero)
    }
}

pub(super) type V2 = [v128; 2];

/// Where it has relaxed SIMD, LLVM makes its minimum and maximum of pmin and pmax, and with a NaN
/// those give the other operand (x86-64) or NaN (AArch64): there we select ourselves.
const RELAXED: bool = cfg!(target_feature = "relaxed-simd");

#[inline(always)]
pub(super) fn each(a: V2, f: impl Fn(v128) -> v128) -> V2 {
    [f(a[0]), f(a[1])]
}

#[inline(always)]
pub(super) fn zip(a: V2, b: V2, f: impl Fn(v128, v128) -> v128) -> V2 {
    [f(a[0], b[0]), f(a[1], b[1])]
}

/// Four f16 in the low halves of 32-bit lanes to f32.
///
/// No number on the way is subnormal, not even of a subnormal f16, as scales of `q6_k` mostly are: Intel's processors
/// take some 150 cycles for a product with one. With its exponent moved by 113 a normal number is doubled, and a
/// subnormal one has gained 2^-14; half of the first is less than the first less 2^-14, and the other way round.
#[inline(always)]
pub(super) fn f16x4(s: Simd128, h: v128) -> v128 {
    let magnitude = v128_and(h, s.constant(0x7fff));
    let moved = i32x4_add(i32x4_shl(magnitude, 13), s.constant(0x3880_0000));
    let normal = f32x4_mul(moved, s.constant(0x3f00_0000));
    let subnormal = f32x4_sub(moved, s.constant(0x3880_0000));
    let finite = f32x4_pmin(normal, subnormal);
    let special = v128_and(i32x4_gt(magnitude, s.constant(0x7bff)), s.constant(0x7f80_0000));
    let sign = i32x4_shl(v128_xor(h, magnitude), 16);
    v128_or(v128_or(finite, special), sign)
}

impl Simd for Simd128 {
    type F = V2;

    #[inline(always)]
    fn splat(self, x: f32) -> V2 {
        [f32x4_splat(x); 2]
    }
    #[inline(always)]
    fn load(self, x: &[f32; LANES]) -> V2 {
        // SAFETY: 32 bytes are there, the second load is 4 floats in; no alignment asked.
        unsafe { [v128_load(x.as_ptr().cast()), v128_load(x.as_ptr().add(4).cast())] }
    }
    #[inline(always)]
    fn store(self, x: V2, out: &mut [f32; LANES]) {
        // SAFETY: 32 bytes are there, the second store is 4 floats in; no alignment asked.
        unsafe {
            v128_store(out.as_mut_ptr().cast(), x[0]);
            v128_store(out.as_mut_ptr().add(4).cast(), x[1]);
        }
    }
    #[inline(always)]
    fn add(self, a: V2, b: V2) -> V2 {
        zip(a, b, |a, b| f32x4_add(a, b))
    }
    #[inline(always)]
    fn sub(self, a: V2, b: V2) -> V2 {
        zip(a, b, |a, b| f32x4_sub(a, b))
    }
    #[inline(always)]
    fn mul(self, a: V2, b: V2) -> V2 {
        zip(a, b, |a, b| f32x4_mul(a, b))
    }
    #[inline(always)]
    fn div(self, a: V2, b: V2) -> V2 {
        zip(a, b, |a, b| f32x4_div(a, b))
    }
    #[inline(always)]
    fn max(self, a: V2, b: V2) -> V2 {
        // pmax(b, a) is `b < a ? a : b`: b where one is NaN.
        zip(
            a,
            b,
            |a, b| if RELAXED { v128_bitselect(a, b, f32x4_gt(a, b)) } else { f32x4_pmax(b, a) },
        )
    }
    #[inline(always)]
    fn min(self, a: V2, b: V2) -> V2 {
        // pmin(b, a) is `a < b ? a : b`: b where one is NaN.
        zip(
            a,
            b,
            |a, b| if RELAXED { v128_bitselect(a, b, f32x4_lt(a, b)) } else { f32x4_pmin(b, a) },
        )
    }
    #[inline(always)]
    fn fma(self, a: V2, b: V2, c: V2) -> V2 {
        self.add(self.mul(a, b), c)
    }
    #[inline(always)]
    fn exp2(self, n: V2) -> V2 {
        each(n, |n| i32x4_shl(i32x4_add(i32x4_trunc_sat_f32x4(n), i32x4_splat(127)), 23))
    }
    #[inline(always)]
    fn store_f16(self, x: V2, out: &mut [u8; 2 * LANES]) {
        let mut v = [0.0; LANES];
        self.store(x, &mut v);
        for (i, x) in v.into_iter().enumerate() {
            [out[2 * i], out[2 * i + 1]] = half::f16::from_f32(x).to_le_bytes();
        }
    }
}
