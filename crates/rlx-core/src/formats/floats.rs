//! Four-bit floats, and three values a digit.
//!
//! ```text
//! mxfp4  32/17   u8 e 0..1, q 1..17      2^(e - 128) FP4[q]; low nibbles are 0..16, high ones 16..32
//! nvfp4  64/36   u8 e 0..4, q 4..36      a scale and 8 bytes for each 16, nibbles as above by eights
//! tq1_0  256/54  q 0..52, d 52..54       d (t - 1), five digits t of base 3 in a byte
//! tq2_0  256/66  q 0..64, d 64..66       d (q - 1)
//! ```
//!
//! nvfp4's scale byte is an E4M3 float, halved, whose sign is not looked at; 0x7f is 0. A byte `b` of tq1_0
//! is the fraction b / 256, whose digits come out by multiplying by 3: digit `n` of bytes 0..32 is 32
//! elements from `32 n`, of bytes 32..48 16 elements from `160 + 16 n`, and the last four bytes have four
//! digits, 4 elements from `240 + 4 n`. tq2_0 has two halves of 32 bytes, each four runs of 32.

use super::codebook::FP4;
use super::half_at;

/// 2^(e - 128): half of what the exponent byte of a microscaling format says. 0 and 1 are denormal.
fn half_power(e: u8) -> f32 {
    f32::from_bits(if e < 2 { 0x0020_0000 << e } else { u32::from(e - 1) << 23 })
}

/// Half of the unsigned E4M3 float in the low 7 bits.
fn half_e4m3(e: u8) -> f32 {
    if e == 0x7f {
        return 0.0;
    }
    let (exponent, fraction) = (u32::from(e >> 3) & 15, f32::from(e & 7));
    if exponent == 0 {
        fraction * (1.0 / 1024.0)
    } else {
        (1.0 + fraction / 8.0) * f32::from_bits((exponent + 127 - 8) << 23)
    }
}

fn fp4(d: f32, q: &[u8], out: &mut [f32]) {
    let half = q.len();
    for (i, q) in q.iter().enumerate() {
        out[i] = d * f32::from(FP4[usize::from(q & 15)]);
        out[i + half] = d * f32::from(FP4[usize::from(q >> 4)]);
    }
}

pub(super) fn mxfp4(b: &[u8], out: &mut [f32]) {
    fp4(half_power(b[0]), &b[1..17], out);
}

pub(super) fn nvfp4(b: &[u8], out: &mut [f32]) {
    for (part, y) in out.chunks_exact_mut(16).enumerate() {
        fp4(half_e4m3(b[part]), &b[4 + 8 * part..][..8], y);
    }
}

pub(super) fn tq1_0(b: &[u8], out: &mut [f32]) {
    let d = half_at(b, 52);
    let (runs, last) = out.split_at_mut(240);
    let (first, second) = runs.split_at_mut(160);
    for (q, y) in [(&b[..32], first), (&b[32..48], second), (&b[48..52], last)] {
        for (digit, y) in y.chunks_exact_mut(q.len()).enumerate() {
            for (y, q) in y.iter_mut().zip(q) {
                let rest = q.wrapping_mul([1, 3, 9, 27, 81][digit]);
                *y = d * (((i32::from(rest) * 3) >> 8) - 1) as f32;
            }
        }
    }
}

pub(super) fn tq2_0(b: &[u8], out: &mut [f32]) {
    let d = half_at(b, 64);
    for (run, y) in out.chunks_exact_mut(32).enumerate() {
        for (y, q) in y.iter_mut().zip(&b[32 * (run / 4)..][..32]) {
            *y = d * (i32::from((q >> (2 * (run % 4))) & 3) - 1) as f32;
        }
    }
}
