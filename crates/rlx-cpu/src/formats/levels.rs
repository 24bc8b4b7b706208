//! 4 bits that number levels of a table.

use super::{Block, Format, Parts, Visitor, eight, four, odd_f16, shape, word};
use crate::simd::{Lanes, byte, high, low};

/// Levels of `iq4_nl` and `iq4_xs`, as bytes.
const IQ4: [u8; 16] =
    bytes([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113]);
/// Twice the values of FP4 (E2M1).
const FP4: [u8; 16] = bytes([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12]);

const fn bytes(x: [i8; 16]) -> [u8; 16] {
    let mut y = [0; 16];
    let mut i = 0;
    while i < 16 {
        y[i] = x[i] as u8;
        i += 1;
    }
    y
}

/// Sixteen bytes of nibbles from word `first` on, looked up: low ones are elements 0..16.
#[inline(always)]
fn levels<S: Lanes, const N: usize, const O: usize>(
    s: S,
    b: Parts<'_, [u8; N], [u8; O]>,
    h: usize,
    first: usize,
    table: &[u8; 16],
) -> [S::V; 8] {
    let w = four!(i => word(s, b, h, first + i));
    eight!(i => s.look_up(table, if i < 4 { low(s, w[i % 4]) } else { high(s, w[i % 4]) }))
}

/// 4 bits, one scale for 32.
pub(crate) struct Iq4Nl;

impl Format for Iq4Nl {
    shape!(32, 16 * 18, 8, signed, plain);
    #[inline(always)]
    fn visit<S: Lanes>(s: S, b: Block<Self>, h: usize, v: &mut impl Visitor<S>) {
        v.run32(0, levels(s, b, h, 0, &IQ4), odd_f16(s, b, h), s.all(0.0));
    }
}

/// 4 bits in super-blocks of eight runs with 6-bit scales less 32.
pub(crate) struct Iq4Xs;

impl Format for Iq4Xs {
    shape!(256, 16 * 136, 8, signed, plain);
    #[inline(always)]
    fn visit<S: Lanes>(s: S, b: Block<Self>, h: usize, v: &mut impl Visitor<S>) {
        let (head, nibbles) = (word(s, b, h, 0), word(s, b, h, 1));
        v.block(s.halves(head), s.all(0.0));
        for r in 0..8 {
            let low = s.and(s.right(nibbles, 4 * r as u32), s.set(15));
            let top = s.and(s.right(head, 16 + 2 * r as u32), s.set(3));
            let scale = s.minus(s.or(low, s.left(top, 4)), s.set(32));
            v.run32(r, levels(s, b, h, 2 + 4 * r, &IQ4), s.floats(scale), s.all(0.0));
        }
    }
}

/// OCP microscaling FP4: a power of two for 32.
pub(crate) struct Mxfp4;

impl Format for Mxfp4 {
    shape!(32, 16 * 17, 8, signed, plain);
    #[inline(always)]
    fn visit<S: Lanes>(s: S, b: Block<Self>, h: usize, v: &mut impl Visitor<S>) {
        let e = s.bytes(&b.odd[h * S::LANES..]);
        // 2^(e - 128), half of what the byte says since levels are doubled: as two factors, because
        // the ends are no normal numbers.
        let half = s.right(e, 1);
        let power = |n: S::V| s.as_floats(s.left(s.plus(n, s.set(63)), 23));
        let scale = s.product(power(half), power(s.minus(e, half)));
        v.run32(0, levels(s, b, h, 0, &FP4), scale, s.all(0.0));
    }
}

/// NVIDIA FP4: four runs of 16, each with an unsigned E4M3 scale.
pub(crate) struct Nvfp4;

impl Format for Nvfp4 {
    shape!(64, 16 * 36, 4, signed, plain);
    #[inline(always)]
    fn visit<S: Lanes>(s: S, b: Block<Self>, h: usize, v: &mut impl Visitor<S>) {
        let scales = word(s, b, h, 0);
        for r in 0..4 {
            let code = byte(s, scales, r);
            // 0x7f is no number and counts as 0; else the sign is not looked at. As an f16 the other
            // bits are 2^-8 of the scale, and levels are doubled.
            let none = s.equal(code, s.set(0x7f));
            let bits = s.left(s.and(code, s.set(0x7f)), 7);
            let bits = s.and(bits, s.xor(none, s.set(u32::MAX)));
            let scale = s.product(s.halves(bits), s.all(128.0));
            let w = [word(s, b, h, 1 + 2 * r), word(s, b, h, 2 + 2 * r)];
            let q = four!(i => {
                s.look_up(&FP4, if i < 2 { low(s, w[i % 2]) } else { high(s, w[i % 2]) })
            });
            v.run16(r, q, scale, s.all(0.0));
        }
    }
}
