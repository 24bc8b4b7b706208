//! Plain loops over arrays: the oracle, and what runs where there is nothing better.

use super::{LANES, Simd};
use half::{bf16, f16};

/// The level that every processor has.
#[derive(Clone, Copy)]
pub(crate) struct Portable;

#[inline(always)]
fn zip<T: Copy, const N: usize>(a: [T; N], b: [T; N], f: impl Fn(T, T) -> T) -> [T; N] {
    core::array::from_fn(|i| f(a[i], b[i]))
}

#[inline(always)]
fn pair(x: &[u8], i: usize) -> [u8; 2] {
    [x[2 * i], x[2 * i + 1]]
}

impl Simd for Portable {
    type F = [f32; LANES];
    type B = [u8; 32];
    type H = [i16; 16];
    type I = [i32; LANES];

    #[inline(always)]
    fn splat(self, x: f32) -> Self::F {
        [x; LANES]
    }
    #[inline(always)]
    fn load(self, x: &[f32; LANES]) -> Self::F {
        *x
    }
    #[inline(always)]
    fn store(self, x: Self::F, out: &mut [f32; LANES]) {
        *out = x;
    }
    #[inline(always)]
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        zip(a, b, |a, b| a + b)
    }
    #[inline(always)]
    fn sub(self, a: Self::F, b: Self::F) -> Self::F {
        zip(a, b, |a, b| a - b)
    }
    #[inline(always)]
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        zip(a, b, |a, b| a * b)
    }
    #[inline(always)]
    fn div(self, a: Self::F, b: Self::F) -> Self::F {
        zip(a, b, |a, b| a / b)
    }
    #[inline(always)]
    fn max(self, a: Self::F, b: Self::F) -> Self::F {
        zip(a, b, |a, b| if a > b { a } else { b })
    }
    #[inline(always)]
    fn min(self, a: Self::F, b: Self::F) -> Self::F {
        zip(a, b, |a, b| if a < b { a } else { b })
    }
    #[inline(always)]
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        core::array::from_fn(|i| a[i] * b[i] + c[i])
    }
    #[inline(always)]
    fn exp2(self, n: Self::F) -> Self::F {
        n.map(|n| f32::from_bits(((n as i32).wrapping_add(127) as u32) << 23))
    }
    #[inline(always)]
    fn load_f16(self, x: &[u8; 2 * LANES]) -> Self::F {
        core::array::from_fn(|i| f16::from_le_bytes(pair(x, i)).to_f32())
    }
    #[inline(always)]
    fn store_f16(self, x: Self::F, out: &mut [u8; 2 * LANES]) {
        for (i, x) in x.into_iter().enumerate() {
            [out[2 * i], out[2 * i + 1]] = f16::from_f32(x).to_le_bytes();
        }
    }
    #[inline(always)]
    fn load_bf16(self, x: &[u8; 2 * LANES]) -> Self::F {
        core::array::from_fn(|i| bf16::from_le_bytes(pair(x, i)).to_f32())
    }

    #[inline(always)]
    fn bytes(self, x: &[u8; 32]) -> Self::B {
        *x
    }
    #[inline(always)]
    fn nibbles(self, x: &[u8; 16]) -> Self::B {
        core::array::from_fn(|i| if i < 16 { x[i] & 15 } else { x[i - 16] >> 4 })
    }
    #[inline(always)]
    fn splat_u8(self, x: u8) -> Self::B {
        [x; 32]
    }
    #[inline(always)]
    fn and(self, a: Self::B, b: Self::B) -> Self::B {
        zip(a, b, |a, b| a & b)
    }
    #[inline(always)]
    fn or(self, a: Self::B, b: Self::B) -> Self::B {
        zip(a, b, |a, b| a | b)
    }
    #[inline(always)]
    fn sub_u8(self, a: Self::B, b: Self::B) -> Self::B {
        zip(a, b, u8::wrapping_sub)
    }
    #[inline(always)]
    fn shr(self, a: Self::B, n: u32) -> Self::B {
        a.map(|a| a >> n)
    }
    #[inline(always)]
    fn shl(self, a: Self::B, n: u32) -> Self::B {
        a.map(|a| a << n)
    }
    #[inline(always)]
    fn widen(self, a: Self::B) -> [Self::F; 4] {
        core::array::from_fn(|q| core::array::from_fn(|i| f32::from(a[8 * q + i] as i8)))
    }

    #[inline(always)]
    fn dot(self, a: Self::B, b: Self::B) -> Self::H {
        self.dot_signed(a, b)
    }
    #[inline(always)]
    fn dot_signed(self, a: Self::B, b: Self::B) -> Self::H {
        let product = |i: usize| i16::from(a[i] as i8) * i16::from(b[i] as i8);
        core::array::from_fn(|i| product(2 * i) + product(2 * i + 1))
    }
    #[inline(always)]
    fn load_i16(self, x: &[u8; 32]) -> Self::H {
        core::array::from_fn(|i| i16::from_le_bytes(pair(x, i)))
    }
    #[inline(always)]
    fn widen_i8(self, x: &[u8; 16]) -> Self::H {
        x.map(|x| i16::from(x as i8))
    }
    #[inline(always)]
    fn twice_u8(self, x: &[u8; 8]) -> Self::H {
        core::array::from_fn(|i| i16::from(x[i / 2]))
    }
    #[inline(always)]
    fn splat_i16(self, low: i16, high: i16) -> Self::H {
        core::array::from_fn(|i| if i < 8 { low } else { high })
    }
    #[inline(always)]
    fn mul_i16(self, a: Self::H, b: Self::H) -> Self::H {
        zip(a, b, i16::wrapping_mul)
    }
    #[inline(always)]
    fn zero(self) -> Self::I {
        [0; LANES]
    }
    #[inline(always)]
    fn madd(self, acc: Self::I, a: Self::H, b: Self::H) -> Self::I {
        let product = |i: usize| i32::from(a[i]) * i32::from(b[i]);
        core::array::from_fn(|i| acc[i] + product(2 * i) + product(2 * i + 1))
    }
    #[inline(always)]
    fn to_f32(self, a: Self::I) -> Self::F {
        a.map(|a| a as f32)
    }
}
