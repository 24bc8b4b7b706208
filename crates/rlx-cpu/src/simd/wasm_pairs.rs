//! Products of bytes by relaxed SIMD's dot product of 16 bits, an instruction of every x86 processor. Its second
//! operand has 7 bits: weights without a sign have, and then every engine's answer is the same. Weights with a sign
//! become 16 bits wide, as x is for them.

use super::lanes::four;
use super::wasm::{Simd128, V2, each, zip};
use core::arch::wasm32::*;

/// Sums of pairs of products in 16 bits, and what was settled of them.
#[derive(Clone, Copy)]
pub(crate) struct A {
    pairs: V2,
    settled: V2,
}
pub(super) type AS = V2;
pub(super) const X: usize = 12;
pub(super) const MOST: i32 = i16::MAX as i32;

/// The four bytes, then elements 0 and 2 and elements 1 and 3 as 16 bits each.
#[inline(always)]
pub(super) fn put_x(x: [u8; 4], whole: [i16; 4], out: &mut [u8]) {
    let [a, b, c, d] = whole.map(i16::to_le_bytes);
    out.copy_from_slice(bytemuck::cast_slice(&[[x[0], x[1]], [x[2], x[3]], a, c, b, d]));
}
#[inline(always)]
pub(super) fn start(sum: i32) -> A {
    A { pairs: [u32x4_splat(0); 2], settled: [i32x4_splat(sum); 2] }
}
#[inline(always)]
pub(super) fn dot(_: Simd128, acc: A, w: V2, x: &[u8]) -> A {
    let x = u32x4_splat(four(x));
    let add = |acc, w| i16x8_add(acc, i16x8_relaxed_dot_i8x16_i7x16(x, w));
    A { pairs: zip(acc.pairs, w, add), ..acc }
}
#[inline(always)]
pub(super) fn settle(acc: A) -> A {
    A { pairs: [u32x4_splat(0); 2], settled: total(acc) }
}
#[inline(always)]
pub(super) fn total(acc: A) -> V2 {
    let add = |acc, pairs| i32x4_add(acc, i32x4_extadd_pairwise_i16x8(pairs));
    zip(acc.settled, acc.pairs, add)
}
#[inline(always)]
pub(super) fn zero_signed() -> AS {
    [u32x4_splat(0); 2]
}
#[inline(always)]
pub(super) fn dot_signed(acc: AS, w: V2, x: &[u8]) -> AS {
    let [x_even, x_odd] = [u32x4_splat(four(&x[4..])), u32x4_splat(four(&x[8..]))];
    let even = each(w, |w| i16x8_shr(i16x8_shl(w, 8), 8));
    let acc = zip(acc, even, |acc, w| i32x4_add(acc, i32x4_dot_i16x8(w, x_even)));
    let odd = each(w, |w| i16x8_shr(w, 8));
    zip(acc, odd, |acc, w| i32x4_add(acc, i32x4_dot_i16x8(w, x_odd)))
}
#[inline(always)]
pub(super) fn total_signed(acc: AS) -> V2 {
    acc
}
