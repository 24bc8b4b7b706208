//! Blocks of 32 with one scale, and a minimum or none.

use super::{Block, Format, Parts, Visitor, eight, four, odd_f16, of_group, rows, shape, word};
use crate::simd::{Lanes, high, low};

/// Words `i` of both halves of a run: of sixteen bytes of nibbles the low ones are elements 0..16, the high ones
/// 16..32.
#[inline(always)]
fn nibbles<S: Lanes>(s: S, w: &[[u8; 64]; 4], h: usize, i: usize) -> [S::V; 2] {
    let w = of_group(s, &w[i], h);
    [low(s, w), high(s, w)]
}

/// The same with a fifth bit: bit `i` of word `first` is element `i`'s.
#[inline(always)]
fn five_bits<S: Lanes, const N: usize, const O: usize>(
    s: S,
    b: Parts<'_, [u8; N], [u8; O]>,
    h: usize,
    first: usize,
) -> [S::V; 8] {
    let (fifth, q) = (word(s, b, h, first), four!(i => nibbles(s, rows(b, first + 1), h, i)));
    eight!(i => s.or(q[i % 4][i / 4], s.bits(fifth, i, 4)))
}

/// 4 bits less 8, one scale.
pub(crate) struct Q4_0;

impl Format for Q4_0 {
    shape!(32, 16 * 18, 8, 0..=15, less 8);
    #[inline(always)]
    fn visit<S: Lanes>(s: S, b: Block<Self>, h: usize, v: &mut impl Visitor<S>) {
        let (d, words) = (odd_f16(s, b, h), rows(b, 0));
        v.halves(
            0,
            #[inline(always)]
            |i| nibbles(s, words, h, i),
            d,
            s.all(0.0),
        );
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
        let words = rows(b, 1);
        v.halves(
            0,
            #[inline(always)]
            |i| nibbles(s, words, h, i),
            s.halves(dm),
            least,
        );
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
        let words = rows::<8, _, _>(b, 0);
        v.halves(
            0,
            #[inline(always)]
            |i| [of_group(s, &words[i], h), of_group(s, &words[i + 4], h)],
            odd_f16(s, b, h),
            s.all(0.0),
        );
    }
}
