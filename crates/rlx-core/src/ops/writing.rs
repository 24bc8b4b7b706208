//! Short forms of the operators that decompositions write.

use super::{
    Binary, Cast, Compare, Comparison, Constant, Emit, Expand, Iota, Map, Reduce, Reduction,
    Reshape, Select, Slice, Transpose, Unary, Zip,
};
use crate::error::Result;
use crate::types::{DType, Dim, Scalar, Shape, ValueId};
use alloc::vec;
use alloc::vec::Vec;

impl dyn Emit + '_ {
    /// Sizes of a value.
    pub(super) fn dims(&self, v: ValueId) -> Vec<Dim> {
        self.ty(v).shape.0.clone()
    }

    /// `f(a, b)`, broadcast.
    pub(super) fn zip(&mut self, f: Binary, a: ValueId, b: ValueId) -> Result<ValueId> {
        self.one(Zip { f }, &[a, b])
    }

    /// `f(x)`.
    pub(super) fn map(&mut self, f: Unary, x: ValueId) -> Result<ValueId> {
        self.one(Map { f }, &[x])
    }

    /// `x` in another element type, or `x` itself.
    pub(super) fn cast(&mut self, x: ValueId, to: DType) -> Result<ValueId> {
        if self.ty(x).dtype == to { Ok(x) } else { self.one(Cast { to }, &[x]) }
    }

    /// One number of a type.
    pub(super) fn number(&mut self, dtype: DType, x: f64) -> Result<ValueId> {
        self.one(Constant::scalar(dtype, x)?, &[])
    }

    /// `x` and a number by `f`.
    pub(super) fn zip_number(&mut self, f: Binary, x: ValueId, number: f64) -> Result<ValueId> {
        let number = self.number(self.ty(x).dtype, number)?;
        self.zip(f, x, number)
    }

    /// `x` under another shape, or `x` itself.
    pub(super) fn reshape(&mut self, x: ValueId, dims: &[Dim]) -> Result<ValueId> {
        if self.ty(x).shape.0 == dims {
            return Ok(x);
        }
        self.one(Reshape { dims: Shape(dims.to_vec()) }, &[x])
    }

    /// `x` with axes of size 1 at these places of the result, ascending.
    pub(super) fn with_ones(&mut self, x: ValueId, places: &[usize]) -> Result<ValueId> {
        let mut dims = self.dims(x);
        for &at in places {
            dims.insert(at.min(dims.len()), Dim::from(1u64));
        }
        self.reshape(x, &dims)
    }

    /// `x` repeated to a shape.
    pub(super) fn expand(&mut self, x: ValueId, dims: &[Dim]) -> Result<ValueId> {
        if self.ty(x).shape.0 == dims {
            return Ok(x);
        }
        self.one(Expand { dims: Shape(dims.to_vec()) }, &[x])
    }

    /// Axes in another order, or `x` itself.
    pub(super) fn transpose(&mut self, x: ValueId, perm: &[usize]) -> Result<ValueId> {
        if perm.is_sorted() {
            return Ok(x);
        }
        self.one(Transpose { perm: perm.to_vec() }, &[x])
    }

    /// `len` indices of an axis from `start` on, or `x` itself if those are all.
    pub(super) fn slice(
        &mut self,
        x: ValueId,
        axis: usize,
        start: usize,
        len: impl Into<Dim>,
    ) -> Result<ValueId> {
        let len = len.into();
        if start == 0 && self.ty(x).shape.0.get(axis) == Some(&len) {
            return Ok(x);
        }
        self.one(Slice { axis, start: start.into(), len, step: 1 }, &[x])
    }

    /// A reduction of the last axis, which stays as 1.
    pub(super) fn reduce_last(&mut self, f: Reduction, x: ValueId) -> Result<ValueId> {
        let last = self.ty(x).shape.rank().saturating_sub(1);
        self.one(Reduce { f, axes: vec![last], keep: true }, &[x])
    }

    /// Indices along an axis of a shape, as u32.
    pub(super) fn iota(&mut self, dims: &[Dim], axis: usize) -> Result<ValueId> {
        self.one(Iota { dtype: DType::U32, dims: Shape(dims.to_vec()), axis }, &[])
    }

    /// `f(a, b)` as bool.
    pub(super) fn compare(&mut self, f: Comparison, a: ValueId, b: ValueId) -> Result<ValueId> {
        self.one(Compare { f }, &[a, b])
    }

    /// `x` where `cond`, and a number elsewhere.
    pub(super) fn keep_where(&mut self, cond: ValueId, x: ValueId, other: f64) -> Result<ValueId> {
        let other = self.number(self.ty(x).dtype, other)?;
        self.one(Select, &[cond, x, other])
    }

    /// One word of a control block, `[1] u32`.
    pub(super) fn control_word(&mut self, ctl: ValueId, word: usize) -> Result<ValueId> {
        self.slice(ctl, 0, word, 1u64)
    }
}

/// The element type that a decomposition computes in: f64 for f64, f32 for all shorter floats.
pub(super) fn wide(dtype: DType) -> DType {
    if dtype == DType::Scalar(Scalar::F64) { dtype } else { DType::F32 }
}

/// True for f16 and bf16.
pub(super) fn is_half(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16)
}

/// Scores of attention: scaled, then bounded.
pub(super) fn scaled(
    e: &mut dyn Emit,
    scores: ValueId,
    scale: f64,
    softcap: Option<f32>,
) -> Result<ValueId> {
    let scores = e.zip_number(Binary::Mul, scores, scale)?;
    let Some(cap) = softcap.map(f64::from) else { return Ok(scores) };
    let small = e.zip_number(Binary::Div, scores, cap)?;
    let bounded = e.map(Unary::Tanh, small)?;
    e.zip_number(Binary::Mul, bounded, cap)
}
