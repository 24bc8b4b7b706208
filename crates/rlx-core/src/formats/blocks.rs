//! Short blocks of plain integers under one scale.
//!
//! ```text
//! q4_0  32/18   d 0..2, q 2..18                     d (q - 8)
//! q4_1  32/20   d 0..2, m 2..4, q 4..20             d q + m
//! q5_0  32/22   d 0..2, u32 h 2..6, q 6..22         d (q - 16), bit i of h is the fifth of element i
//! q5_1  32/24   d 0..2, m 2..4, u32 h 4..8, q 8..24 d q + m
//! q8_0  32/34   d 0..2, i8 q 2..34                  d q
//! q8_1  32/36   d 0..2, f16 d (sum of q) 2..4, i8 q 4..36      d q
//! q1_0  128/18  d 0..2, q 2..18                     d (2 q - 1), bits in order
//! q2_0  64/18   d 0..2, q 2..18                     d (q - 1), pairs of bits in order
//! ```
//!
//! Of 16 bytes of nibbles the low ones are elements 0..16, the high ones 16..32.

use super::half_at;

/// 32 nibbles, each with the bit of its number in `high` as the fifth.
fn nibbles(q: &[u8], high: u32) -> [i32; 32] {
    core::array::from_fn(|i| {
        let low = (q[i % 16] >> (4 * (i / 16))) & 15;
        i32::from(low) | (((high >> i) & 1) << 4) as i32
    })
}

fn bits(b: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]])
}

pub(super) fn q4_0(b: &[u8], out: &mut [f32]) {
    let d = half_at(b, 0);
    for (y, q) in out.iter_mut().zip(nibbles(&b[2..], 0)) {
        *y = (q - 8) as f32 * d;
    }
}

pub(super) fn q4_1(b: &[u8], out: &mut [f32]) {
    let (d, m) = (half_at(b, 0), half_at(b, 2));
    for (y, q) in out.iter_mut().zip(nibbles(&b[4..], 0)) {
        *y = q as f32 * d + m;
    }
}

pub(super) fn q5_0(b: &[u8], out: &mut [f32]) {
    let d = half_at(b, 0);
    for (y, q) in out.iter_mut().zip(nibbles(&b[6..], bits(b, 2))) {
        *y = (q - 16) as f32 * d;
    }
}

pub(super) fn q5_1(b: &[u8], out: &mut [f32]) {
    let (d, m) = (half_at(b, 0), half_at(b, 2));
    for (y, q) in out.iter_mut().zip(nibbles(&b[8..], bits(b, 4))) {
        *y = q as f32 * d + m;
    }
}

pub(super) fn q8_0(b: &[u8], out: &mut [f32]) {
    bytes(half_at(b, 0), &b[2..], out);
}

pub(super) fn q8_1(b: &[u8], out: &mut [f32]) {
    bytes(half_at(b, 0), &b[4..], out);
}

pub(super) fn q15_0(b: &[u8], out: &mut [f32]) {
    let d = f32::from_le_bytes([b[0], b[1], b[2], b[3]]);
    for (y, (&high, &low)) in out.iter_mut().zip(b[4..36].iter().zip(&b[36..])) {
        *y = (128 * i32::from(high as i8) + i32::from(low as i8)) as f32 * d;
    }
}

fn bytes(d: f32, q: &[u8], out: &mut [f32]) {
    for (y, &q) in out.iter_mut().zip(q) {
        *y = f32::from(q as i8) * d;
    }
}

pub(super) fn q1_0(b: &[u8], out: &mut [f32]) {
    let d = half_at(b, 0);
    for (i, y) in out.iter_mut().enumerate() {
        *y = if (b[2 + i / 8] >> (i % 8)) & 1 == 1 { d } else { -d };
    }
}

pub(super) fn q2_0(b: &[u8], out: &mut [f32]) {
    let d = half_at(b, 0);
    for (i, y) in out.iter_mut().enumerate() {
        let q = (b[2 + i / 4] >> (2 * (i % 4))) & 3;
        *y = (i32::from(q) - 1) as f32 * d;
    }
}
