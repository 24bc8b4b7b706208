//! Blocks of 32 with one scale, and a minimum or none.

use super::{Block, Format, Parts, Visitor, eight, four, odd_f16, shape, word};
use crate::simd::{Lanes, high, low};

/// Sixteen bytes of nibbles from word `first` on: low ones are elements 0..16, high ones 16..32.
#[inline(always)]
fn nibbles<S: Lanes, const N: usize, const O: usize>(
    s: S,
    b: Parts<'_, [u8; N], [u8; O]>,
    h: usize,
    first: usize,
) -> [S::V; 8] {
    let w = four!(i => word(s, b, h, first + i));
    eight!(i => if i < 4 { low(s, w[i % 4]) } else { high(s, w[i % 4]) })
}

/// The same with a fifth bit: bit `i` of word `first` is element `i`'s.
#[inline(always)]
fn five_bits<S: Lanes, const N: usize, const O: usize>(
    s: S,
    b: Parts<'_, [u8; N], [u8; O]>,
    h: usize,
    first: usize,
) -> [S::V; 8] {
    let (fifth, q) = (word(s, b, h, first), nibbles(s, b, h, first + 1));
    eight!(i => s.or(q[i], s.bits(fifth, i, 4)))
}

/// 4 bits less 8, one scale.
pub(crate) struct Q4_0;

impl Format for Q4_0 {
    shape!(32, 16 * 18, 8, 0..=15, less 8);
    #[inline(always)]
    fn visit<S: Lanes>(s: S, b: Block<Self>, h: usize, v: &mut impl Visitor<S>) {
        let d = odd_f16(s, b, h);
        v.run32(0, nibbles(s, b, h, 0), d, s.all(0.0));
    }
}

/// 4 bits, scale and minimum.
pub(crate) struct Q4_1;

impl Format for Q4_1 {
    shape!(32, 16 * 20, 8, 0..=15, least);
    #[inline(always)]
    fn visit<S: Lanes>(s: S, b: Block<Self>, h: usize, v: &mut impl Visitor<S>) {
        let dm = word(s, b, h, 0);
        let least = s.product(s.halves(s.right(dm, 16)), s.all(-1.0));
        v.run32(0, nibbles(s, b, h, 1), s.halves(dm), least);
    }
}

/// 5 bits less 16, one scale.
pub(crate) struct Q5_0;

impl Format for Q5_0 {
    shape!(32, 16 * 22, 8, 0..=31, less 16);
    #[inline(always)]
    fn visit<S: Lanes>(s: S, b: Block<Self>, h: usize, v: &mut impl Visitor<S>) {
        let d = odd_f16(s, b, h);
        v.run32(0, five_bits(s, b, h, 0), d, s.all(0.0));
    }
}

/// 5 bits, scale and minimum.
pub(crate) struct Q5_1;

impl Format for Q5_1 {
    shape!(32, 16 * 24, 8, 0..=31, least);
    #[inline(always)]
    fn visit<S: Lanes>(s: S, b: Block<Self>, h: usize, v: &mut impl Visitor<S>) {
        let dm = word(s, b, h, 0);
        let least = s.product(s.halves(s.right(dm, 16)), s.all(-1.0));
        v.run32(0, five_bits(s, b, h, 1), s.halves(dm), least);
    }
}

/// 8 bits, one scale.
pub(crate) struct Q8_0;

impl Format for Q8_0 {
    shape!(32, 16 * 34, 8, signed, plain);
    #[inline(always)]
    fn visit<S: Lanes>(s: S, b: Block<Self>, h: usize, v: &mut impl Visitor<S>) {
        v.run32(0, eight!(i => word(s, b, h, i)), odd_f16(s, b, h), s.all(0.0));
    }
}
