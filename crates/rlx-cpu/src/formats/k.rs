//! Super-blocks of 256: runs of 16 or 32 with small scales, one or two f16 for all.

use super::{
    Block, Format, Parts, Visitor, eight, four, odd_f16, shape, signed_byte, two_bits, word,
};
use crate::simd::{Lanes, byte, high, low};

/// 2 bits: 16 runs of 16 with 4-bit scales and minima.
pub(crate) struct Q2K;

impl Format for Q2K {
    shape!(256, 16 * 84, 4, 0..=3, least);
    #[inline(always)]
    fn visit<S: Lanes>(s: S, b: Block<Self>, h: usize, v: &mut impl Visitor<S>) {
        let dm = word(s, b, h, 20);
        v.block(s.halves(dm), s.halves(s.right(dm, 16)));
        for r in 0..16 {
            // A half of 128 has 32 bytes; run 2 j and 2 j + 1 of it are bits 2 j.. of both 16s.
            let (half, j, part) = (r / 8, r / 2 % 4, r % 2);
            let q =
                four!(i => two_bits(s, word(s, b, h, 4 + 8 * half + 4 * part + i), 2 * j as u32));
            let scale = byte(s, word(s, b, h, r / 4), r % 4);
            let least = s.floats(s.right(scale, 4));
            v.run16(r, q, s.floats(s.and(scale, s.set(15))), least);
        }
    }
}

/// 3 bits less 4: 16 runs of 16 with 6-bit scales less 32.
pub(crate) struct Q3K;

impl Format for Q3K {
    shape!(256, 16 * 110, 4, 0..=7, less 4);
    #[inline(always)]
    fn visit<S: Lanes>(s: S, b: Block<Self>, h: usize, v: &mut impl Visitor<S>) {
        v.block(odd_f16(s, b, h), s.all(0.0));
        let (x, y, top) = (word(s, b, h, 24), word(s, b, h, 25), word(s, b, h, 26));
        let scales = [
            s.or(low(s, x), s.left(two_bits(s, top, 0), 4)),
            s.or(low(s, y), s.left(two_bits(s, top, 2), 4)),
            s.or(high(s, x), s.left(two_bits(s, top, 4), 4)),
            s.or(high(s, y), s.left(two_bits(s, top, 6), 4)),
        ];
        for r in 0..16 {
            let (half, j, part) = (r / 8, r / 2 % 4, r % 2);
            let q = four!(i => {
                let low = two_bits(s, word(s, b, h, 8 + 8 * half + 4 * part + i), 2 * j as u32);
                let third = s.right(word(s, b, h, 4 * part + i), (4 * half + j) as u32);
                s.or(low, s.left(s.and(third, s.set(0x0101_0101)), 2))
            });
            let scale = s.minus(byte(s, scales[r / 4], r % 4), s.set(32));
            v.run16(r, q, s.floats(scale), s.all(0.0));
        }
    }
}

/// Scales and minima of eight runs in the three words that `q4_k` and `q5_k` share, each four to a
/// word. Runs 0..4 have the low 6 bits of the first two words; runs 4..8 a nibble of the third below
/// the top 2 bits of the others.
#[inline(always)]
fn scales_and_minima<S: Lanes>(s: S, x: S::V, y: S::V, z: S::V) -> ([S::V; 2], [S::V; 2]) {
    let six = s.set(0x3f3f_3f3f);
    let top = |w: S::V| s.and(s.right(w, 2), s.set(0x3030_3030));
    ([s.and(x, six), s.or(low(s, z), top(x))], [s.and(y, six), s.or(high(s, z), top(y))])
}

/// Visits the eight runs of 32 of such a block; `pair(j)` gives runs `2 j` and `2 j + 1`.
#[inline(always)]
fn runs<S: Lanes, const N: usize, const O: usize>(
    s: S,
    b: Parts<'_, [u8; N], [u8; O]>,
    h: usize,
    v: &mut impl Visitor<S>,
    pair: impl Fn(usize) -> [[S::V; 8]; 2],
) {
    let dm = word(s, b, h, 0);
    v.block(s.halves(dm), s.halves(s.right(dm, 16)));
    let (x, y, z) = (word(s, b, h, 1), word(s, b, h, 2), word(s, b, h, 3));
    let (scales, minima) = scales_and_minima(s, x, y, z);
    for j in 0..4 {
        let [even, odd] = pair(j);
        // Runs 2 j and 2 j + 1 have bytes 2 (j mod 2) and the next of a word.
        let (scales, minima) = (scales[j / 2], minima[j / 2]);
        let shift = 16 * (j % 2) as u32;
        let (scales, minima) = (s.right(scales, shift), s.right(minima, shift));
        let (scale, least) = (s.floats(byte(s, scales, 0)), s.floats(byte(s, minima, 0)));
        v.run32(2 * j, even, scale, least);
        let (scale, least) = (s.floats(byte(s, scales, 1)), s.floats(byte(s, minima, 1)));
        v.run32(2 * j + 1, odd, scale, least);
    }
}

/// 4 bits: eight runs of 32 with 6-bit scales and minima.
pub(crate) struct Q4K;

impl Format for Q4K {
    shape!(256, 16 * 144, 8, 0..=15, least);
    #[inline(always)]
    fn visit<S: Lanes>(s: S, b: Block<Self>, h: usize, v: &mut impl Visitor<S>) {
        runs(
            s,
            b,
            h,
            v,
            #[inline(always)]
            |j| {
                let w = eight!(i => word(s, b, h, 4 + 8 * j + i));
                [eight!(i => low(s, w[i])), eight!(i => high(s, w[i]))]
            },
        );
    }
}

/// 5 bits: as [`Q4K`], with a fifth bit from 32 bytes of one bit a run.
pub(crate) struct Q5K;

impl Format for Q5K {
    shape!(256, 16 * 176, 8, 0..=31, least);
    #[inline(always)]
    fn visit<S: Lanes>(s: S, b: Block<Self>, h: usize, v: &mut impl Visitor<S>) {
        runs(
            s,
            b,
            h,
            v,
            #[inline(always)]
            |j| {
                let w = eight!(i => word(s, b, h, 12 + 8 * j + i));
                let bits = eight!(i => s.right(word(s, b, h, 4 + i), 2 * j as u32));
                let one = s.set(0x0101_0101);
                [
                    eight!(i => s.or(low(s, w[i]), s.left(s.and(bits[i], one), 4))),
                    eight!(i => {
                        s.or(high(s, w[i]), s.left(s.and(s.right(bits[i], 1), one), 4))
                    }),
                ]
            },
        );
    }
}

/// 6 bits less 32: 16 runs of 16 with signed 8-bit scales.
pub(crate) struct Q6K;

impl Format for Q6K {
    shape!(256, 16 * 210, 4, 0..=63, less 32);
    #[inline(always)]
    fn visit<S: Lanes>(s: S, b: Block<Self>, h: usize, v: &mut impl Visitor<S>) {
        v.block(odd_f16(s, b, h), s.all(0.0));
        // A half of 128: 64 bytes of low nibbles, 32 of top bits; four runs of 32 in it. The same words
        // have the low and the high nibbles of runs that stand 64 apart.
        for quarter in 0..4 {
            let (half, part) = (quarter / 2, quarter % 2);
            // Words stand in the order in which they are read (`panel`).
            let at = 26 * half + 2 + 12 * part;
            let tops = four!(i => word(s, b, h, at + i));
            let six = s.set(0x3030_3030);
            let x = four!(i => word(s, b, h, at + 4 + i));
            let y = four!(i => word(s, b, h, at + 8 + i));
            let q0 = four!(i => s.or(low(s, x[i]), s.and(s.left(tops[i], 4), six)));
            let q1 = four!(i => s.or(low(s, y[i]), s.and(s.left(tops[i], 2), six)));
            let q2 = four!(i => s.or(high(s, x[i]), s.and(tops[i], six)));
            let q3 = four!(i => s.or(high(s, y[i]), s.and(s.right(tops[i], 2), six)));
            // Runs 8 half + 2 k + part: their scales are bytes 2 k + part of two words.
            let scale = |i: usize| s.right(word(s, b, h, 26 * half + i), 8 * part as u32);
            let scales = [scale(0), scale(1)];
            let first = 8 * half + part;
            let scale = s.floats(signed_byte(s, scales[0], 0));
            v.run16(first, q0, scale, s.all(0.0));
            let scale = s.floats(signed_byte(s, scales[0], 2));
            v.run16(first + 2, q1, scale, s.all(0.0));
            let scale = s.floats(signed_byte(s, scales[1], 0));
            v.run16(first + 4, q2, scale, s.all(0.0));
            let scale = s.floats(signed_byte(s, scales[1], 2));
            v.run16(first + 6, q3, scale, s.all(0.0));
        }
    }
}
