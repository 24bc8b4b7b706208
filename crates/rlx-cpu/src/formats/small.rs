//! One and two bits an element, and three values.

use super::{Block, Format, Visitor, eight, four, odd_f16, shape, two_bits, word};
use crate::simd::Lanes;

/// 1 bit: -d or d.
pub(crate) struct Q1_0;

impl Format for Q1_0 {
    shape!(128, 16 * 18, 8, 0..=2, less 1);
    #[inline(always)]
    fn visit<S: Lanes>(s: S, b: Block<Self>, h: usize, v: &mut impl Visitor<S>) {
        let d = odd_f16(s, b, h);
        for r in 0..4 {
            let bits = word(s, b, h, r);
            let q = eight!(i => s.bits(bits, i, 1));
            v.run32(r, q, d, s.all(0.0));
        }
    }
}

/// 2 bits less 1.
pub(crate) struct Q2_0;

impl Format for Q2_0 {
    shape!(64, 16 * 18, 8, 0..=3, less 1);
    #[inline(always)]
    fn visit<S: Lanes>(s: S, b: Block<Self>, h: usize, v: &mut impl Visitor<S>) {
        let d = odd_f16(s, b, h);
        for r in 0..2 {
            let (x, y) = (word(s, b, h, 2 * r), word(s, b, h, 2 * r + 1));
            let q = eight!(i => s.pairs(if i < 4 { x } else { y }, i % 4));
            v.run32(r, q, d, s.all(0.0));
        }
    }
}

/// Three values in 2 bits.
pub(crate) struct Tq2_0;

impl Format for Tq2_0 {
    shape!(256, 16 * 66, 8, 0..=3, less 1);
    #[inline(always)]
    fn visit<S: Lanes>(s: S, b: Block<Self>, h: usize, v: &mut impl Visitor<S>) {
        v.block(odd_f16(s, b, h), s.all(0.0));
        for r in 0..8 {
            let q = eight!(i => two_bits(s, word(s, b, h, 8 * (r / 4) + i), 2 * (r % 4) as u32));
            v.run32(r, q, s.all(1.0), s.all(0.0));
        }
    }
}

/// Three values as digits of base 3, five to a byte.
pub(crate) struct Tq1_0;

/// Digit `n` of each byte: the byte is a fraction of 256.
#[inline(always)]
fn digit<S: Lanes>(s: S, w: S::V, n: usize) -> S::V {
    let power = s.set([1, 3, 9, 27, 81][n]);
    let bytes = s.set(0x00ff_00ff);
    let digit = |half: S::V| {
        let rest = s.and(s.times(half, power), bytes);
        s.and(s.right(s.times(rest, s.set(3)), 8), s.set(0x0003_0003))
    };
    let odd = digit(s.and(s.right(w, 8), bytes));
    s.or(digit(s.and(w, bytes)), s.left(odd, 8))
}

impl Format for Tq1_0 {
    shape!(256, 16 * 54, 4, 0..=2, less 1);
    #[inline(always)]
    fn visit<S: Lanes>(s: S, b: Block<Self>, h: usize, v: &mut impl Visitor<S>) {
        v.block(odd_f16(s, b, h), s.all(0.0));
        let one = s.all(1.0);
        for n in 0..5 {
            for part in 0..2 {
                let q = four!(i => digit(s, word(s, b, h, 4 * part + i), n));
                v.run16(2 * n + part, q, one, s.all(0.0));
            }
            let q = four!(i => digit(s, word(s, b, h, 8 + i), n));
            v.run16(10 + n, q, one, s.all(0.0));
        }
        let last = word(s, b, h, 12);
        v.run16(15, four!(n => digit(s, last, n)), one, s.all(0.0));
    }
}
