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
pub(crate) struct Simd128;

type V2 = [v128; 2];

#[inline(always)]
fn each(a: V2, f: impl Fn(v128) -> v128) -> V2 {
    [f(a[0]), f(a[1])]
}

#[inline(always)]
fn zip(a: V2, b: V2, f: impl Fn(v128, v128) -> v128) -> V2 {
    [f(a[0], b[0]), f(a[1], b[1])]
}

#[inline(always)]
fn load16(x: &[u8; 16]) -> v128 {
    // SAFETY: 16 bytes are there; no alignment asked.
    unsafe { v128_load(x.as_ptr().cast()) }
}

#[inline(always)]
fn load32(x: &[u8; 32]) -> V2 {
    // SAFETY: 32 bytes are there, the second load is 16 in; no alignment asked.
    unsafe { [v128_load(x.as_ptr().cast()), v128_load(x.as_ptr().add(16).cast())] }
}

/// Four f16 in the low halves of 32-bit lanes to f32.
#[inline(always)]
fn f16x4(h: v128) -> v128 {
    let magnitude = i32x4_shl(v128_and(h, u32x4_splat(0x7fff)), 13);
    let scaled = f32x4_mul(magnitude, u32x4_splat(0x7780_0000));
    let exponent = v128_and(h, u32x4_splat(0x7c00));
    let special = v128_and(i32x4_eq(exponent, u32x4_splat(0x7c00)), u32x4_splat(0x7f80_0000));
    let sign = i32x4_shl(v128_and(h, u32x4_splat(0x8000)), 16);
    v128_or(v128_or(scaled, special), sign)
}

impl Simd for Simd128 {
    type F = V2;
    type B = V2;
    type H = V2;
    type I = V2;

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
        zip(a, b, |a, b| f32x4_pmax(b, a))
    }
    #[inline(always)]
    fn min(self, a: V2, b: V2) -> V2 {
        // pmin(b, a) is `a < b ? a : b`: b where one is NaN.
        zip(a, b, |a, b| f32x4_pmin(b, a))
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
    fn load_f16(self, x: &[u8; 2 * LANES]) -> V2 {
        let h = load16(x);
        [f16x4(u32x4_extend_low_u16x8(h)), f16x4(u32x4_extend_high_u16x8(h))]
    }
    #[inline(always)]
    fn store_f16(self, x: V2, out: &mut [u8; 2 * LANES]) {
        let mut v = [0.0; LANES];
        self.store(x, &mut v);
        for (i, x) in v.into_iter().enumerate() {
            [out[2 * i], out[2 * i + 1]] = half::f16::from_f32(x).to_le_bytes();
        }
    }
    #[inline(always)]
    fn load_bf16(self, x: &[u8; 2 * LANES]) -> V2 {
        let h = load16(x);
        each([u32x4_extend_low_u16x8(h), u32x4_extend_high_u16x8(h)], |h| i32x4_shl(h, 16))
    }

    #[inline(always)]
    fn bytes(self, x: &[u8; 32]) -> V2 {
        load32(x)
    }
    #[inline(always)]
    fn nibbles(self, x: &[u8; 16]) -> V2 {
        let x = load16(x);
        each([x, u16x8_shr(x, 4)], |x| v128_and(x, u8x16_splat(15)))
    }
    #[inline(always)]
    fn splat_u8(self, x: u8) -> V2 {
        [u8x16_splat(x); 2]
    }
    #[inline(always)]
    fn and(self, a: V2, b: V2) -> V2 {
        zip(a, b, |a, b| v128_and(a, b))
    }
    #[inline(always)]
    fn or(self, a: V2, b: V2) -> V2 {
        zip(a, b, |a, b| v128_or(a, b))
    }
    #[inline(always)]
    fn sub_u8(self, a: V2, b: V2) -> V2 {
        zip(a, b, |a, b| u8x16_sub(a, b))
    }
    #[inline(always)]
    fn shr(self, a: V2, n: u32) -> V2 {
        // In 16 bits and masked: engines have no shift of bytes.
        each(a, |a| v128_and(u16x8_shr(a, n), u8x16_splat(0xff >> n)))
    }
    #[inline(always)]
    fn shl(self, a: V2, n: u32) -> V2 {
        each(a, |a| v128_and(u16x8_shl(a, n), u8x16_splat(0xff << n)))
    }
    #[inline(always)]
    fn widen(self, a: V2) -> [V2; 4] {
        let quarter = |h: v128| {
            let low = f32x4_convert_i32x4(i32x4_extend_low_i16x8(h));
            [low, f32x4_convert_i32x4(i32x4_extend_high_i16x8(h))]
        };
        [
            quarter(i16x8_extend_low_i8x16(a[0])),
            quarter(i16x8_extend_high_i8x16(a[0])),
            quarter(i16x8_extend_low_i8x16(a[1])),
            quarter(i16x8_extend_high_i8x16(a[1])),
        ]
    }

    #[inline(always)]
    fn dot(self, a: V2, b: V2) -> V2 {
        self.dot_signed(a, b)
    }
    #[inline(always)]
    fn dot_signed(self, a: V2, b: V2) -> V2 {
        // Pairs are (i, i + 8) of a half here: only sums of a half are read.
        zip(a, b, |a, b| i16x8_add(i16x8_extmul_low_i8x16(a, b), i16x8_extmul_high_i8x16(a, b)))
    }
    #[inline(always)]
    fn load_i16(self, x: &[u8; 32]) -> V2 {
        load32(x)
    }
    #[inline(always)]
    fn widen_i8(self, x: &[u8; 16]) -> V2 {
        let x = load16(x);
        [i16x8_extend_low_i8x16(x), i16x8_extend_high_i8x16(x)]
    }
    #[inline(always)]
    fn twice_u8(self, x: &[u8; 8]) -> V2 {
        let x = i64x2_splat(i64::from_le_bytes(*x));
        let x = i8x16_shuffle::<0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7>(x, x);
        [u16x8_extend_low_u8x16(x), u16x8_extend_high_u8x16(x)]
    }
    #[inline(always)]
    fn splat_i16(self, low: i16, high: i16) -> V2 {
        [i16x8_splat(low), i16x8_splat(high)]
    }
    #[inline(always)]
    fn mul_i16(self, a: V2, b: V2) -> V2 {
        zip(a, b, |a, b| i16x8_mul(a, b))
    }
    #[inline(always)]
    fn zero(self) -> V2 {
        [i32x4_splat(0); 2]
    }
    #[inline(always)]
    fn madd(self, acc: V2, a: V2, b: V2) -> V2 {
        zip(acc, zip(a, b, |a, b| i32x4_dot_i16x8(a, b)), |a, b| i32x4_add(a, b))
    }
    #[inline(always)]
    fn to_f32(self, a: V2) -> V2 {
        each(a, |a| f32x4_convert_i32x4(a))
    }
}
