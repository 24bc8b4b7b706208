//! The `iq` formats: indices into the books of `codebook.rs`.
//!
//! ```text
//! iq1_s    256/50   d 0..2, index 2..34, u16 h 34..50
//!                   d (2 s + 1) (v ± 1/8); h of a run of 32: 4 x 3 high bits of indices, s of 3 bits, sign
//! iq1_m    256/56   index 0..32, h 32..48, u16 s 48..56
//!                   the same; a nibble of h an index: 3 high bits, sign; 3 bits of s for each 16 elements,
//!                   four of them in a u16, whose top nibbles together are d
//! iq2_xxs  256/66   d 0..2, 8 x (4 indices, u32 g) 2..66
//!                   d (s + 1/2) / 4 v; g of a run of 32: 4 x 7 bits of signs, s of 4 bits
//! iq2_xs   256/74   d 0..2, u16 2..66: index of 9 bits, 7 of signs; s 66..74: a nibble for each 16
//! iq2_s    256/82   d 0..2, index 2..34, signs 34..66, high 2 bits of indices 66..74, s 74..82
//! iq3_xxs  256/98   d 0..2, 64 indices 2..66, 8 x g 66..98      d (s + 1/2) / 2 v
//! iq3_s    256/110  d 0..2, index 2..66, ninth bits 66..74, signs 74..106, s 106..110
//!                   d (2 s + 1) v; a nibble for each 32
//! iq4_nl   32/18    d 0..2, q 2..18                              d IQ4_NL[q]
//! iq4_xs   256/136  d 0..2, u16 high 2..4, low 4..8, q 8..136    (d (s - 32)) IQ4_NL[q]
//! ```
//!
//! An index of iq1 and iq2 stands for 8 elements, one of iq3 for 4. Seven bits of signs are
//! [`even_signs`]. iq4 has 16 bytes for each 32 elements: low nibbles are the first 16; in iq4_xs scale `j`
//! of 8 is a nibble of `low` under bits `2 j` and `2 j + 1` of `high`.

use super::codebook::{
    IQ1_S, IQ2_LEVELS, IQ2_S, IQ2_XS, IQ2_XXS, IQ3_S, IQ3_S_LEVELS, IQ3_XXS, IQ3_XXS_LEVELS,
    IQ4_NL, even_signs,
};
use super::half_at;

fn u16_at(b: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([b[at], b[at + 1]])
}

fn u32_at(b: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]])
}

/// `d` times the magnitude, then the sign: bit `i` of `signs` for value `i`.
fn signed(d: f32, magnitude: u8, signs: u8, i: usize) -> f32 {
    let y = d * f32::from(magnitude);
    if (signs >> i) & 1 == 1 { -y } else { y }
}

/// 8 values of an iq2 format.
fn eight(d: f32, group: u16, signs: u8, out: &mut [f32]) {
    for (i, y) in out.iter_mut().enumerate() {
        *y = signed(d, IQ2_LEVELS[usize::from((group >> (2 * i)) & 3)], signs, i);
    }
}

/// 8 values of an iq3 format: two groups of 4.
fn two_fours(d: f32, groups: [u16; 2], levels: &[u8; 8], signs: u8, out: &mut [f32]) {
    for (i, y) in out.iter_mut().enumerate() {
        let level = (groups[i / 4] >> (3 * (i % 4))) & 7;
        *y = signed(d, levels[usize::from(level)], signs, i);
    }
}

/// 8 values of an iq1 format: -1, 0 or 1, each moved by `delta`.
fn eight_ones(d: f32, group: u16, delta: f32, out: &mut [f32]) {
    for (i, y) in out.iter_mut().enumerate() {
        let v = i32::from((group >> (2 * i)) & 3) - 1;
        *y = d * (v as f32 + delta);
    }
}

/// How far iq1's values are moved, up or down.
fn delta(down: bool) -> f32 {
    if down { -0.125 } else { 0.125 }
}

pub(super) fn iq1_s(b: &[u8], out: &mut [f32]) {
    let d = half_at(b, 0);
    for (run, y) in out.chunks_exact_mut(32).enumerate() {
        let h = u16_at(b, 34 + 2 * run);
        let ds = d * f32::from(2 * ((h >> 12) & 7) + 1);
        for (part, y) in y.chunks_exact_mut(8).enumerate() {
            let high = (h >> (3 * part)) & 7;
            let index = u16::from(b[2 + 4 * run + part]) | (high << 8);
            eight_ones(ds, IQ1_S[usize::from(index)], delta(h >> 15 == 1), y);
        }
    }
}

pub(super) fn iq1_m(b: &[u8], out: &mut [f32]) {
    let s: [u16; 4] = core::array::from_fn(|i| u16_at(b, 48 + 2 * i));
    let d = (s[0] >> 12) | ((s[1] >> 8) & 0xf0) | ((s[2] >> 4) & 0xf00) | (s[3] & 0xf000);
    let d = half::f16::from_bits(d).to_f32();
    for (part, y) in out.chunks_exact_mut(8).enumerate() {
        let scale = (s[part / 8] >> (3 * (part / 2 % 4))) & 7;
        let h = b[32 + part / 2] >> (4 * (part % 2));
        let index = u16::from(b[part]) | (u16::from(h & 7) << 8);
        eight_ones(d * f32::from(2 * scale + 1), IQ1_S[usize::from(index)], delta(h & 8 != 0), y);
    }
}

/// The scale of a run: `d` times `s + 1/2` of 4 bits, times `unit`.
fn half_scale(d: f32, s: u32, unit: f32) -> f32 {
    d * (0.5 + (s & 15) as f32) * unit
}

pub(super) fn iq2_xxs(b: &[u8], out: &mut [f32]) {
    let d = half_at(b, 0);
    for (run, y) in out.chunks_exact_mut(32).enumerate() {
        let index = &b[2 + 8 * run..][..4];
        let g = u32_at(b, 6 + 8 * run);
        let ds = half_scale(d, g >> 28, 0.25);
        for (part, y) in y.chunks_exact_mut(8).enumerate() {
            let signs = even_signs((g >> (7 * part)) as u8);
            eight(ds, IQ2_XXS[usize::from(index[part])], signs, y);
        }
    }
}

pub(super) fn iq2_xs(b: &[u8], out: &mut [f32]) {
    let d = half_at(b, 0);
    for (part, y) in out.chunks_exact_mut(8).enumerate() {
        let q = u16_at(b, 2 + 2 * part);
        let ds = half_scale(d, u32::from(b[66 + part / 4] >> (4 * (part / 2 % 2))), 0.25);
        eight(ds, IQ2_XS[usize::from(q & 511)], even_signs((q >> 9) as u8), y);
    }
}

pub(super) fn iq2_s(b: &[u8], out: &mut [f32]) {
    let d = half_at(b, 0);
    for (part, y) in out.chunks_exact_mut(8).enumerate() {
        let high = (b[66 + part / 4] >> (2 * (part % 4))) & 3;
        let index = u16::from(b[2 + part]) | (u16::from(high) << 8);
        let ds = half_scale(d, u32::from(b[74 + part / 4] >> (4 * (part / 2 % 2))), 0.25);
        eight(ds, IQ2_S[usize::from(index)], b[34 + part], y);
    }
}

pub(super) fn iq3_xxs(b: &[u8], out: &mut [f32]) {
    let d = half_at(b, 0);
    for (part, y) in out.chunks_exact_mut(8).enumerate() {
        let g = u32_at(b, 66 + 4 * (part / 4));
        let groups = [0, 1].map(|n| IQ3_XXS[usize::from(b[2 + 2 * part + n])]);
        let signs = even_signs((g >> (7 * (part % 4))) as u8);
        two_fours(half_scale(d, g >> 28, 0.5), groups, &IQ3_XXS_LEVELS, signs, y);
    }
}

pub(super) fn iq3_s(b: &[u8], out: &mut [f32]) {
    let d = half_at(b, 0);
    for (part, y) in out.chunks_exact_mut(8).enumerate() {
        let ninth = u16::from(b[66 + part / 4]) >> (2 * (part % 4));
        let groups = [0, 1].map(|n| {
            let index = u16::from(b[2 + 2 * part + n]) | (((ninth >> n) & 1) << 8);
            IQ3_S[usize::from(index)]
        });
        let scale = (b[106 + part / 8] >> (4 * (part / 4 % 2))) & 15;
        two_fours(d * f32::from(2 * scale + 1), groups, &IQ3_S_LEVELS, b[74 + part], y);
    }
}

/// 32 elements of an iq4 format.
fn non_linear(d: f32, q: &[u8], out: &mut [f32]) {
    for (i, q) in q.iter().enumerate() {
        out[i] = d * f32::from(IQ4_NL[usize::from(q & 15)]);
        out[i + 16] = d * f32::from(IQ4_NL[usize::from(q >> 4)]);
    }
}

pub(super) fn iq4_nl(b: &[u8], out: &mut [f32]) {
    non_linear(half_at(b, 0), &b[2..18], out);
}

pub(super) fn iq4_xs(b: &[u8], out: &mut [f32]) {
    let d = half_at(b, 0);
    let high = u16_at(b, 2);
    for (run, y) in out.chunks_exact_mut(32).enumerate() {
        let low = (b[4 + run / 2] >> (4 * (run % 2))) & 15;
        let scale = u16::from(low) | (((high >> (2 * run)) & 3) << 4);
        let ds = d * f32::from(scale as i16 - 32);
        non_linear(ds, &b[8 + 16 * run..][..16], y);
    }
}
