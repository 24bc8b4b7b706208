//! What only decompositions over tables and windows write: those of vision, spectra and
//! quantisation.

use crate::error::Result;
use crate::math;
use crate::ops::{BatchMatMul, Constant, Emit, Gather};
use crate::types::{DType, Scalar, Shape, Type, ValueId};
use alloc::vec::Vec;

/// Elements of a constant at most: what needs a larger one stays whole.
#[cfg(any(feature = "vision", feature = "audio"))]
pub(crate) const LARGEST: u64 = 1 << 24;

impl dyn Emit + '_ {
    /// A constant of a float type or u32.
    pub(crate) fn constant(&mut self, dtype: DType, dims: &[u64], x: &[f64]) -> Result<ValueId> {
        let mut data = Vec::with_capacity(x.len() * dtype.block_bytes());
        for &v in x {
            match dtype {
                DType::Scalar(Scalar::F64) => data.extend(v.to_le_bytes()),
                DType::Scalar(Scalar::F16) => data.extend(math::to_f16(v).to_le_bytes()),
                DType::Scalar(Scalar::Bf16) => data.extend(math::to_bf16(v).to_le_bytes()),
                DType::Scalar(Scalar::U32) => data.extend((v as u32).to_le_bytes()),
                _ => data.extend((v as f32).to_le_bytes()),
            }
        }
        let constant = Constant::new(Type::tensor(dtype, Shape::of(dims)), data)?;
        self.one(constant, &[])
    }

    /// Rows of a table, or indices of any axis.
    pub(crate) fn gather(&mut self, table: ValueId, axis: usize, ids: ValueId) -> Result<ValueId> {
        self.one(Gather { axis }, &[table, ids])
    }

    /// `a b`, or `a b^T`.
    pub(crate) fn matmul(&mut self, a: ValueId, b: ValueId, transpose_b: bool) -> Result<ValueId> {
        self.one(BatchMatMul { transpose_b }, &[a, b])
    }

    /// Padding with a number, or `x` itself.
    #[cfg(feature = "vision")]
    pub(crate) fn pad(
        &mut self,
        x: ValueId,
        low: &[u64],
        high: &[u64],
        with: f32,
    ) -> Result<ValueId> {
        if low.iter().chain(high).all(|&n| n == 0) {
            return Ok(x);
        }
        let mode = crate::ops::PadMode::Constant(with);
        self.one(crate::ops::Pad { low: low.to_vec(), high: high.to_vec(), mode }, &[x])
    }
}
