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

/// Bytes of words as fractions of 256, the even ones and the odd ones in halves of a word: room for three
/// times as much.
type Fractions<V> = [V; 2];

#[inline(always)]
fn fractions<S: Lanes>(s: S, w: S::V) -> Fractions<S::V> {
    let bytes = s.set(0x00ff_00ff);
    [s.and(w, bytes), s.and(s.right(w, 8), bytes)]
}

/// The first digit of each fraction, which it loses.
#[inline(always)]
fn digit<S: Lanes>(s: S, f: &mut Fractions<S::V>) -> S::V {
    let [even, odd] = [s.plus(f[0], s.left(f[0], 1)), s.plus(f[1], s.left(f[1], 1))];
    let bytes = s.set(0x00ff_00ff);
    *f = [s.and(even, bytes), s.and(odd, bytes)];
    s.or(s.and(s.right(even, 8), s.set(0x0003_0003)), s.and(odd, s.set(0x0300_0300)))
}

impl Format for Tq1_0 {
    shape!(256, 16 * 54, 4, 0..=2, less 1);
    #[inline(always)]
    fn visit<S: Lanes>(s: S, b: Block<Self>, h: usize, v: &mut impl Visitor<S>) {
        v.block(odd_f16(s, b, h), s.all(0.0));
        let one = s.all(1.0);
        for part in 0..2 {
            let mut f = four!(i => fractions(s, word(s, b, h, 4 * part + i)));
            for n in 0..5 {
                v.run16(2 * n + part, four!(i => digit(s, &mut f[i])), one, s.all(0.0));
            }
        }
        let mut f = four!(i => fractions(s, word(s, b, h, 8 + i)));
        for n in 0..5 {
            v.run16(10 + n, four!(i => digit(s, &mut f[i])), one, s.all(0.0));
        }
        let mut last = fractions(s, word(s, b, h, 12));
        v.run16(15, four!(_n => digit(s, &mut last)), one, s.all(0.0));
    }
}
