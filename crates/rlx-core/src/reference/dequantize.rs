//! What packed bytes mean, bit for bit as ggml decodes them.
//!
//! Every product and difference is rounded to f32 on its own, in ggml's order; nothing is fused.
//! Layouts, by byte (`d`, `m` are f16; element `i` counts from the block's start):
//!
//! ```text
//! q4_0  32/18    d 0..2, q 2..18           low nibbles are elements 0..16, high ones 16..32; d (q - 8)
//! q8_0  32/34    d 0..2, i8 q 2..34        d q
//! q4_k  256/144  d 0..2, m 2..4, s 4..16, q 16..144      (d s) q - (m t)
//! q5_k  256/176  d 0..2, m 2..4, s 4..16, h 16..48, q 48..176      the same, with a fifth bit from h
//! q6_k  256/210  low 0..128, high 128..192, i8 s 192..208, d 208..210      (d s) (q - 32)
//! q8_k  256/292  f32 d 0..4, i8 q 4..260, i16 sums of 16 260..292      d q
//! ```
//!
//! In q4_k and q5_k `s` holds eight pairs of 6 bits, a scale `s` and a minimum `t` for each run of 32
//! elements.

use crate::types::{BlockFormat, DType, Scalar};
use crate::{Code, Error, Result};
use alloc::format;
use half::{bf16, f16};

/// The formats that [`decode_block`] knows.
pub const SUPPORTED: &[BlockFormat] = &[
    BlockFormat::Q4_0,
    BlockFormat::Q8_0,
    BlockFormat::Q4K,
    BlockFormat::Q5K,
    BlockFormat::Q6K,
    BlockFormat::Q8K,
];

/// Decodes one block: `bytes` is `format.bytes()` long, `out` is `f32[format.elements()]`.
///
/// # Errors
///
/// `Unsupported` for a format that is not in [`SUPPORTED`]; `Internal` when a length is wrong.
pub fn decode_block(format: BlockFormat, bytes: &[u8], out: &mut [f32]) -> Result<()> {
    if bytes.len() != format.bytes() || out.len() != format.elements() {
        return Err(Error::internal(format!(
            "decode_block: {} bytes to {} elements, a block of {} has {} and {}",
            bytes.len(),
            out.len(),
            format.name(),
            format.bytes(),
            format.elements()
        )));
    }
    match format {
        BlockFormat::Q4_0 => q4_0(bytes, out),
        BlockFormat::Q8_0 => q8_0(bytes, out),
        BlockFormat::Q4K => q4_k(bytes, out),
        BlockFormat::Q5K => q5_k(bytes, out),
        BlockFormat::Q6K => q6_k(bytes, out),
        BlockFormat::Q8K => q8_k(bytes, out),
        _ => return Err(unsupported(DType::Block(format))),
    }
    Ok(())
}

/// Decodes `out.len()` elements, whole blocks of them.
///
/// # Errors
///
/// `Unsupported` for a type that is no f32, f16, bf16 or [`SUPPORTED`] format; `Internal` when the
/// lengths do not fit each other.
pub fn decode_row(dtype: DType, bytes: &[u8], out: &mut [f32]) -> Result<()> {
    if dtype.row_bytes(out.len() as u64) != Some(bytes.len() as u64) {
        return Err(Error::internal(format!(
            "decode_row: {} bytes are not {} elements of {dtype}",
            bytes.len(),
            out.len()
        )));
    }
    match dtype {
        DType::Scalar(Scalar::F32) => {
            for (y, b) in out.iter_mut().zip(bytes.as_chunks::<4>().0) {
                *y = f32::from_le_bytes(*b);
            }
        }
        DType::Scalar(Scalar::F16) => {
            for (y, b) in out.iter_mut().zip(bytes.as_chunks::<2>().0) {
                *y = f16::from_le_bytes(*b).to_f32();
            }
        }
        DType::Scalar(Scalar::Bf16) => {
            for (y, b) in out.iter_mut().zip(bytes.as_chunks::<2>().0) {
                *y = bf16::from_le_bytes(*b).to_f32();
            }
        }
        DType::Scalar(_) => return Err(unsupported(dtype)),
        DType::Block(format) => {
            let blocks = bytes.chunks_exact(format.bytes());
            for (block, y) in blocks.zip(out.chunks_exact_mut(format.elements())) {
                decode_block(format, block, y)?;
            }
        }
    }
    Ok(())
}

fn unsupported(dtype: DType) -> Error {
    Error::new(Code::Unsupported, format!("{dtype} cannot be decoded yet"))
        .hint("use a model in f32, f16, bf16, q4_0, q8_0, q4_k, q5_k or q6_k")
}

/// The f16 at byte `at`.
fn half_at(bytes: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([bytes[at], bytes[at + 1]]).to_f32()
}

fn q4_0(b: &[u8], out: &mut [f32]) {
    let d = half_at(b, 0);
    for (i, &q) in b[2..18].iter().enumerate() {
        out[i] = (i32::from(q & 15) - 8) as f32 * d;
        out[i + 16] = (i32::from(q >> 4) - 8) as f32 * d;
    }
}

fn q8_0(b: &[u8], out: &mut [f32]) {
    let d = half_at(b, 0);
    for (y, &q) in out.iter_mut().zip(&b[2..34]) {
        *y = f32::from(q as i8) * d;
    }
}

/// Scale and minimum of run `j` of 8, 6 bits each, from the 12 bytes they share: runs 0..4 have the
/// low 6 bits of bytes `j` and `j + 4`; runs 4..8 a nibble of byte `j + 4` below the top 2 bits of
/// bytes `j - 4` and `j`.
fn scale_min(s: &[u8], j: usize) -> (f32, f32) {
    let (scale, min) = if j < 4 {
        (s[j] & 63, s[j + 4] & 63)
    } else {
        ((s[j + 4] & 15) | ((s[j - 4] >> 6) << 4), (s[j + 4] >> 4) | ((s[j] >> 6) << 4))
    };
    (f32::from(scale), f32::from(min))
}

fn q4_k(b: &[u8], out: &mut [f32]) {
    let (d, m) = (half_at(b, 0), half_at(b, 2));
    for run in 0..8 {
        let (scale, min) = scale_min(&b[4..16], run);
        let (ds, mt) = (d * scale, m * min);
        // Two runs share 32 bytes: the even one has the low nibbles.
        let q = &b[16 + 32 * (run / 2)..][..32];
        for (y, &q) in out[32 * run..][..32].iter_mut().zip(q) {
            let q = (q >> (4 * (run % 2))) & 15;
            *y = ds * f32::from(q) - mt;
        }
    }
}

fn q5_k(b: &[u8], out: &mut [f32]) {
    let (d, m) = (half_at(b, 0), half_at(b, 2));
    let high = &b[16..48];
    for run in 0..8 {
        let (scale, min) = scale_min(&b[4..16], run);
        let (ds, mt) = (d * scale, m * min);
        let q = &b[48 + 32 * (run / 2)..][..32];
        for (i, y) in out[32 * run..][..32].iter_mut().enumerate() {
            let low = (q[i] >> (4 * (run % 2))) & 15;
            let fifth = ((high[i] >> run) & 1) << 4;
            *y = ds * f32::from(low | fifth) - mt;
        }
    }
}

fn q6_k(b: &[u8], out: &mut [f32]) {
    let d = half_at(b, 208);
    for (i, y) in out.iter_mut().enumerate() {
        // Each half of 128 has 64 low bytes and 32 high bytes; its four runs of 32 take low nibbles
        // of both 32s, then high nibbles, and bits 0-1, 2-3, 4-5, 6-7 of the same high bytes.
        let (half, run, l) = (i / 128, i / 32 % 4, i % 32);
        let low = (b[64 * half + 32 * (run % 2) + l] >> (4 * (run / 2))) & 15;
        let high = (b[128 + 32 * half + l] >> (2 * run)) & 3;
        let scale = b[192 + i / 16] as i8;
        let q = i32::from(low | (high << 4)) - 32;
        *y = d * f32::from(scale) * q as f32;
    }
}

fn q8_k(b: &[u8], out: &mut [f32]) {
    let d = f32::from_le_bytes([b[0], b[1], b[2], b[3]]);
    for (y, &q) in out.iter_mut().zip(&b[4..260]) {
        *y = d * f32::from(q as i8);
    }
}
