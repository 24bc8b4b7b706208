//! Indices into codebooks: `iq1`, `iq2`, `iq3`.
//!
//! Four indices of each row are looked up at once, as [`Lanes::eights`] and [`Lanes::fours`] do at their
//! level: their low bytes in one word, what is above these in the bytes of another.

use super::{Block, Format, Visitor, eight, four, odd_f16, shape, word};
use crate::simd::{Eights, Fours, Lanes, byte};
use rlx_core::formats::codebook as book;

static IQ1: Eights<2048> = Eights::new(&book::IQ1_S);
static IQ2_XXS: Eights<256> = Eights::new(&book::IQ2_XXS);
static IQ2_XS: Eights<512> = Eights::new(&book::IQ2_XS);
static IQ2_S: Eights<1024> = Eights::new(&book::IQ2_S);
static IQ3_XXS: Fours<256> = Fours::new(&book::IQ3_XXS, book::IQ3_XXS_LEVELS);
static IQ3_S: Fours<512> = Fours::new(&book::IQ3_S, book::IQ3_S_LEVELS);

/// Magnitudes of `iq2` by level.
const IQ2: [u8; 16] = {
    let [a, b, c] = book::IQ2_LEVELS;
    [a, b, c, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
};
/// Eight times the values of `iq1`: -1, 0, 1, moved up by an eighth, and from 4 on down.
const IQ1_EIGHTHS: [u8; 16] =
    [(-7i8) as u8, 1, 9, 0, (-9i8) as u8, (-1i8) as u8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// Seven bits from 7 p on, for p in 0..4, each to a byte.
#[inline(always)]
fn sevens<S: Lanes>(s: S, w: S::V) -> S::V {
    let [a, b, c, d] = four!(p => s.and(s.left(w, p as u32), s.set(0x7f << (8 * p))));
    s.or(s.or(a, b), s.or(c, d))
}

/// Each byte's seven signs and the eighth, which makes their number even.
#[inline(always)]
fn even_signs<S: Lanes>(s: S, sevens: S::V) -> S::V {
    // Only the lowest bits count: what comes from the byte above does not reach them.
    let p = s.xor(sevens, s.right(sevens, 4));
    let p = s.xor(p, s.right(p, 2));
    let p = s.and(s.xor(p, s.right(p, 1)), s.set(0x0101_0101));
    s.or(sevens, s.left(p, 7))
}

/// Magnitudes of four entries with their signs: byte `p` has those of entry `p`.
#[inline(always)]
fn iq2<S: Lanes, const N: usize>(
    s: S,
    book: &Eights<N>,
    low: S::V,
    top: S::V,
    signs: S::V,
) -> [[S::V; 2]; 4] {
    let levels = s.eights(book, low, top);
    four!(p => {
        let [a, b] = levels[p];
        s.with_signs([s.look_up(&IQ2, a), s.look_up(&IQ2, b)], signs, p)
    })
}

/// Four entries' values; byte `p` of `down` is 0 or 1.
#[inline(always)]
fn iq1<S: Lanes>(s: S, low: S::V, top: S::V, down: S::V) -> [[S::V; 2]; 4] {
    let levels = s.eights(&IQ1, low, top);
    four!(p => {
        let [a, b] = levels[p];
        let down = s.times(byte(s, down, p), s.set(0x0404_0404));
        [s.look_up(&IQ1_EIGHTHS, s.or(a, down)), s.look_up(&IQ1_EIGHTHS, s.or(b, down))]
    })
}

/// Eight entries of four, and their signs: byte `p` has those of entries `2 p` and `2 p + 1`.
#[inline(always)]
fn iq3<S: Lanes, const N: usize>(
    s: S,
    book: &Fours<N>,
    low: [S::V; 2],
    top: [S::V; 2],
    signs: S::V,
) -> [S::V; 8] {
    let [a, b, c, d] = s.fours(book, low[0], top[0]);
    let [e, f, g, i] = s.fours(book, low[1], top[1]);
    let [a, b] = s.with_signs([a, b], signs, 0);
    let [c, d] = s.with_signs([c, d], signs, 1);
    let [e, f] = s.with_signs([e, f], signs, 2);
    let [g, i] = s.with_signs([g, i], signs, 3);
    [a, b, c, d, e, f, g, i]
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

/// Runs `2 pair` and the next, with their nibbles of eight as scales.
#[inline(always)]
fn two_runs<S: Lanes>(
    s: S,
    v: &mut impl Visitor<S>,
    pair: usize,
    [[q0, q1], [q2, q3], [q4, q5], [q6, q7]]: [[S::V; 2]; 4],
    scales: S::V,
) {
    let scale = odd(s, nibble(s, scales, 2 * pair % 8));
    v.run16(2 * pair, [q0, q1, q2, q3], scale, s.all(0.0));
    let scale = odd(s, nibble(s, scales, 2 * pair % 8 + 1));
    v.run16(2 * pair + 1, [q4, q5, q6, q7], scale, s.all(0.0));
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
            // Three bits for each index, to bytes.
            let [i0, i1, i2, i3] =
                four!(p => s.and(s.left(head, 5 * p as u32), s.set(7 << (8 * p))));
            let top = s.or(s.or(i0, i1), s.or(i2, i3));
            let down = s.times(s.right(head, 15), s.set(0x0101_0101));
            let eights = iq1(s, word(s, b, h, r), top, down);
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
        for pair in 0..8 {
            let heads = u16_of(s, word(s, b, h, 8 + pair / 2), pair % 2);
            // A nibble for each index, to bytes.
            let heads = s.and(s.or(heads, s.left(heads, 8)), s.set(0x00ff_00ff));
            let heads = s.and(s.or(heads, s.left(heads, 4)), s.set(0x0f0f_0f0f));
            let top = s.and(heads, s.set(0x0707_0707));
            let down = s.and(s.right(heads, 3), s.set(0x0101_0101));
            let [[q0, q1], [q2, q3], [q4, q5], [q6, q7]] = iq1(s, word(s, b, h, pair), top, down);
            let scales = u16_of(s, if pair < 4 { x } else { y }, pair / 2 % 2);
            let three = s.set(7);
            let scales = s.right(scales, 6 * (pair % 2) as u32);
            v.run16(2 * pair, [q0, q1, q2, q3], odd(s, s.and(scales, three)), s.all(0.0));
            let scale = odd(s, s.and(s.right(scales, 3), three));
            v.run16(2 * pair + 1, [q4, q5, q6, q7], scale, s.all(0.0));
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
            let eights = iq2(s, &IQ2_XXS, index, s.set(0), even_signs(s, sevens(s, g)));
            let q = eight!(i => eights[i / 2][i % 2]);
            v.run32(r, q, odd(s, s.right(g, 28)), s.all(0.0));
        }
    }
}

/// Of one word what the mask has, of the other what it has a byte further up.
#[inline(always)]
fn mix<S: Lanes>(s: S, x: S::V, y: S::V, mask: u32) -> S::V {
    s.or(s.and(x, s.set(mask)), s.and(y, s.set(mask << 8)))
}

/// 2.31 bits.
pub(crate) struct Iq2Xs;

impl Format for Iq2Xs {
    shape!(256, 16 * 74, 4, signed, plain);
    #[inline(always)]
    fn visit<S: Lanes>(s: S, b: Block<Self>, h: usize, v: &mut impl Visitor<S>) {
        v.block(s.product(odd_f16(s, b, h), s.all(0.125)), s.all(0.0));
        for pair in 0..8 {
            // Nine bits of index and seven signs, twice in a word: bytes are indices 0, 2, 1 and 3.
            let (x, y) = (word(s, b, h, 2 * pair), word(s, b, h, 2 * pair + 1));
            let low = mix(s, x, s.left(y, 8), 0x00ff_00ff);
            let top = mix(s, s.right(x, 8), y, 0x0001_0001);
            let signs = even_signs(s, mix(s, s.right(x, 9), s.right(y, 1), 0x007f_007f));
            let [a, c, b2, d] = iq2(s, &IQ2_XS, low, top, signs);
            two_runs(s, v, pair, [a, b2, c, d], word(s, b, h, 16 + pair / 4));
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
        for pair in 0..8 {
            let (index, signs) = (word(s, b, h, pair), word(s, b, h, 8 + pair));
            let top = s.pairs(word(s, b, h, 16 + pair / 4), pair % 4);
            let q = iq2(s, &IQ2_S, index, top, signs);
            two_runs(s, v, pair, q, word(s, b, h, 18 + pair / 4));
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
            let q = iq3(s, &IQ3_XXS, [x, y], [s.set(0); 2], even_signs(s, sevens(s, g)));
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
            let top = [s.bits(ninth, 0, 0), s.bits(ninth, 1, 0)];
            let q = iq3(s, &IQ3_S, [x, y], top, word(s, b, h, 18 + r));
            v.run32(r, q, odd(s, nibble(s, scales, r)), s.all(0.0));
        }
    }
}
