//! AArch64: 4 rows in a vector.
//!
//! **Unsafe.** Advanced SIMD is part of the target; loads and stores take references to arrays of their
//! exact size and ask for no alignment.
#![allow(unsafe_code)]

use super::f16_to_f32;
use super::lanes::{Lanes, four, head, head_f32};
use super::neon::Neon;
use core::arch::aarch64::*;

/// Sums of pairs of products: of rows 0 and 1, of rows 2 and 3.
type Pairs = [int32x4_t; 2];

/// Sums of products in 16 bits, and what was settled of them.
#[derive(Clone, Copy)]
pub(crate) struct Sums {
    /// Of rows 0 and 1, of rows 2 and 3.
    products: [int16x8_t; 2],
    settled: Pairs,
}

impl Lanes for Neon {
    type V = uint32x4_t;
    type G = float32x4_t;
    type A = Sums;
    type AS = Pairs;
    const LANES: usize = 4;
    const TILE: usize = 4;
    const FLOATS: usize = 8;
    // A lane takes one product of a word, not two.
    const MOST: i32 = 2 * i16::MAX as i32;

    #[inline(always)]
    fn words(self, x: &[u8]) -> uint32x4_t {
        // SAFETY: 16 bytes are there; no alignment asked.
        unsafe { vreinterpretq_u32_u8(vld1q_u8(head::<16>(x).as_ptr())) }
    }
    #[inline(always)]
    fn bytes(self, x: &[u8]) -> uint32x4_t {
        let x = head::<4>(x).map(u32::from);
        // SAFETY: 16 bytes are there; no alignment asked.
        unsafe { vld1q_u32(x.as_ptr()) }
    }
    #[inline(always)]
    fn signed_bytes(self, x: &[u8]) -> uint32x4_t {
        let x = u64::from(u32::from_le_bytes(*head(x)));
        // SAFETY: Advanced SIMD is part of the target.
        unsafe {
            let halves = vmovl_s8(vreinterpret_s8_u64(vcreate_u64(x)));
            vreinterpretq_u32_s32(vmovl_s16(vget_low_s16(halves)))
        }
    }
    #[inline(always)]
    fn put_words(self, x: uint32x4_t, out: &mut [u8]) {
        if let Some(out) = out.first_chunk_mut::<16>() {
            // SAFETY: 16 bytes are there; no alignment asked.
            unsafe { vst1q_u8(out.as_mut_ptr(), vreinterpretq_u8_u32(x)) }
        }
    }
    #[inline(always)]
    fn set(self, x: u32) -> uint32x4_t {
        // SAFETY: Advanced SIMD is part of the target.
        unsafe { vdupq_n_u32(x) }
    }
    #[inline(always)]
    fn and(self, a: uint32x4_t, b: uint32x4_t) -> uint32x4_t {
        // SAFETY: as above.
        unsafe { vandq_u32(a, b) }
    }
    #[inline(always)]
    fn or(self, a: uint32x4_t, b: uint32x4_t) -> uint32x4_t {
        // SAFETY: as above.
        unsafe { vorrq_u32(a, b) }
    }
    #[inline(always)]
    fn xor(self, a: uint32x4_t, b: uint32x4_t) -> uint32x4_t {
        // SAFETY: as above.
        unsafe { veorq_u32(a, b) }
    }
    #[inline(always)]
    fn plus(self, a: uint32x4_t, b: uint32x4_t) -> uint32x4_t {
        // SAFETY: as above.
        unsafe { vaddq_u32(a, b) }
    }
    #[inline(always)]
    fn minus(self, a: uint32x4_t, b: uint32x4_t) -> uint32x4_t {
        // SAFETY: as above.
        unsafe { vsubq_u32(a, b) }
    }
    #[inline(always)]
    fn times(self, a: uint32x4_t, b: uint32x4_t) -> uint32x4_t {
        // SAFETY: as above.
        unsafe { vmulq_u32(a, b) }
    }
    #[inline(always)]
    fn equal(self, a: uint32x4_t, b: uint32x4_t) -> uint32x4_t {
        // SAFETY: as above.
        unsafe { vceqq_u32(a, b) }
    }
    #[inline(always)]
    fn left(self, a: uint32x4_t, n: u32) -> uint32x4_t {
        // SAFETY: as above.
        unsafe { vshlq_u32(a, vdupq_n_s32(n as i32)) }
    }
    #[inline(always)]
    fn right(self, a: uint32x4_t, n: u32) -> uint32x4_t {
        // SAFETY: as above.
        unsafe { vshlq_u32(a, vdupq_n_s32(-(n as i32))) }
    }
    #[inline(always)]
    fn signed_right(self, a: uint32x4_t, n: u32) -> uint32x4_t {
        // SAFETY: as above.
        unsafe {
            vreinterpretq_u32_s32(vshlq_s32(vreinterpretq_s32_u32(a), vdupq_n_s32(-(n as i32))))
        }
    }
    #[inline(always)]
    fn minus_bytes(self, a: uint32x4_t, b: uint32x4_t) -> uint32x4_t {
        // SAFETY: as above.
        unsafe { vreinterpretq_u32_u8(vsubq_u8(vreinterpretq_u8_u32(a), vreinterpretq_u8_u32(b))) }
    }
    #[inline(always)]
    fn look_up(self, table: &[u8; 16], a: uint32x4_t) -> uint32x4_t {
        // SAFETY: 16 bytes are there; no alignment asked.
        unsafe {
            vreinterpretq_u32_u8(vqtbl1q_u8(vld1q_u8(table.as_ptr()), vreinterpretq_u8_u32(a)))
        }
    }
    #[inline(always)]
    fn gather(self, table: &[u32], a: uint32x4_t) -> uint32x4_t {
        assert!(table.len().is_power_of_two());
        let mut at = [0u32; 4];
        // SAFETY: 16 bytes are there; no alignment asked.
        unsafe { vst1q_u32(at.as_mut_ptr(), a) };
        let found = at.map(|i| table[i as usize & (table.len() - 1)]);
        // SAFETY: as above.
        unsafe { vld1q_u32(found.as_ptr()) }
    }

    #[inline(always)]
    fn start(self, sum: i32) -> Sums {
        // SAFETY: Advanced SIMD is part of the target. A row's two lanes are added at last: the first one
        // has the sum.
        unsafe {
            let settled = vreinterpretq_s32_u64(vdupq_n_u64(u64::from(sum as u32)));
            Sums { products: [vdupq_n_s16(0); 2], settled: [settled; 2] }
        }
    }
    // A weight of 0..=127 is the same byte with a sign.
    #[inline(always)]
    fn dot(self, acc: Sums, w: uint32x4_t, x: &[u8]) -> Sums {
        let [low, high] = acc.products;
        // SAFETY: Advanced SIMD is part of the target.
        let products = unsafe {
            let (w, x) = (vreinterpretq_s8_u32(w), vreinterpretq_s8_u32(vdupq_n_u32(four(x))));
            [vmlal_s8(low, vget_low_s8(w), vget_low_s8(x)), vmlal_high_s8(high, w, x)]
        };
        Sums { products, ..acc }
    }
    #[inline(always)]
    fn settle(self, acc: Sums) -> Sums {
        let ([a, b], [low, high]) = (acc.settled, acc.products);
        // SAFETY: Advanced SIMD is part of the target.
        let settled = unsafe { [vpadalq_s16(a, low), vpadalq_s16(b, high)] };
        Sums { settled, ..self.start(0) }
    }
    #[inline(always)]
    fn total(self, acc: Sums) -> uint32x4_t {
        self.total_signed(self.settle(acc).settled)
    }
    #[inline(always)]
    fn zero_signed(self, _: i32) -> Pairs {
        // SAFETY: Advanced SIMD is part of the target.
        unsafe { [vdupq_n_s32(0); 2] }
    }
    #[inline(always)]
    fn dot_signed(self, acc: Pairs, w: uint32x4_t, x: &[u8]) -> Pairs {
        // SAFETY: Advanced SIMD is part of the target. A product of two bytes fits 16 bits.
        unsafe {
            let (w, x) = (vreinterpretq_s8_u32(w), vreinterpretq_s8_u32(vdupq_n_u32(four(x))));
            let low = vmull_s8(vget_low_s8(w), vget_low_s8(x));
            let high = vmull_high_s8(w, x);
            [vpadalq_s16(acc[0], low), vpadalq_s16(acc[1], high)]
        }
    }
    #[inline(always)]
    fn total_signed(self, acc: Pairs) -> uint32x4_t {
        // SAFETY: Advanced SIMD is part of the target.
        unsafe { vreinterpretq_u32_s32(vpaddq_s32(acc[0], acc[1])) }
    }

    #[inline(always)]
    fn floats(self, a: uint32x4_t) -> float32x4_t {
        // SAFETY: as above.
        unsafe { vcvtq_f32_s32(vreinterpretq_s32_u32(a)) }
    }
    #[inline(always)]
    fn halves(self, a: uint32x4_t) -> float32x4_t {
        let mut words = [0u32; 4];
        // SAFETY: 16 bytes are there; no alignment asked.
        unsafe { vst1q_u32(words.as_mut_ptr(), a) };
        self.take(&words.map(|w| f16_to_f32(w as u16)))
    }
    #[inline(always)]
    fn as_floats(self, a: uint32x4_t) -> float32x4_t {
        // SAFETY: as above.
        unsafe { vreinterpretq_f32_u32(a) }
    }
    #[inline(always)]
    fn take_f32(self, x: &[u8]) -> float32x4_t {
        self.as_floats(self.words(x))
    }
    #[inline(always)]
    fn take_f16(self, x: &[u8]) -> float32x4_t {
        let x = head::<8>(x).as_chunks::<2>().0;
        let x: [f32; 4] = core::array::from_fn(|i| f16_to_f32(u16::from_le_bytes(x[i])));
        self.take(&x)
    }
    #[inline(always)]
    fn take_bf16(self, x: &[u8]) -> float32x4_t {
        let x = head::<8>(x).as_chunks::<2>().0;
        let bits = |i: usize| u32::from(u16::from_le_bytes(x[i])) << 16;
        let x: [f32; 4] = core::array::from_fn(|i| f32::from_bits(bits(i)));
        self.take(&x)
    }
    #[inline(always)]
    fn take(self, x: &[f32]) -> float32x4_t {
        // SAFETY: 16 bytes are there; no alignment asked.
        unsafe { vld1q_f32(head_f32::<4>(x).as_ptr()) }
    }
    #[inline(always)]
    fn put(self, x: float32x4_t, out: &mut [f32]) {
        if let Some(out) = out.first_chunk_mut::<4>() {
            // SAFETY: 16 bytes are there; no alignment asked.
            unsafe { vst1q_f32(out.as_mut_ptr(), x) }
        }
    }
    #[inline(always)]
    fn all(self, x: f32) -> float32x4_t {
        // SAFETY: as above.
        unsafe { vdupq_n_f32(x) }
    }
    #[inline(always)]
    fn product(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        // SAFETY: as above.
        unsafe { vmulq_f32(a, b) }
    }
    #[inline(always)]
    fn add_product(self, a: float32x4_t, b: float32x4_t, c: float32x4_t) -> float32x4_t {
        // SAFETY: as above.
        unsafe { vfmaq_f32(c, a, b) }
    }
}
