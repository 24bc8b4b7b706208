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
