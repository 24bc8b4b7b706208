//! Plain loops over 16 rows.

use super::f16_to_f32;
use super::lanes::{Lanes, four, head, head_f32};
use super::scalar::Portable;
use core::array::from_fn;

const N: usize = 16;
type Words = [u32; N];

#[inline(always)]
fn zip(a: Words, b: Words, f: impl Fn(u32, u32) -> u32) -> Words {
    from_fn(|i| f(a[i], b[i]))
}

/// Sums of products of four bytes; `w` and `x` are made wider by the caller's choice of sign.
#[inline(always)]
fn products(acc: Words, w: Words, x: u32, wide: impl Fn(u8) -> i32) -> Words {
    let x = x.to_le_bytes().map(|x| i32::from(x as i8));
    from_fn(|i| {
        let w = w[i].to_le_bytes();
        let sum = (0..4).fold(acc[i] as i32, |sum, b| sum.wrapping_add(wide(w[b]) * x[b]));
        sum as u32
    })
}

impl Lanes for Portable {
    type V = Words;
    type G = [f32; N];
    type A = Words;
    type AS = Words;
    const LANES: usize = N;
    const TILE: usize = 4;

    #[inline(always)]
    fn words(self, x: &[u8]) -> Words {
        let x = head::<{ 4 * N }>(x).as_chunks::<4>().0;
        from_fn(|i| u32::from_le_bytes(x[i]))
    }
    #[inline(always)]
    fn bytes(self, x: &[u8]) -> Words {
        head::<N>(x).map(u32::from)
    }
    #[inline(always)]
    fn signed_bytes(self, x: &[u8]) -> Words {
        head::<N>(x).map(|x| x as i8 as u32)
    }
    #[inline(always)]
    fn put_words(self, x: Words, out: &mut [u8]) {
        for (out, x) in out.as_chunks_mut::<4>().0.iter_mut().zip(x) {
            *out = x.to_le_bytes();
        }
    }
    #[inline(always)]
    fn set(self, x: u32) -> Words {
        [x; N]
    }
    #[inline(always)]
    fn and(self, a: Words, b: Words) -> Words {
        zip(a, b, |a, b| a & b)
    }
    #[inline(always)]
    fn or(self, a: Words, b: Words) -> Words {
        zip(a, b, |a, b| a | b)
    }
    #[inline(always)]
    fn xor(self, a: Words, b: Words) -> Words {
        zip(a, b, |a, b| a ^ b)
    }
    #[inline(always)]
    fn plus(self, a: Words, b: Words) -> Words {
        zip(a, b, u32::wrapping_add)
    }
    #[inline(always)]
    fn minus(self, a: Words, b: Words) -> Words {
        zip(a, b, u32::wrapping_sub)
    }
    #[inline(always)]
    fn times(self, a: Words, b: Words) -> Words {
        zip(a, b, u32::wrapping_mul)
    }
    #[inline(always)]
    fn equal(self, a: Words, b: Words) -> Words {
        zip(a, b, |a, b| if a == b { u32::MAX } else { 0 })
    }
    #[inline(always)]
    fn left(self, a: Words, n: u32) -> Words {
        a.map(|a| a << n)
    }
    #[inline(always)]
    fn right(self, a: Words, n: u32) -> Words {
        a.map(|a| a >> n)
    }
    #[inline(always)]
    fn signed_right(self, a: Words, n: u32) -> Words {
        a.map(|a| (a as i32 >> n) as u32)
    }
    #[inline(always)]
    fn minus_bytes(self, a: Words, b: Words) -> Words {
        zip(a, b, |a, b| {
            let (a, b) = (a.to_le_bytes(), b.to_le_bytes());
            u32::from_le_bytes(from_fn(|i| a[i].wrapping_sub(b[i])))
        })
    }
    #[inline(always)]
    fn look_up(self, table: &[u8; 16], a: Words) -> Words {
        a.map(|a| u32::from_le_bytes(a.to_le_bytes().map(|i| table[usize::from(i & 15)])))
    }
    #[inline(always)]
    fn gather(self, table: &[u32], a: Words) -> Words {
        assert!(table.len().is_power_of_two());
        a.map(|a| table[a as usize & (table.len() - 1)])
    }

    #[inline(always)]
    fn start(self, sum: i32) -> Words {
        [sum as u32; N]
    }
    #[inline(always)]
    fn dot(self, acc: Words, w: Words, x: &[u8]) -> Words {
        products(acc, w, four(x), i32::from)
    }
    #[inline(always)]
    fn total(self, acc: Words) -> Words {
        acc
    }
    #[inline(always)]
    fn zero_signed(self, _: i32) -> Words {
        [0; N]
    }
    #[inline(always)]
    fn dot_signed(self, acc: Words, w: Words, x: &[u8]) -> Words {
        products(acc, w, four(x), |w| i32::from(w as i8))
    }
    #[inline(always)]
    fn total_signed(self, acc: Words) -> Words {
        acc
    }

    #[inline(always)]
    fn floats(self, a: Words) -> [f32; N] {
        a.map(|a| a as i32 as f32)
    }
    #[inline(always)]
    fn halves(self, a: Words) -> [f32; N] {
        a.map(|a| f16_to_f32(a as u16))
    }
    #[inline(always)]
    fn as_floats(self, a: Words) -> [f32; N] {
        a.map(f32::from_bits)
    }
    #[inline(always)]
    fn take_f32(self, x: &[u8]) -> [f32; N] {
        self.as_floats(self.words(x))
    }
    #[inline(always)]
    fn take_f16(self, x: &[u8]) -> [f32; N] {
        let x = head::<{ 2 * N }>(x).as_chunks::<2>().0;
        from_fn(|i| f16_to_f32(u16::from_le_bytes(x[i])))
    }
    #[inline(always)]
    fn take_bf16(self, x: &[u8]) -> [f32; N] {
        let x = head::<{ 2 * N }>(x).as_chunks::<2>().0;
        from_fn(|i| f32::from_bits(u32::from(u16::from_le_bytes(x[i])) << 16))
    }
    #[inline(always)]
    fn take(self, x: &[f32]) -> [f32; N] {
        *head_f32(x)
    }
    #[inline(always)]
    fn put(self, x: [f32; N], out: &mut [f32]) {
        if let Some(out) = out.first_chunk_mut() {
            *out = x;
        }
    }
    #[inline(always)]
    fn all(self, x: f32) -> [f32; N] {
        [x; N]
    }
    #[inline(always)]
    fn product(self, a: [f32; N], b: [f32; N]) -> [f32; N] {
        from_fn(|i| a[i] * b[i])
    }
    #[inline(always)]
    fn add_product(self, a: [f32; N], b: [f32; N], c: [f32; N]) -> [f32; N] {
        from_fn(|i| a[i] * b[i] + c[i])
    }
}
