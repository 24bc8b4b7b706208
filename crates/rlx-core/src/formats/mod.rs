//! Packed formats: what their bytes mean, bit for bit as ggml decodes them.
//!
//! | file | formats | |
//! |---|---|---|
//! | `blocks.rs` | `q4_0 q4_1 q5_0 q5_1 q8_0 q8_1 q1_0 q2_0` | a scale, perhaps an offset, plain integers |
//! | `k_quants.rs` | `q2_k q3_k q4_k q5_k q6_k q8_k` | 256 elements with scales of 4 to 8 bits |
//! | `codebooks.rs` | `iq1_* iq2_* iq3_* iq4_*` | indices into the books of [`codebook`] |
//! | `floats.rs` | `mxfp4 nvfp4 tq1_0 tq2_0` | 4-bit floats; base 3 |
//! | `activations.rs` | `q8_0 q8_k q15_0` | the other way, as a step of a program rounds its rows |
//!
//! The head of each file has the layouts. `d` and `m` are f16, the first bits of a byte are its lowest,
//! unless it says otherwise; element `i` counts from the block's start, `e..f` is a range of
//! elements. Every product and difference is rounded to f32 on its own, in ggml's order; nothing is fused.
//! Every byte pattern decodes: there is no invalid block.

pub mod activations;
mod blocks;
pub mod codebook;
mod codebook_members;
mod codebooks;
#[cfg(feature = "encode")]
pub mod encode;
mod floats;
mod k_quants;
pub mod microscaled;

use crate::types::{BlockFormat, DType, Scalar};
use crate::{Code, Error, Result};
use alloc::format;
use half::{bf16, f16};

/// Decodes one block: `bytes` is `format.bytes()` long, `out` is `f32[format.elements()]`.
///
/// # Errors
///
/// `Internal` when a length is wrong.
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
        BlockFormat::Q4_0 => blocks::q4_0(bytes, out),
        BlockFormat::Q4_1 => blocks::q4_1(bytes, out),
        BlockFormat::Q5_0 => blocks::q5_0(bytes, out),
        BlockFormat::Q5_1 => blocks::q5_1(bytes, out),
        BlockFormat::Q8_0 => blocks::q8_0(bytes, out),
        BlockFormat::Q8_1 => blocks::q8_1(bytes, out),
        BlockFormat::Q15_0 => blocks::q15_0(bytes, out),
        BlockFormat::Q1_0 => blocks::q1_0(bytes, out),
        BlockFormat::Q2_0 => blocks::q2_0(bytes, out),
        BlockFormat::Q2K => k_quants::q2_k(bytes, out),
        BlockFormat::Q3K => k_quants::q3_k(bytes, out),
        BlockFormat::Q4K => k_quants::q4_k(bytes, out),
        BlockFormat::Q5K => k_quants::q5_k(bytes, out),
        BlockFormat::Q6K => k_quants::q6_k(bytes, out),
        BlockFormat::Q8K => k_quants::q8_k(bytes, out),
        BlockFormat::Iq1S => codebooks::iq1_s(bytes, out),
        BlockFormat::Iq1M => codebooks::iq1_m(bytes, out),
        BlockFormat::Iq2Xxs => codebooks::iq2_xxs(bytes, out),
        BlockFormat::Iq2Xs => codebooks::iq2_xs(bytes, out),
        BlockFormat::Iq2S => codebooks::iq2_s(bytes, out),
        BlockFormat::Iq3Xxs => codebooks::iq3_xxs(bytes, out),
        BlockFormat::Iq3S => codebooks::iq3_s(bytes, out),
        BlockFormat::Iq4Nl => codebooks::iq4_nl(bytes, out),
        BlockFormat::Iq4Xs => codebooks::iq4_xs(bytes, out),
        BlockFormat::Mxfp4 => floats::mxfp4(bytes, out),
        BlockFormat::Nvfp4 => floats::nvfp4(bytes, out),
        BlockFormat::Tq1_0 => floats::tq1_0(bytes, out),
        BlockFormat::Tq2_0 => floats::tq2_0(bytes, out),
    }
    Ok(())
}

/// Decodes `out.len()` elements, whole blocks of them.
///
/// # Errors
///
/// `Unsupported` for a scalar type other than f32, f16 and bf16; `Internal` when the lengths do not fit
/// each other.
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
        DType::Scalar(_) => {
            return Err(Error::new(Code::Unsupported, format!("{dtype} is no type of weights"))
                .hint("weights are f32, f16, bf16 or a packed format"));
        }
        DType::Block(format) => {
            let blocks = bytes.chunks_exact(format.bytes());
            for (block, y) in blocks.zip(out.chunks_exact_mut(format.elements())) {
                decode_block(format, block, y)?;
            }
        }
    }
    Ok(())
}

/// The f16 at byte `at`.
fn half_at(bytes: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([bytes[at], bytes[at + 1]]).to_f32()
}
