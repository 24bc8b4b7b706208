//! Elements of a cache's rows, as attention reads them: vectors of them, and scales of blocks.

use crate::simd::{Lanes, f16_to_f32, head};
use rlx_core::types::{BlockFormat, DType};

/// A type of caches.
pub(super) trait Cells {
    /// Elements that share a scale; 0 where none do.
    const BLOCK: usize;
    const DTYPE: DType;

    /// Vector `i` of a row, before its block's scale.
    fn load<S: Lanes>(s: S, row: &[u8], i: usize) -> S::G;

    /// The scale of block `b` of a row; 1 without blocks.
    fn scale(row: &[u8], b: usize) -> f32;

    /// Element `i` of a row without blocks.
    fn element(row: &[u8], i: usize) -> f32;
}

pub(super) struct F32;
pub(super) struct F16;
/// An f16, then 32 bytes.
pub(super) struct Q8_0;
/// An f16, then 16 bytes: the low halves are the first 16 elements plus 8, the high halves the others.
#[cfg(not(target_arch = "wasm32"))]
pub(super) struct Q4_0;

impl Cells for F32 {
    const BLOCK: usize = 0;
    const DTYPE: DType = DType::F32;

    #[inline(always)]
    fn load<S: Lanes>(s: S, row: &[u8], i: usize) -> S::G {
        s.take_f32(&row[4 * S::LANES * i..])
    }
    #[inline(always)]
    fn scale(_: &[u8], _: usize) -> f32 {
        1.0
    }
    #[inline(always)]
    fn element(row: &[u8], i: usize) -> f32 {
        f32::from_le_bytes(*head(&row[4 * i..]))
    }
}

impl Cells for F16 {
    const BLOCK: usize = 0;
    const DTYPE: DType = DType::F16;

    #[inline(always)]
    fn load<S: Lanes>(s: S, row: &[u8], i: usize) -> S::G {
        s.take_f16(&row[2 * S::LANES * i..])
    }
    #[inline(always)]
    fn scale(_: &[u8], _: usize) -> f32 {
        1.0
    }
    #[inline(always)]
    fn element(row: &[u8], i: usize) -> f32 {
        f16_to_f32(u16::from_le_bytes(*head(&row[2 * i..])))
    }
}

impl Cells for Q8_0 {
    const BLOCK: usize = 32;
    const DTYPE: DType = DType::Block(BlockFormat::Q8_0);

    #[inline(always)]
    fn load<S: Lanes>(s: S, row: &[u8], i: usize) -> S::G {
        let per = 32 / S::LANES;
        s.floats(s.signed_bytes(&row[34 * (i / per) + 2 + S::LANES * (i % per)..]))
    }
    #[inline(always)]
    fn scale(row: &[u8], b: usize) -> f32 {
        f16_to_f32(u16::from_le_bytes(*head(&row[34 * b..])))
    }
    #[inline(always)]
    fn element(row: &[u8], i: usize) -> f32 {
        f32::from(row[34 * (i / 32) + 2 + i % 32] as i8) * Self::scale(row, i / 32)
    }
}

#[cfg(not(target_arch = "wasm32"))]
impl Cells for Q4_0 {
    const BLOCK: usize = 32;
    const DTYPE: DType = DType::Block(BlockFormat::Q4_0);

    #[inline(always)]
    fn load<S: Lanes>(s: S, row: &[u8], i: usize) -> S::G {
        let half = 16 / S::LANES;
        let bytes = s.bytes(&row[18 * (i / (2 * half)) + 2 + S::LANES * (i % half)..]);
        let high = i % (2 * half) >= half;
        let codes = if high { s.right(bytes, 4) } else { s.and(bytes, s.set(15)) };
        s.floats(s.minus(codes, s.set(8)))
    }
    #[inline(always)]
    fn scale(row: &[u8], b: usize) -> f32 {
        f16_to_f32(u16::from_le_bytes(*head(&row[18 * b..])))
    }
    #[inline(always)]
    fn element(row: &[u8], i: usize) -> f32 {
        let byte = row[18 * (i / 32) + 2 + i % 16];
        let code = if i % 32 < 16 { byte & 15 } else { byte >> 4 };
        (f32::from(code) - 8.0) * Self::scale(row, i / 32)
    }
}
