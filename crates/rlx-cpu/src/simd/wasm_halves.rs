//! Products of bytes where simd128 has none: weights become 16 bits wide, and so is x.

use super::lanes::{Lanes, four};
use super::wasm::{Simd128, V2, each, zip};
use core::arch::wasm32::*;

pub(super) type A = V2;
pub(super) type AS = V2;
pub(super) const X: usize = 8;
pub(super) const MOST: i32 = i32::MAX;

/// Elements 0 and 2, then 1 and 3.
#[inline(always)]
pub(super) fn put_x(_: [u8; 4], whole: [i16; 4], out: &mut [u8]) {
    let [a, b, c, d] = whole;
    out.copy_from_slice(bytemuck::cast_slice(&[a, c, b, d]));
}
#[inline(always)]
pub(super) fn start(sum: i32) -> A {
    [i32x4_splat(sum); 2]
}
/// Adds products of 16 bits: of each word's bytes 0 and 2, and of its bytes 1 and 3.
#[inline(always)]
fn add(acc: V2, even: V2, odd: V2, x: &[u8]) -> V2 {
    let [x_even, x_odd] = [u32x4_splat(four(x)), u32x4_splat(four(&x[4..]))];
    let acc = zip(acc, even, |acc, w| i32x4_add(acc, i32x4_dot_i16x8(w, x_even)));
    zip(acc, odd, |acc, w| i32x4_add(acc, i32x4_dot_i16x8(w, x_odd)))
}
#[inline(always)]
pub(super) fn dot(s: Simd128, acc: A, w: V2, x: &[u8]) -> A {
    add(acc, s.and(w, s.set(0x00ff_00ff)), each(w, |w| u16x8_shr(w, 8)), x)
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
    [u32x4_splat(0); 2]
}
#[inline(always)]
pub(super) fn dot_signed(acc: AS, w: V2, x: &[u8]) -> AS {
    let even = each(w, |w| i16x8_shr(i16x8_shl(w, 8), 8));
    add(acc, even, each(w, |w| i16x8_shr(w, 8)), x)
}
#[inline(always)]
pub(super) fn total_signed(acc: AS) -> V2 {
    acc
}
