//! Products of bytes by relaxed SIMD's dot product of 32 bits: one instruction with its addition where the processor
//! has one (ARM's `sdot`, AVX-VNNI), and five elsewhere.
//!
//! Its second operand has 7 bits, so that every engine's answer is the same. Weights without a sign have no more. For
//! weights with a sign x is the second operand: its positive elements, and then the magnitudes of its negative ones.

use super::lanes::four;
use super::wasm::{Simd128, V2, zip};
use core::arch::wasm32::*;

pub(super) type A = V2;
/// Sums with positive elements of x, and with negative ones.
pub(super) type AS = [V2; 2];
pub(super) const X: usize = 12;
pub(super) const MOST: i32 = i32::MAX;

/// The four bytes, then what they have above zero and what they have below.
#[inline(always)]
pub(super) fn put_x(x: [u8; 4], _: [i16; 4], out: &mut [u8]) {
    let above = x.map(|x| (x as i8).max(0) as u8);
    let below = x.map(|x| (x as i8).min(0).unsigned_abs());
    out.copy_from_slice(bytemuck::cast_slice(&[x, above, below]));
}
#[inline(always)]
pub(super) fn start(sum: i32) -> A {
    [i32x4_splat(sum); 2]
}
#[inline(always)]
pub(super) fn dot(_: Simd128, acc: A, w: V2, x: &[u8]) -> A {
    let x = u32x4_splat(four(x));
    zip(acc, w, |acc, w| i32x4_relaxed_dot_i8x16_i7x16_add(x, w, acc))
}
#[inline(always)]
pub(super) fn settle(acc: A) -> A {
    acc
}
#[inline(always)]
pub(super) fn total(acc: A) -> V2 {
    acc
}
#[inline(always)]
pub(super) fn zero_signed() -> AS {
    [[u32x4_splat(0); 2]; 2]
}
#[inline(always)]
pub(super) fn dot_signed(acc: AS, w: V2, x: &[u8]) -> AS {
    let [above, below] = [u32x4_splat(four(&x[4..])), u32x4_splat(four(&x[8..]))];
    [
        zip(acc[0], w, |acc, w| i32x4_relaxed_dot_i8x16_i7x16_add(w, above, acc)),
        zip(acc[1], w, |acc, w| i32x4_relaxed_dot_i8x16_i7x16_add(w, below, acc)),
    ]
}
#[inline(always)]
pub(super) fn total_signed(acc: AS) -> V2 {
    zip(acc[0], acc[1], |above, below| i32x4_sub(above, below))
}
