//! What decompositions are written with: one call an operator, and forms that several share.
//!
//! Calls that would change nothing (a cast to the same type, a reshape to the same shape, a slice of
//! everything) give their operand and write no node. An operator's results are never its operands:
//! where nothing was written, [`whole`](dyn Emit::whole) makes one of them.

#[cfg(any(feature = "vision", feature = "audio", feature = "quant"))]
pub(crate) mod tables;

use crate::error::Result;
use crate::ops::{
    Binary, Cast, Compare, Comparison, Constant, Emit, Expand, Iota, Map, Reduce, Reduction,
    Reshape, Select, Slice, Transpose, Unary, Zip,
};
use crate::types::{DType, Dim, Scalar, Shape, ValueId};
use alloc::vec;
use alloc::vec::Vec;

/// One call an operator.
impl dyn Emit + '_ {
    /// Sizes of a value.
    pub(crate) fn dims(&self, v: ValueId) -> Vec<Dim> {
        self.ty(v).shape.0.clone()
    }

    /// `f(x)`.
    pub(crate) fn map(&mut self, f: Unary, x: ValueId) -> Result<ValueId> {
        self.one(Map { f }, &[x])
    }

    /// `f(a, b)`, broadcast.
    pub(crate) fn zip(&mut self, f: Binary, a: ValueId, b: ValueId) -> Result<ValueId> {
        self.one(Zip { f }, &[a, b])
    }

    /// `a + b`.
    pub(crate) fn add(&mut self, a: ValueId, b: ValueId) -> Result<ValueId> {
        self.zip(Binary::Add, a, b)
    }

    /// `a - b`.
    pub(crate) fn sub(&mut self, a: ValueId, b: ValueId) -> Result<ValueId> {
        self.zip(Binary::Sub, a, b)
    }

    /// `a b`, element by element.
    pub(crate) fn mul(&mut self, a: ValueId, b: ValueId) -> Result<ValueId> {
        self.zip(Binary::Mul, a, b)
    }

    /// `f(a, b)` as bool.
    pub(crate) fn compare(&mut self, f: Comparison, a: ValueId, b: ValueId) -> Result<ValueId> {
        self.one(Compare { f }, &[a, b])
    }

    /// `a` where `cond`, and `b` elsewhere.
    pub(crate) fn select(&mut self, cond: ValueId, a: ValueId, b: ValueId) -> Result<ValueId> {
        self.one(Select, &[cond, a, b])
    }

    /// `x` in another element type, or `x` itself.
    pub(crate) fn cast(&mut self, x: ValueId, to: DType) -> Result<ValueId> {
        if self.ty(x).dtype == to { Ok(x) } else { self.one(Cast { to }, &[x]) }
    }

    /// Half floats as f32, so that what is made of them rounds once; others as they are.
    pub(crate) fn wide(&mut self, x: ValueId) -> Result<ValueId> {
        if is_half(self.ty(x).dtype) { self.cast(x, DType::F32) } else { Ok(x) }
    }

    /// One number of a type, without axes.
    pub(crate) fn number(&mut self, dtype: DType, x: f64) -> Result<ValueId> {
        self.one(Constant::scalar(dtype, x)?, &[])
    }

    /// One number of the element type of `x`.
    pub(crate) fn like(&mut self, x: ValueId, number: f64) -> Result<ValueId> {
        self.number(self.ty(x).dtype, number)
    }

    /// `f` of every element and one number.
    pub(crate) fn zip_number(&mut self, f: Binary, x: ValueId, number: f64) -> Result<ValueId> {
        let number = self.like(x, number)?;
        self.zip(f, x, number)
    }

    /// `x` where `cond`, and a number elsewhere.
    pub(crate) fn keep_where(&mut self, cond: ValueId, x: ValueId, other: f64) -> Result<ValueId> {
        let other = self.like(x, other)?;
        self.select(cond, x, other)
    }

    /// `x` under another shape, or `x` itself.
    pub(crate) fn reshape(&mut self, x: ValueId, dims: &[Dim]) -> Result<ValueId> {
        if self.ty(x).shape.0 == dims {
            return Ok(x);
        }
        self.one(Reshape { dims: Shape(dims.to_vec()) }, &[x])
    }

    /// The value as an operator's result: a view of all of it.
    pub(crate) fn whole(&mut self, x: ValueId) -> Result<ValueId> {
        let dims = self.ty(x).shape.clone();
        self.one(Reshape { dims }, &[x])
    }

    /// `x` with axes of size 1 at these places of the result, ascending.
    pub(crate) fn with_ones(&mut self, x: ValueId, places: &[usize]) -> Result<ValueId> {
        let mut dims = self.dims(x);
        for &at in places {
            dims.insert(at.min(dims.len()), Dim::from(1u64));
        }
        self.reshape(x, &dims)
    }

    /// A vector as the axis `axis` of `rank`, size 1 on the others.
    pub(crate) fn along(&mut self, v: ValueId, axis: usize, rank: usize) -> Result<ValueId> {
        let mut dims = vec![Dim::from(1u64); rank];
        if let Some(d) = dims.get_mut(axis) {
            *d = self.ty(v).shape.last();
        }
        self.reshape(v, &dims)
    }

    /// `x` repeated to a shape, or `x` itself.
    pub(crate) fn expand(&mut self, x: ValueId, dims: &[Dim]) -> Result<ValueId> {
        if self.ty(x).shape.0 == dims {
            return Ok(x);
        }
        self.one(Expand { dims: Shape(dims.to_vec()) }, &[x])
    }

    /// Axes in another order, or `x` itself.
    pub(crate) fn transpose(&mut self, x: ValueId, perm: &[usize]) -> Result<ValueId> {
        if perm.is_sorted() {
            return Ok(x);
        }
        self.one(Transpose { perm: perm.to_vec() }, &[x])
    }

    /// `len` indices of an axis from `start` on, or `x` itself if those are all.
    pub(crate) fn slice(
        &mut self,
        x: ValueId,
        axis: usize,
        start: impl Into<Dim>,
        len: impl Into<Dim>,
    ) -> Result<ValueId> {
        let (start, len) = (start.into(), len.into());
        if start.as_static() == Some(0) && self.ty(x).shape.0.get(axis) == Some(&len) {
            return Ok(x);
        }
        self.one(Slice { axis, start, len, step: 1 }, &[x])
    }

    /// `len` indices of an axis from `start` on, backwards.
    pub(crate) fn slice_back(
        &mut self,
        x: ValueId,
        axis: usize,
        start: u64,
        len: u64,
    ) -> Result<ValueId> {
        self.one(Slice { axis, start: start.into(), len: len.into(), step: -1 }, &[x])
    }

    /// `f` along axes, which stay with size 1.
    pub(crate) fn reduce(&mut self, f: Reduction, x: ValueId, axes: &[usize]) -> Result<ValueId> {
        self.one(Reduce { f, axes: axes.to_vec(), keep: true }, &[x])
    }

    /// A reduction of the last axis, which stays as 1.
    pub(crate) fn reduce_last(&mut self, f: Reduction, x: ValueId) -> Result<ValueId> {
        let last = self.ty(x).shape.rank().saturating_sub(1);
        self.reduce(f, x, &[last])
    }

    /// Indices along an axis of a shape, as u32.
    pub(crate) fn iota(&mut self, dims: &[Dim], axis: usize) -> Result<ValueId> {
        self.one(Iota { dtype: DType::U32, dims: Shape(dims.to_vec()), axis }, &[])
    }

    /// The indices of an axis of `n`, in a shape that repeats along all others of `rank`.
    pub(crate) fn indices(
        &mut self,
        dtype: DType,
        (n, axis, rank): (Dim, usize, usize),
    ) -> Result<ValueId> {
        let mut dims = Shape(vec![Dim::from(1u64); rank]);
        if let Some(d) = dims.0.get_mut(axis) {
            *d = n;
        }
        self.one(Iota { dtype, dims, axis }, &[])
    }
}

/// Forms that several operators share.
impl dyn Emit + '_ {
    /// One word of a control block, `[1] u32`.
    pub(crate) fn control_word(&mut self, ctl: ValueId, word: usize) -> Result<ValueId> {
        self.slice(ctl, 0, word, 1u64)
    }

    /// `(x - mean) / sqrt(var + eps)` over axes, or `x / sqrt(mean(x^2) + eps)`; half floats give
    /// f32.
    pub(crate) fn normalise(
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
        let sum = self.zip_number(Binary::Add, mean, f64::from(eps))?;
        let inverse = self.map(Unary::Rsqrt, sum)?;
        self.mul(x, inverse)
    }

    /// `x * scale + bias` with vectors along `axis`, in the width of x.
    pub(crate) fn affine(
        &mut self,
        x: ValueId,
        axis: usize,
        scale: ValueId,
        bias: Option<ValueId>,
    ) -> Result<ValueId> {
        let (rank, dtype) = (self.ty(x).shape.rank(), self.ty(x).dtype);
        let scale = self.cast(scale, dtype)?;
        let scale = self.along(scale, axis, rank)?;
        let x = self.mul(x, scale)?;
        let Some(bias) = bias else { return Ok(x) };
        let bias = self.cast(bias, dtype)?;
        let bias = self.along(bias, axis, rank)?;
        self.add(x, bias)
    }

    /// Ids as places on an axis of `n`: negative ones count from the end. `None` where that takes a
    /// size that is not known.
    pub(crate) fn places(&mut self, ids: ValueId, n: &Dim) -> Result<Option<ValueId>> {
        if self.ty(ids).dtype == DType::U32 {
            return Ok(Some(ids));
        }
        let Some(n) = n.as_static() else { return Ok(None) };
        let zero = self.like(ids, 0.0)?;
        let negative = self.compare(Comparison::Lt, ids, zero)?;
        let from_end = self.zip_number(Binary::Add, ids, n as f64)?;
        self.select(negative, from_end, ids).map(Some)
    }

    /// `y[.., v, ..]` is the sum of all `x[.., n, ..]` for which `mask[v, n]` holds. In memory that
    /// is `x` as often as the mask has rows: what is not taken is 0 and not a factor, so that it may
    /// be infinite or NaN.
    pub(crate) fn masked_sum(&mut self, mask: ValueId, x: ValueId, axis: usize) -> Result<ValueId> {
        let behind = self.ty(x).shape.rank().saturating_sub(axis + 1);
        let x = self.with_ones(x, &[axis])?;
        let mut dims = self.dims(mask);
        dims.extend((0..behind).map(|_| Dim::from(1u64)));
        let mask = self.reshape(mask, &dims)?;
        let taken = self.keep_where(mask, x, 0.0)?;
        self.one(Reduce { f: Reduction::Sum, axes: vec![axis + 1], keep: false }, &[taken])
    }
}

/// The element type that a decomposition computes in: f64 for f64, f32 for all shorter floats.
pub(crate) fn wide(dtype: DType) -> DType {
    if dtype == DType::Scalar(Scalar::F64) { dtype } else { DType::F32 }
}

/// True for f16 and bf16.
pub(crate) fn is_half(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16)
}

/// Scores of attention: scaled, then bounded.
pub(crate) fn scaled(
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
