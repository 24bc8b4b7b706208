//! WebAssembly simd128, with relaxed SIMD's dot product where the build has it: 4 rows in a vector.
//!
//! **Unsafe.** Only loads and stores are, as in `wasm.rs`.
#![allow(unsafe_code)]

use super::lanes::{Lanes, four, head, head_f32};
use super::wasm::{Simd128, f16x4};
use core::arch::wasm32::*;

/// Adds products of 16 bits: of each word's bytes 0 and 2, and of its bytes 1 and 3. The second and third
/// word of x have these of x.
#[inline(always)]
fn add_pairs(acc: v128, even: v128, odd: v128, x: &[u8]) -> v128 {
    let [x_even, x_odd] = [4, 8].map(|at| u32x4_splat(four(&x[at..])));
    i32x4_add(i32x4_add(acc, i32x4_dot_i16x8(even, x_even)), i32x4_dot_i16x8(odd, x_odd))
}

/// Sums of pairs of products in 16 bits, and what was settled of them.
#[cfg(target_feature = "relaxed-simd")]
#[derive(Clone, Copy)]
pub(crate) struct Sums {
    pairs: v128,
    settled: v128,
}

/// The first 8 bytes as words of 16 bits, zeros above.
#[inline(always)]
fn halves_of(x: &[u8]) -> v128 {
    // SAFETY: 8 bytes are there; no alignment asked.
    unsafe { u32x4_load_extend_u16x4(head::<8>(x).as_ptr().cast()) }
}

impl Lanes for Simd128 {
    type V = v128;
    type G = v128;
    #[cfg(target_feature = "relaxed-simd")]
    type A = Sums;
    #[cfg(not(target_feature = "relaxed-simd"))]
    type A = v128;
    type AS = v128;
    const LANES: usize = 4;
    const TILE: usize = 4;
    const X: usize = 12;
    #[cfg(target_feature = "relaxed-simd")]
    const MOST: i32 = i16::MAX as i32;

    #[inline(always)]
    fn words(self, x: &[u8]) -> v128 {
        // SAFETY: 16 bytes are there; no alignment asked.
        unsafe { v128_load(head::<16>(x).as_ptr().cast()) }
    }
    #[inline(always)]
    fn bytes(self, x: &[u8]) -> v128 {
        let x = head::<4>(x);
        u32x4(x[0].into(), x[1].into(), x[2].into(), x[3].into())
    }
    #[inline(always)]
    fn put_words(self, x: v128, out: &mut [u8]) {
        if let Some(out) = out.first_chunk_mut::<16>() {
            // SAFETY: 16 bytes are there; no alignment asked.
            unsafe { v128_store(out.as_mut_ptr().cast(), x) }
        }
    }
    #[inline(always)]
    fn set(self, x: u32) -> v128 {
        u32x4_splat(x)
    }
    #[inline(always)]
    fn and(self, a: v128, b: v128) -> v128 {
        v128_and(a, b)
    }
    #[inline(always)]
    fn or(self, a: v128, b: v128) -> v128 {
        v128_or(a, b)
    }
    #[inline(always)]
    fn xor(self, a: v128, b: v128) -> v128 {
        v128_xor(a, b)
    }
    #[inline(always)]
    fn plus(self, a: v128, b: v128) -> v128 {
        i32x4_add(a, b)
    }
    #[inline(always)]
    fn minus(self, a: v128, b: v128) -> v128 {
        i32x4_sub(a, b)
    }
    #[inline(always)]
    fn times(self, a: v128, b: v128) -> v128 {
        i32x4_mul(a, b)
    }
    #[inline(always)]
    fn equal(self, a: v128, b: v128) -> v128 {
        i32x4_eq(a, b)
    }
    #[inline(always)]
    fn left(self, a: v128, n: u32) -> v128 {
        i32x4_shl(a, n)
    }
    #[inline(always)]
    fn right(self, a: v128, n: u32) -> v128 {
        u32x4_shr(a, n)
    }
    #[inline(always)]
    fn signed_right(self, a: v128, n: u32) -> v128 {
        i32x4_shr(a, n)
    }
    #[inline(always)]
    fn minus_bytes(self, a: v128, b: v128) -> v128 {
        i8x16_sub(a, b)
    }
    #[inline(always)]
    fn look_up(self, table: &[u8; 16], a: v128) -> v128 {
        i8x16_swizzle(self.words(table), a)
    }
    #[inline(always)]
    fn gather(self, table: &[u32], a: v128) -> v128 {
        assert!(table.len().is_power_of_two());
        let at = |i: u32| table[i as usize & (table.len() - 1)];
        u32x4(
            at(u32x4_extract_lane::<0>(a)),
            at(u32x4_extract_lane::<1>(a)),
            at(u32x4_extract_lane::<2>(a)),
            at(u32x4_extract_lane::<3>(a)),
        )
    }

    // The four bytes, then bytes 0 and 2 and bytes 1 and 3 as 16 bits each.
    #[inline(always)]
    fn put_x(x: [u8; 4], out: &mut [u8]) {
        let [a, b, c, d] = x.map(|x| i16::from(x as i8).to_le_bytes());
        out.copy_from_slice(bytemuck::cast_slice(&[[x[0], x[1]], [x[2], x[3]], a, c, b, d]));
    }
    #[cfg(target_feature = "relaxed-simd")]
    #[inline(always)]
    fn zero(self) -> Sums {
        Sums { pairs: u32x4_splat(0), settled: u32x4_splat(0) }
    }
    #[cfg(not(target_feature = "relaxed-simd"))]
    #[inline(always)]
    fn zero(self) -> v128 {
        u32x4_splat(0)
    }
    // The relaxed product's second operand has 7 bits: w has, and then every engine's answer is the
    // same. Of the two relaxed products this one is an instruction of every x86 processor.
    #[cfg(target_feature = "relaxed-simd")]
    #[inline(always)]
    fn dot(self, acc: Sums, w: v128, x: &[u8]) -> Sums {
        let pairs = i16x8_relaxed_dot_i8x16_i7x16(u32x4_splat(four(x)), w);
        Sums { pairs: i16x8_add(acc.pairs, pairs), ..acc }
    }
    #[cfg(not(target_feature = "relaxed-simd"))]
    #[inline(always)]
    fn dot(self, acc: v128, w: v128, x: &[u8]) -> v128 {
        add_pairs(acc, v128_and(w, u16x8_splat(0xff)), u16x8_shr(w, 8), x)
    }
    #[cfg(target_feature = "relaxed-simd")]
    #[inline(always)]
    fn settle(self, acc: Sums) -> Sums {
        Sums { pairs: u32x4_splat(0), settled: self.total(acc) }
    }
    #[cfg(target_feature = "relaxed-simd")]
    #[inline(always)]
    fn total(self, acc: Sums) -> v128 {
        i32x4_add(acc.settled, i32x4_extadd_pairwise_i16x8(acc.pairs))
    }
    #[cfg(not(target_feature = "relaxed-simd"))]
    #[inline(always)]
    fn total(self, acc: v128) -> v128 {
        acc
    }
    #[inline(always)]
    fn zero_signed(self, _: i32) -> v128 {
        u32x4_splat(0)
    }
    #[inline(always)]
    fn dot_signed(self, acc: v128, w: v128, x: &[u8]) -> v128 {
        add_pairs(acc, i16x8_shr(i16x8_shl(w, 8), 8), i16x8_shr(w, 8), x)
    }
    #[inline(always)]
    fn total_signed(self, acc: v128) -> v128 {
        acc
    }

    #[inline(always)]
    fn floats(self, a: v128) -> v128 {
        f32x4_convert_i32x4(a)
    }
    #[inline(always)]
    fn halves(self, a: v128) -> v128 {
        f16x4(a)
    }
    #[inline(always)]
    fn as_floats(self, a: v128) -> v128 {
        a
    }
    #[inline(always)]
    fn take_f32(self, x: &[u8]) -> v128 {
        self.words(x)
    }
    #[inline(always)]
    fn take_f16(self, x: &[u8]) -> v128 {
        f16x4(halves_of(x))
    }
    #[inline(always)]
    fn take_bf16(self, x: &[u8]) -> v128 {
        i32x4_shl(halves_of(x), 16)
    }
    #[inline(always)]
    fn take(self, x: &[f32]) -> v128 {
        // SAFETY: 16 bytes are there; no alignment asked.
        unsafe { v128_load(head_f32::<4>(x).as_ptr().cast()) }
    }
    #[inline(always)]
    fn put(self, x: v128, out: &mut [f32]) {
        if let Some(out) = out.first_chunk_mut::<4>() {
            // SAFETY: 16 bytes are there; no alignment asked.
            unsafe { v128_store(out.as_mut_ptr().cast(), x) }
        }
    }
    #[inline(always)]
    fn all(self, x: f32) -> v128 {
        f32x4_splat(x)
    }
    #[inline(always)]
    fn product(self, a: v128, b: v128) -> v128 {
        f32x4_mul(a, b)
    }
    #[cfg(target_feature = "relaxed-simd")]
    #[inline(always)]
    fn add_product(self, a: v128, b: v128, c: v128) -> v128 {
        f32x4_relaxed_madd(a, b, c)
    }
    #[cfg(not(target_feature = "relaxed-simd"))]
    #[inline(always)]
    fn add_product(self, a: v128, b: v128, c: v128) -> v128 {
        f32x4_add(f32x4_mul(a, b), c)
    }
}
