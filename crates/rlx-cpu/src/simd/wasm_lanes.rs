//! WebAssembly simd128: 8 rows in two vectors, which share the words of x and the constants. Products of bytes are in
//! `wasm_halves.rs`, `wasm_pairs.rs` and `wasm_dot.rs`, of which a build has one.
//!
//! **Unsafe.** Only loads and stores are, as in `wasm.rs`.
#![allow(unsafe_code)]

use super::lanes::{Lanes, head, head_f32};
use super::wasm::{Simd128, V2, each, f16x4, zip};
use super::wasm_sums as sums;
use core::arch::wasm32::*;

/// Eight words of 16 bits, each in the low half of 32.
#[inline(always)]
fn halves_of(x: &[u8]) -> V2 {
    let x = head::<16>(x);
    // SAFETY: 16 bytes are there, the second load is 8 in; no alignment asked.
    unsafe {
        [
            u32x4_load_extend_u16x4(x.as_ptr().cast()),
            u32x4_load_extend_u16x4(x.as_ptr().add(8).cast()),
        ]
    }
}

impl Lanes for Simd128 {
    type V = V2;
    type G = V2;
    type A = sums::A;
    type AS = sums::AS;
    const LANES: usize = 8;
    const TILE: usize = 4;
    // With more, V8 keeps sums in memory.
    const FLOATS: usize = 4;
    // A vector is two registers of the 16 that x86 has.
    const VECTORS: usize = 1;
    const X: usize = sums::X;
    const MOST: i32 = sums::MOST;

    #[inline(always)]
    fn words(self, x: &[u8]) -> V2 {
        let x = head::<32>(x);
        // SAFETY: 32 bytes are there, the second load is 16 in; no alignment asked.
        unsafe { [v128_load(x.as_ptr().cast()), v128_load(x.as_ptr().add(16).cast())] }
    }
    #[inline(always)]
    fn bytes(self, x: &[u8]) -> V2 {
        let x = head::<8>(x).map(u32::from);
        [u32x4(x[0], x[1], x[2], x[3]), u32x4(x[4], x[5], x[6], x[7])]
    }
    #[inline(always)]
    fn signed_bytes(self, x: &[u8]) -> V2 {
        // SAFETY: 8 bytes are there; no alignment asked.
        let x = unsafe { i16x8_load_extend_i8x8(head::<8>(x).as_ptr().cast()) };
        [i32x4_extend_low_i16x8(x), i32x4_extend_high_i16x8(x)]
    }
    #[inline(always)]
    fn put_words(self, x: V2, out: &mut [u8]) {
        if let Some(out) = out.first_chunk_mut::<32>() {
            // SAFETY: 32 bytes are there, the second store is 16 in; no alignment asked.
            unsafe {
                v128_store(out.as_mut_ptr().cast(), x[0]);
                v128_store(out.as_mut_ptr().add(16).cast(), x[1]);
            }
        }
    }
    #[inline(always)]
    fn set(self, x: u32) -> V2 {
        [self.constant(x); 2]
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
    fn xor(self, a: V2, b: V2) -> V2 {
        zip(a, b, |a, b| v128_xor(a, b))
    }
    #[inline(always)]
    fn plus(self, a: V2, b: V2) -> V2 {
        zip(a, b, |a, b| i32x4_add(a, b))
    }
    #[inline(always)]
    fn minus(self, a: V2, b: V2) -> V2 {
        zip(a, b, |a, b| i32x4_sub(a, b))
    }
    #[inline(always)]
    fn times(self, a: V2, b: V2) -> V2 {
        zip(a, b, |a, b| i32x4_mul(a, b))
    }
    #[inline(always)]
    fn equal(self, a: V2, b: V2) -> V2 {
        zip(a, b, |a, b| i32x4_eq(a, b))
    }
    #[inline(always)]
    fn left(self, a: V2, n: u32) -> V2 {
        each(a, |a| i32x4_shl(a, n))
    }
    #[inline(always)]
    fn right(self, a: V2, n: u32) -> V2 {
        each(a, |a| u32x4_shr(a, n))
    }
    #[inline(always)]
    fn signed_right(self, a: V2, n: u32) -> V2 {
        each(a, |a| i32x4_shr(a, n))
    }
    #[inline(always)]
    fn minus_bytes(self, a: V2, b: V2) -> V2 {
        zip(a, b, |a, b| i8x16_sub(a, b))
    }
    #[inline(always)]
    fn look_up(self, table: &[u8; 16], a: V2) -> V2 {
        // SAFETY: the table has 16 bytes; no alignment asked.
        let table = unsafe { v128_load(table.as_ptr().cast()) };
        each(a, |a| i8x16_swizzle(table, a))
    }
    #[inline(always)]
    fn gather(self, table: &[u32], a: V2) -> V2 {
        assert!(table.len().is_power_of_two());
        let at = |i: u32| table[i as usize & (table.len() - 1)];
        each(a, |a| {
            u32x4(
                at(u32x4_extract_lane::<0>(a)),
                at(u32x4_extract_lane::<1>(a)),
                at(u32x4_extract_lane::<2>(a)),
                at(u32x4_extract_lane::<3>(a)),
            )
        })
    }

    #[inline(always)]
    fn put_x(x: [u8; 4], whole: [i16; 4], out: &mut [u8]) {
        sums::put_x(x, whole, out);
    }
    #[inline(always)]
    fn start(self, sum: i32) -> sums::A {
        sums::start(sum)
    }
    #[inline(always)]
    fn dot(self, acc: sums::A, w: V2, x: &[u8]) -> sums::A {
        sums::dot(self, acc, w, x)
    }
    #[inline(always)]
    fn settle(self, acc: sums::A) -> sums::A {
        sums::settle(acc)
    }
    #[inline(always)]
    fn total(self, acc: sums::A) -> V2 {
        sums::total(acc)
    }
    #[inline(always)]
    fn zero_signed(self, _: i32) -> sums::AS {
        sums::zero_signed()
    }
    #[inline(always)]
    fn dot_signed(self, acc: sums::AS, w: V2, x: &[u8]) -> sums::AS {
        sums::dot_signed(acc, w, x)
    }
    #[inline(always)]
    fn total_signed(self, acc: sums::AS) -> V2 {
        sums::total_signed(acc)
    }

    #[inline(always)]
    fn floats(self, a: V2) -> V2 {
        each(a, |a| f32x4_convert_i32x4(a))
    }
    #[inline(always)]
    fn halves(self, a: V2) -> V2 {
        each(a, |a| f16x4(self, a))
    }
    #[inline(always)]
    fn as_floats(self, a: V2) -> V2 {
        a
    }
    #[inline(always)]
    fn take_f32(self, x: &[u8]) -> V2 {
        self.words(x)
    }
    #[inline(always)]
    fn take_f16(self, x: &[u8]) -> V2 {
        self.halves(halves_of(x))
    }
    #[inline(always)]
    fn take_bf16(self, x: &[u8]) -> V2 {
        self.left(halves_of(x), 16)
    }
    #[inline(always)]
    fn take(self, x: &[f32]) -> V2 {
        self.words(bytemuck::cast_slice(head_f32::<8>(x)))
    }
    #[inline(always)]
    fn put(self, x: V2, out: &mut [f32]) {
        if let Some(out) = out.first_chunk_mut::<8>() {
            self.put_words(x, bytemuck::cast_slice_mut(out));
        }
    }
    #[inline(always)]
    fn all(self, x: f32) -> V2 {
        [f32x4_splat(x); 2]
    }
    #[inline(always)]
    fn product(self, a: V2, b: V2) -> V2 {
        zip(a, b, |a, b| f32x4_mul(a, b))
    }
    #[cfg(target_feature = "relaxed-simd")]
    #[inline(always)]
    fn add_product(self, a: V2, b: V2, c: V2) -> V2 {
        [f32x4_relaxed_madd(a[0], b[0], c[0]), f32x4_relaxed_madd(a[1], b[1], c[1])]
    }
    #[cfg(not(target_feature = "relaxed-simd"))]
    #[inline(always)]
    fn add_product(self, a: V2, b: V2, c: V2) -> V2 {
        zip(zip(a, b, |a, b| f32x4_mul(a, b)), c, |p, c| f32x4_add(p, c))
    }
    #[inline(always)]
    fn across(self, a: V2) -> f32 {
        let a = f32x4_add(a[0], a[1]);
        let pairs = f32x4_add(a, i32x4_shuffle::<2, 3, 0, 1>(a, a));
        f32x4_extract_lane::<0>(f32x4_add(pairs, i32x4_shuffle::<1, 0, 3, 2>(pairs, pairs)))
    }
}
