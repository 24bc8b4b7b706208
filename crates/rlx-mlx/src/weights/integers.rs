//! The integers, scales and biases of ggml's blocks: `formats/` of the core says what their bytes mean.
//!
//! Formats with offsets of their own are taken apart here. All others are multiples of a unit, the scale: their numbers
//! are decoded as everywhere and divided by it.

use super::Layout;
use rlx_core::formats::decode_block;
use rlx_core::types::BlockFormat as F;

/// How a format is packed for MLX.
pub(super) fn layout(format: F) -> Layout {
    let (bits, halves) = match format {
        F::Q4_0 | F::Q4_1 | F::Q4K => (4, false),
        F::Q5_0 | F::Q5_1 | F::Q5K => (5, false),
        F::Q1_0 | F::Q2_0 | F::Tq1_0 | F::Tq2_0 => (2, false),
        F::Q2K => (2, true),
        F::Q3K => (3, true),
        F::Q6K => (6, true),
        F::Iq1S | F::Iq3S | F::Mxfp4 => (5, false),
        F::Iq1M | F::Nvfp4 => (5, true),
        F::Iq2Xs | F::Iq2S => (8, true),
        F::Iq2Xxs | F::Iq3Xxs | F::Iq4Nl | F::Iq4Xs => (8, false),
        F::Q8_0 | F::Q8_1 | F::Q8K | F::Q15_0 => (8, false),
    };
    Layout { bits, halves }
}

fn half_at(b: &[u8], at: usize) -> f32 {
    // A half's bits as those of an f32: its exponent has 8 bits there, and a product of a power of two corrects it.
    let h = u16::from_le_bytes([b[at], b[at + 1]]);
    let magnitude = f32::from_bits(u32::from(h & 0x7fff) << 13) * f32::from_bits((127 + 112) << 23);
    let magnitude = if h & 0x7c00 == 0x7c00 { f32::INFINITY } else { magnitude };
    if h >> 15 == 1 { -magnitude } else { magnitude }
}

fn u16_at(b: &[u8], at: usize) -> u32 {
    u32::from(u16::from_le_bytes([b[at], b[at + 1]]))
}

fn u32_at(b: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]])
}

/// 32 nibbles: the low ones of 16 bytes, then the high ones; bit `i` of `high` is the fifth of element `i`.
fn nibbles(b: &[u8], high: u32, q: &mut [u8]) {
    for (i, q) in q.iter_mut().enumerate() {
        *q = (b[i % 16] >> (4 * (i / 16)) & 15) | ((high >> i & 1) as u8) << 4;
    }
}

/// Scale and minimum of run `j` of 8, 6 bits each.
fn scale_min(s: &[u8], j: usize) -> [f32; 2] {
    let pair = if j < 4 {
        [s[j] & 63, s[j + 4] & 63]
    } else {
        [(s[j + 4] & 15) | ((s[j - 4] >> 6) << 4), (s[j + 4] >> 4) | ((s[j] >> 6) << 4)]
    };
    pair.map(f32::from)
}

/// A block's integers, and a scale and bias for each 32 elements, or for each 16 where the layout has halves.
pub(super) fn of_block(format: F, b: &[u8], q: &mut [u8], scales: &mut [[f32; 2]]) {
    match format {
        F::Q4_0 => {
            let d = half_at(b, 0);
            nibbles(&b[2..], 0, q);
            scales[0] = [d, -8.0 * d];
        }
        F::Q4_1 => {
            nibbles(&b[4..], 0, q);
            scales[0] = [half_at(b, 0), half_at(b, 2)];
        }
        F::Q5_0 => {
            let d = half_at(b, 0);
            nibbles(&b[6..], u32_at(b, 2), q);
            scales[0] = [d, -16.0 * d];
        }
        F::Q5_1 => {
            nibbles(&b[8..], u32_at(b, 4), q);
            scales[0] = [half_at(b, 0), half_at(b, 2)];
        }
        F::Q8_0 => {
            let d = half_at(b, 0);
            q.iter_mut().zip(&b[2..34]).for_each(|(q, b)| *q = b.wrapping_add(128));
            scales[0] = [d, -128.0 * d];
        }
        F::Q2K => {
            let (d, m) = (half_at(b, 80), half_at(b, 82));
            for (part, q) in q.chunks_exact_mut(16).enumerate() {
                let (half, run, at) = (part / 8, part / 2 % 4, part % 2 * 16);
                for (q, b) in q.iter_mut().zip(&b[16 + 32 * half + at..][..16]) {
                    *q = b >> (2 * run) & 3;
                }
                scales[part] = [d * f32::from(b[part] & 15), -(m * f32::from(b[part] >> 4))];
            }
        }
        F::Q4K | F::Q5K => {
            let (d, m) = (half_at(b, 0), half_at(b, 2));
            let (high, low) = if format == F::Q5K { (Some(&b[16..48]), 48) } else { (None, 16) };
            for (run, q) in q.chunks_exact_mut(32).enumerate() {
                for (i, q) in q.iter_mut().enumerate() {
                    let fifth = high.map_or(0, |h| h[i] >> run & 1);
                    *q = (b[low + 32 * (run / 2) + i] >> (4 * (run % 2)) & 15) | fifth << 4;
                }
                let [scale, min] = scale_min(&b[4..16], run);
                scales[run] = [d * scale, -(m * min)];
            }
        }
        _ => multiples(format, b, q, scales),
    }
}

/// A block of numbers that are multiples of a unit.
fn multiples(format: F, b: &[u8], q: &mut [u8], scales: &mut [[f32; 2]]) {
    let layout = layout(format);
    // Half of the integers are below 0; of 2 bits they are -1 to 2.
    let (offset, most) = match layout.bits {
        2 => (1.0, 3.0),
        bits => (f32::from(1u8 << (bits - 1)), f32::from(u8::MAX >> (8 - bits))),
    };
    let mut numbers = [0f32; 256];
    let numbers = &mut numbers[..q.len()];
    // The lengths are the format's, which is all that the decoder asks.
    let _ = decode_block(format, b, numbers);
    let each = q.len() / scales.len();
    let groups = q.chunks_exact_mut(each).zip(numbers.chunks_exact(each));
    for (group, (q, numbers)) in groups.enumerate() {
        let unit = unit(format, b, group);
        scales[group] = [unit, -offset * unit];
        for (q, x) in q.iter_mut().zip(numbers) {
            let n = if unit == 0.0 { 0.0 } else { (x / unit).round() };
            *q = (n + offset).clamp(0.0, most) as u8;
        }
    }
}

/// What the numbers of a group are multiples of.
fn unit(format: F, b: &[u8], group: usize) -> f32 {
    match format {
        F::Q3K => {
            let s = &b[96..108];
            let low = (s[group % 8] >> (4 * (group / 8))) & 15;
            let high = (s[8 + group % 4] >> (2 * (group / 4))) & 3;
            half_at(b, 108) * (i32::from(low | (high << 4)) - 32) as f32
        }
        F::Q6K => half_at(b, 208) * f32::from(b[192 + group] as i8),
        // Eighths of the scale.
        F::Iq1S => half_at(b, 0) * (2 * (u16_at(b, 34 + 2 * group) >> 12 & 7) + 1) as f32 * 0.125,
        F::Iq1M => {
            let s: [u32; 4] = std::array::from_fn(|i| u16_at(b, 48 + 2 * i));
            let d = s[0] >> 12 | (s[1] >> 8 & 0xf0) | (s[2] >> 4 & 0xf00) | (s[3] & 0xf000);
            let d = half_at(&(d as u16).to_le_bytes(), 0);
            d * (2 * (s[group / 4] >> (3 * (group % 4)) & 7) + 1) as f32 * 0.125
        }
        F::Iq2Xxs => half_scale(half_at(b, 0), u32_at(b, 6 + 8 * group) >> 28, 0.25),
        F::Iq2Xs => half_scale(half_at(b, 0), nibble(b[66 + group / 2], group), 0.25),
        F::Iq2S => half_scale(half_at(b, 0), nibble(b[74 + group / 2], group), 0.25),
        F::Iq3Xxs => half_scale(half_at(b, 0), u32_at(b, 66 + 4 * group) >> 28, 0.5),
        F::Iq3S => half_at(b, 0) * (2 * nibble(b[106 + group / 2], group) + 1) as f32,
        F::Iq4Xs => {
            let low = nibble(b[4 + group / 2], group);
            let scale = low | (u16_at(b, 2) >> (2 * group) & 3) << 4;
            half_at(b, 0) * (scale as i32 - 32) as f32
        }
        F::Mxfp4 => match b[0] {
            e @ (0 | 1) => f32::from_bits(0x0020_0000 << e),
            e => f32::from_bits(u32::from(e - 1) << 23),
        },
        F::Nvfp4 => half_e4m3(b[group]),
        F::Tq1_0 => half_at(b, 52),
        F::Tq2_0 => half_at(b, 64),
        F::Q8K | F::Q15_0 => f32::from_bits(u32_at(b, 0)),
        _ => half_at(b, 0),
    }
}

fn nibble(b: u8, i: usize) -> u32 {
    u32::from(b >> (4 * (i % 2)) & 15)
}

fn half_scale(d: f32, s: u32, unit: f32) -> f32 {
    d * (0.5 + s as f32) * unit
}

/// Half of the unsigned E4M3 float in the low 7 bits; 0x7f is 0.
fn half_e4m3(e: u8) -> f32 {
    let (exponent, fraction) = (u32::from(e >> 3) & 15, f32::from(e & 7));
    match (e, exponent) {
        (0x7f, _) => 0.0,
        (_, 0) => fraction * (1.0 / 1024.0),
        _ => (1.0 + fraction / 8.0) * f32::from_bits((exponent + 127 - 8) << 23),
    }
}

/// Bytes of a block's scales, and the bits that tests leave of them so that they are finite.
#[cfg(test)]
pub(super) fn scale_bytes(format: F) -> Vec<(usize, u8)> {
    // The byte with a half's sign and exponent.
    let halves: &[usize] = match format {
        F::Q4_1 | F::Q5_1 | F::Q4K | F::Q5K => &[1, 3],
        F::Q2K => &[81, 83],
        F::Q3K => &[109],
        F::Q6K => &[209],
        F::Tq1_0 => &[53],
        F::Tq2_0 => &[65],
        F::Mxfp4 => return vec![(0, 0x7f)],
        F::Nvfp4 => &[],
        F::Iq1M => return vec![(55, 0xbf)],
        _ => &[1],
    };
    halves.iter().map(|&at| (at, 0xbf)).collect()
}

/// Whether the last bit of a number may differ: a product has 25 bits there, or a sum rounds.
#[cfg(test)]
pub(super) fn rounds(format: F) -> bool {
    matches!(format, F::Iq4Xs)
}
