//! How decompositions write: short names for the operators that they are made of.

use super::{
    BatchMatMul, Binary, Cast, Constant, Emit, Expand, Gather, Map, Op, Pad, PadMode, Reduce,
    Reduction, Reshape, Slice, Transpose, Unary, Zip,
};
use crate::error::Result;
use crate::math;
use crate::types::{DType, Dim, Scalar, Shape, Type, ValueId};
use alloc::vec::Vec;

/// Elements of a constant at most: what needs a larger one stays whole.
#[cfg_attr(
    not(all(feature = "vision", feature = "audio", feature = "quant")),
    // Each group of operators uses some of it.
    allow(dead_code)
)]
pub(super) const LARGEST: u64 = 1 << 24;

/// A decomposition in the making.
pub(super) struct Build<'a>(pub &'a mut dyn Emit);

#[cfg_attr(
    not(all(feature = "vision", feature = "audio", feature = "quant")),
    // Each group of operators uses some of it.
    allow(dead_code)
)]
impl Build<'_> {
    pub fn ty(&self, v: ValueId) -> &Type {
        self.0.ty(v)
    }

    pub fn dtype(&self, v: ValueId) -> DType {
        self.ty(v).dtype
    }

    /// Sizes of every axis.
    pub fn dims(&self, v: ValueId) -> Vec<Dim> {
        self.ty(v).shape.0.clone()
    }

    pub fn one(&mut self, op: impl Into<Op>, inputs: &[ValueId]) -> Result<ValueId> {
        self.0.one(op, inputs)
    }

    pub fn map(&mut self, f: Unary, v: ValueId) -> Result<ValueId> {
        self.one(Map { f }, &[v])
    }

    pub fn zip(&mut self, f: Binary, a: ValueId, b: ValueId) -> Result<ValueId> {
        self.one(Zip { f }, &[a, b])
    }

    pub fn add(&mut self, a: ValueId, b: ValueId) -> Result<ValueId> {
        self.zip(Binary::Add, a, b)
    }

    pub fn sub(&mut self, a: ValueId, b: ValueId) -> Result<ValueId> {
        self.zip(Binary::Sub, a, b)
    }

    pub fn mul(&mut self, a: ValueId, b: ValueId) -> Result<ValueId> {
        self.zip(Binary::Mul, a, b)
    }

    /// `v f number`, of v's element type.
    pub fn with(&mut self, f: Binary, v: ValueId, number: f64) -> Result<ValueId> {
        let number = Constant::scalar(self.dtype(v), number)?;
        let number = self.one(number, &[])?;
        self.zip(f, v, number)
    }

    /// A constant of a float type or u32.
    pub fn constant(&mut self, dtype: DType, dims: &[u64], x: &[f64]) -> Result<ValueId> {
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

    /// `f` along axes, which stay with size 1.
    pub fn reduce(&mut self, f: Reduction, v: ValueId, axes: &[usize]) -> Result<ValueId> {
        self.one(Reduce { f, axes: axes.to_vec(), keep: true }, &[v])
    }

    pub fn reshape(&mut self, v: ValueId, dims: Vec<Dim>) -> Result<ValueId> {
        if self.ty(v).shape.0 == dims {
            return Ok(v);
        }
        self.one(Reshape { dims: Shape(dims) }, &[v])
    }

    /// A vector as the axis `axis` of `rank`, size 1 on the others.
    pub fn along(&mut self, v: ValueId, axis: usize, rank: usize) -> Result<ValueId> {
        let mut dims = alloc::vec![Dim::from(1u64); rank];
        if let Some(d) = dims.get_mut(axis) {
            *d = self.ty(v).shape.last();
        }
        self.reshape(v, dims)
    }

    pub fn transpose(&mut self, v: ValueId, perm: &[usize]) -> Result<ValueId> {
        self.one(Transpose { perm: perm.to_vec() }, &[v])
    }

    pub fn expand(&mut self, v: ValueId, dims: Vec<Dim>) -> Result<ValueId> {
        self.one(Expand { dims: Shape(dims) }, &[v])
    }

    pub fn cast(&mut self, v: ValueId, to: DType) -> Result<ValueId> {
        if self.dtype(v) == to { Ok(v) } else { self.one(Cast { to }, &[v]) }
    }

    /// Half floats as f32, so that what is made of them rounds once; others as they are.
    pub fn wide(&mut self, v: ValueId) -> Result<ValueId> {
        match self.dtype(v) {
            DType::Scalar(Scalar::F16 | Scalar::Bf16) => self.cast(v, DType::F32),
            _ => Ok(v),
        }
    }

    pub fn gather(&mut self, table: ValueId, axis: usize, ids: ValueId) -> Result<ValueId> {
        self.one(Gather { axis }, &[table, ids])
    }

    pub fn slice(&mut self, v: ValueId, axis: usize, start: &Dim, len: &Dim) -> Result<ValueId> {
        if start.as_static() == Some(0) && self.ty(v).shape.0.get(axis) == Some(len) {
            return Ok(v);
        }
        self.one(Slice { axis, start: start.clone(), len: len.clone(), step: 1 }, &[v])
    }

    /// Padding with a constant.
    pub fn pad(&mut self, v: ValueId, low: &[u64], high: &[u64], with: f32) -> Result<ValueId> {
        if low.iter().chain(high).all(|&n| n == 0) {
            return Ok(v);
        }
        let mode = PadMode::Constant(with);
        self.one(Pad { low: low.to_vec(), high: high.to_vec(), mode }, &[v])
    }

    /// `a b`, or `a b^T`.
    pub fn matmul(&mut self, a: ValueId, b: ValueId, transpose_b: bool) -> Result<ValueId> {
        self.one(BatchMatMul { transpose_b }, &[a, b])
    }

    /// `(x - mean) / sqrt(var + eps)` over axes, or `x / sqrt(mean(x^2) + eps)`; half floats give
    /// f32.
    pub fn normalise(
        &mut self,
        x: ValueId,
        axes: &[usize],
        eps: f32,
        centre: bool,
    ) -> Result<ValueId> {
        let mut x = self.wide(x)?;
        if centre {
            let mean = self.reduce(Reduction::Mean, x, axes)?;
            x = self.sub(x, mean)?;
        }
        let squares = self.mul(x, x)?;
        let mean = self.reduce(Reduction::Mean, squares, axes)?;
        let sum = self.with(Binary::Add, mean, f64::from(eps))?;
        let inverse = self.map(Unary::Rsqrt, sum)?;
        self.mul(x, inverse)
    }

    /// `x * scale + bias` with vectors along `axis`, in the width of x.
    pub fn affine(
        &mut self,
        x: ValueId,
        axis: usize,
        scale: ValueId,
        bias: Option<ValueId>,
    ) -> Result<ValueId> {
        let (rank, dtype) = (self.ty(x).shape.rank(), self.dtype(x));
        let scale = self.cast(scale, dtype)?;
        let scale = self.along(scale, axis, rank)?;
        let x = self.mul(x, scale)?;
        let Some(bias) = bias else { return Ok(x) };
        let bias = self.cast(bias, dtype)?;
        let bias = self.along(bias, axis, rank)?;
        self.add(x, bias)
    }
}
