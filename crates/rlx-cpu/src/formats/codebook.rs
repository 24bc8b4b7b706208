//! Indices into codebooks: `iq1`, `iq2`, `iq3`.
//!
//! A gather brings the 4 or 8 values of an index. Books of 8 are kept as 8 nibbles that number levels:
//! nibble `i` of the bytes' low ones is value `i`, of their high ones value `4 + i`; books of 4 as bytes.

use super::{Block, Format, Visitor, byte, eight, four, high, low, odd_f16, shape, spread, word};
use crate::simd::Lanes;
use rlx_core::formats::codebook as book;

static IQ1: [u32; 2048] = nibbles(&book::IQ1_S);
static IQ2_XXS: [u32; 256] = nibbles(&book::IQ2_XXS);
static IQ2_XS: [u32; 512] = nibbles(&book::IQ2_XS);
static IQ2_S: [u32; 1024] = nibbles(&book::IQ2_S);
static IQ3_XXS: [u32; 256] = book::grid4(&book::IQ3_XXS, book::IQ3_XXS_LEVELS);
static IQ3_S: [u32; 512] = book::grid4(&book::IQ3_S, book::IQ3_S_LEVELS);

const fn nibbles<const N: usize>(book: &[u16; N]) -> [u32; N] {
    let mut out = [0; N];
    let mut n = 0;
    while n < N {
        let mut i = 0;
        while i < 8 {
            let level = (book[n] as u32 >> (2 * i)) & 3;
            out[n] |= level << (8 * (i % 4) + 4 * (i / 4));
            i += 1;
        }
        n += 1;
    }
    out
}

/// Magnitudes of `iq2` by level.
const IQ2: [u8; 16] = {
    let [a, b, c] = book::IQ2_LEVELS;
    [a, b, c, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
};
/// Eight times the values of `iq1`: -1, 0, 1, moved up by an eighth, and from 4 on down.
const IQ1_EIGHTHS: [u8; 16] =
    [(-7i8) as u8, 1, 9, 0, (-9i8) as u8, (-1i8) as u8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// Eight values as two words.
type Two<V> = [V; 2];

/// Magnitudes with the signs of bits 0..4 of each word.
#[inline(always)]
fn with_signs<S: Lanes>(s: S, w: S::V, signs: S::V) -> S::V {
    let ones = spread(s, s.and(signs, s.set(15)));
    let mask = s.minus(s.left(ones, 8), ones); // 255 for each 1
    s.minus_bytes(s.xor(w, mask), mask)
}

/// The eighth sign: it makes their number even.
#[inline(always)]
fn even_signs<S: Lanes>(s: S, seven: S::V) -> S::V {
    let seven = s.and(seven, s.set(127));
    let p = s.xor(seven, s.right(seven, 4));
    let p = s.xor(p, s.right(p, 2));
    let p = s.and(s.xor(p, s.right(p, 1)), s.set(1));
    s.or(seven, s.left(p, 7))
}

#[inline(always)]
fn iq2<S: Lanes>(s: S, table: &[u32], index: S::V, signs: S::V) -> Two<S::V> {
    let levels = s.gather(table, index);
    [
        with_signs(s, s.look_up(&IQ2, low(s, levels)), signs),
        with_signs(s, s.look_up(&IQ2, high(s, levels)), s.right(signs, 4)),
    ]
}

/// `down` is 0 or 1.
#[inline(always)]
fn iq1<S: Lanes>(s: S, index: S::V, down: S::V) -> Two<S::V> {
    let levels = s.gather(&IQ1, index);
    let down = s.times(down, s.set(0x0404_0404));
    [
        s.look_up(&IQ1_EIGHTHS, s.or(low(s, levels), down)),
        s.look_up(&IQ1_EIGHTHS, s.or(high(s, levels), down)),
    ]
}

/// `2 n + 1`.
#[inline(always)]
fn odd<S: Lanes>(s: S, n: S::V) -> S::G {
    s.floats(s.plus(s.plus(n, n), s.set(1)))
}

/// Half `i` of a word.
#[inline(always)]
fn u16_of<S: Lanes>(s: S, w: S::V, i: usize) -> S::V {
    s.and(s.right(w, 16 * i as u32), s.set(0xffff))
}

/// Nibble `i` of a word.
#[inline(always)]
fn nibble<S: Lanes>(s: S, w: S::V, i: usize) -> S::V {
    s.and(s.right(w, 4 * i as u32), s.set(15))
}

/// 1.56 bits.
pub(crate) struct Iq1S;

impl Format for Iq1S {
    shape!(256, 16 * 50, 8, signed, plain);
    #[inline(always)]
    fn visit<S: Lanes>(s: S, b: Block<Self>, h: usize, v: &mut impl Visitor<S>) {
        v.block(s.product(odd_f16(s, b, h), s.all(0.125)), s.all(0.0));
        for r in 0..8 {
            let head = u16_of(s, word(s, b, h, 8 + r / 2), r % 2);
            let low = word(s, b, h, r);
            let down = s.right(head, 15);
            let eights = four!(p => {
                let top = s.and(s.right(head, 3 * p as u32), s.set(7));
                iq1(s, s.or(byte(s, low, p), s.left(top, 8)), down)
            });
            let q = eight!(i => eights[i / 2][i % 2]);
            let scale = odd(s, s.and(s.right(head, 12), s.set(7)));
            v.run32(r, q, scale, s.all(0.0));
        }
    }
}

/// 1.75 bits.
pub(crate) struct Iq1M;

impl Format for Iq1M {
    shape!(256, 16 * 56, 4, signed, plain);
    #[inline(always)]
    fn visit<S: Lanes>(s: S, b: Block<Self>, h: usize, v: &mut impl Visitor<S>) {
        let (x, y) = (word(s, b, h, 12), word(s, b, h, 13));
        let top = |w: S::V, right: u32, mask: u32| s.and(s.right(w, right), s.set(mask));
        let d = s.or(
            s.or(top(x, 12, 0xf), top(x, 24, 0xf0)),
            s.or(top(y, 4, 0xf00), top(y, 16, 0xf000)),
        );
        v.block(s.product(s.halves(d), s.all(0.125)), s.all(0.0));
        for r in 0..16 {
            let scales = u16_of(s, if r < 8 { x } else { y }, r / 4 % 2);
            let scale = s.and(s.right(scales, 3 * (r % 4) as u32), s.set(7));
            let heads = byte(s, word(s, b, h, 8 + r / 4), r % 4);
            let index = word(s, b, h, r / 2);
            let [[a, b2], [c, d8]] = eight!(p => {
                let head = nibble(s, heads, p);
                let index = byte(s, index, 2 * (r % 2) + p);
                let index = s.or(index, s.left(s.and(head, s.set(7)), 8));
                iq1(s, index, s.right(head, 3))
            }; 0 1);
            v.run16(r, [a, b2, c, d8], odd(s, scale), s.all(0.0));
        }
    }
}

/// 2.06 bits.
pub(crate) struct Iq2Xxs;

impl Format for Iq2Xxs {
    shape!(256, 16 * 66, 8, signed, plain);
    #[inline(always)]
    fn visit<S: Lanes>(s: S, b: Block<Self>, h: usize, v: &mut impl Visitor<S>) {
        v.block(s.product(odd_f16(s, b, h), s.all(0.125)), s.all(0.0));
        for r in 0..8 {
            let (index, g) = (word(s, b, h, 2 * r), word(s, b, h, 2 * r + 1));
            let eights = four!(p => {
                let signs = even_signs(s, s.right(g, 7 * p as u32));
                iq2(s, &IQ2_XXS, byte(s, index, p), signs)
            });
            let q = eight!(i => eights[i / 2][i % 2]);
            v.run32(r, q, odd(s, s.right(g, 28)), s.all(0.0));
        }
    }
}

/// 2.31 bits.
pub(crate) struct Iq2Xs;

impl Format for Iq2Xs {
    shape!(256, 16 * 74, 4, signed, plain);
    #[inline(always)]
    fn visit<S: Lanes>(s: S, b: Block<Self>, h: usize, v: &mut impl Visitor<S>) {
        v.block(s.product(odd_f16(s, b, h), s.all(0.125)), s.all(0.0));
        for r in 0..16 {
            let pair = word(s, b, h, r);
            let [[a, b2], [c, d8]] = eight!(p => {
                let q = u16_of(s, pair, p);
                iq2(s, &IQ2_XS, s.and(q, s.set(511)), even_signs(s, s.right(q, 9)))
            }; 0 1);
            let scale = nibble(s, word(s, b, h, 16 + r / 8), r % 8);
            v.run16(r, [a, b2, c, d8], odd(s, scale), s.all(0.0));
        }
    }
}

/// 2.5 bits.
pub(crate) struct Iq2S;

impl Format for Iq2S {
    shape!(256, 16 * 82, 4, signed, plain);
    #[inline(always)]
    fn visit<S: Lanes>(s: S, b: Block<Self>, h: usize, v: &mut impl Visitor<S>) {
        v.block(s.product(odd_f16(s, b, h), s.all(0.125)), s.all(0.0));
        for r in 0..16 {
            let (index, signs) = (word(s, b, h, r / 2), word(s, b, h, 8 + r / 2));
            let tops = byte(s, word(s, b, h, 16 + r / 8), r / 2 % 4);
            let [[a, b2], [c, d8]] = eight!(p => {
                let at = 2 * (r % 2) + p;
                let top = s.and(s.right(tops, 2 * at as u32), s.set(3));
                let index = s.or(byte(s, index, at), s.left(top, 8));
                iq2(s, &IQ2_S, index, byte(s, signs, at))
            }; 0 1);
            let scale = nibble(s, word(s, b, h, 18 + r / 8), r % 8);
            v.run16(r, [a, b2, c, d8], odd(s, scale), s.all(0.0));
        }
    }
}

/// 3.06 bits.
pub(crate) struct Iq3Xxs;

impl Format for Iq3Xxs {
    shape!(256, 16 * 98, 8, signed, plain);
    #[inline(always)]
    fn visit<S: Lanes>(s: S, b: Block<Self>, h: usize, v: &mut impl Visitor<S>) {
        v.block(s.product(odd_f16(s, b, h), s.all(0.25)), s.all(0.0));
        for r in 0..8 {
            let (x, y) = (word(s, b, h, 2 * r), word(s, b, h, 2 * r + 1));
            let g = word(s, b, h, 16 + r);
            let signs = four!(p => even_signs(s, s.right(g, 7 * p as u32)));
            let q = eight!(i => {
                let values = s.gather(&IQ3_XXS, byte(s, if i < 4 { x } else { y }, i % 4));
                with_signs(s, values, s.right(signs[i / 2], 4 * (i % 2) as u32))
            });
            v.run32(r, q, odd(s, s.right(g, 28)), s.all(0.0));
        }
    }
}

/// 3.44 bits.
pub(crate) struct Iq3S;

impl Format for Iq3S {
    shape!(256, 16 * 110, 8, signed, plain);
    #[inline(always)]
    fn visit<S: Lanes>(s: S, b: Block<Self>, h: usize, v: &mut impl Visitor<S>) {
        v.block(odd_f16(s, b, h), s.all(0.0));
        let scales = word(s, b, h, 26);
        for r in 0..8 {
            let (x, y) = (word(s, b, h, 2 * r), word(s, b, h, 2 * r + 1));
            let ninth = byte(s, word(s, b, h, 16 + r / 4), r % 4);
            let signs = word(s, b, h, 18 + r);
            let q = eight!(i => {
                let top = s.and(s.right(ninth, i as u32), s.set(1));
                let index = s.or(byte(s, if i < 4 { x } else { y }, i % 4), s.left(top, 8));
                with_signs(s, s.gather(&IQ3_S, index), s.right(signs, 4 * i as u32))
            });
            v.run32(r, q, odd(s, nibble(s, scales, r)), s.all(0.0));
        }
    }
}
