//! What decompositions are written with: one call an operator, and forms that several share.

use super::{
    Binary, Cast, Compare, Comparison, Constant, Emit, Expand, Iota, Map, Reduce, Reduction,
    Reshape, Select, Slice, Unary, Zip,
};
use crate::error::Result;
use crate::types::{DType, Dim, Shape, ValueId};
use alloc::vec;
use alloc::vec::Vec;

/// A number without axes.
pub(super) fn number(e: &mut dyn Emit, dtype: DType, x: f64) -> Result<ValueId> {
    e.one(Constant::scalar(dtype, x)?, &[])
}

/// A number without axes, of the element type of `x`.
pub(super) fn like(e: &mut dyn Emit, x: ValueId, value: f64) -> Result<ValueId> {
    let dtype = e.ty(x).dtype;
    number(e, dtype, value)
}

pub(super) fn map(e: &mut dyn Emit, f: Unary, x: ValueId) -> Result<ValueId> {
    e.one(Map { f }, &[x])
}

pub(super) fn zip(e: &mut dyn Emit, f: Binary, a: ValueId, b: ValueId) -> Result<ValueId> {
    e.one(Zip { f }, &[a, b])
}

/// `f` of every element and one number.
pub(super) fn with(e: &mut dyn Emit, f: Binary, a: ValueId, b: f64) -> Result<ValueId> {
    let b = like(e, a, b)?;
    zip(e, f, a, b)
}

pub(super) fn compare(e: &mut dyn Emit, f: Comparison, a: ValueId, b: ValueId) -> Result<ValueId> {
    e.one(Compare { f }, &[a, b])
}

pub(super) fn select(e: &mut dyn Emit, c: ValueId, a: ValueId, b: ValueId) -> Result<ValueId> {
    e.one(Select, &[c, a, b])
}

/// A reduction of one axis that stays, with size 1.
pub(super) fn reduce(e: &mut dyn Emit, f: Reduction, x: ValueId, axis: usize) -> Result<ValueId> {
    e.one(Reduce { f, axes: vec![axis], keep: true }, &[x])
}

pub(super) fn reshape(e: &mut dyn Emit, x: ValueId, dims: Vec<Dim>) -> Result<ValueId> {
    e.one(Reshape { dims: Shape(dims) }, &[x])
}

pub(super) fn expand(e: &mut dyn Emit, x: ValueId, dims: Vec<Dim>) -> Result<ValueId> {
    e.one(Expand { dims: Shape(dims) }, &[x])
}

/// `len` indices of an axis, from `start` on.
pub(super) fn slice(
    e: &mut dyn Emit,
    x: ValueId,
    axis: usize,
    (start, len, step): (u64, u64, i64),
) -> Result<ValueId> {
    e.one(Slice { axis, start: start.into(), len: len.into(), step }, &[x])
}

/// The indices of an axis, in a shape that repeats along all others of `rank`.
pub(super) fn indices(
    e: &mut dyn Emit,
    dtype: DType,
    (n, axis, rank): (Dim, usize, usize),
) -> Result<ValueId> {
    let dims = (0..rank).map(|i| if i == axis { n.clone() } else { Dim::from(1u64) }).collect();
    e.one(Iota { dtype, dims: Shape(dims), axis }, &[])
}

/// The value as an operator's result: a view of all of it.
pub(super) fn whole(e: &mut dyn Emit, x: ValueId) -> Result<ValueId> {
    let dims = e.ty(x).shape.0.clone();
    reshape(e, x, dims)
}

/// The value in another element type, itself where it has that already.
pub(super) fn cast(e: &mut dyn Emit, x: ValueId, to: DType) -> Result<ValueId> {
    if e.ty(x).dtype == to { Ok(x) } else { e.one(Cast { to }, &[x]) }
}

/// f16 and bf16 as f32, so that what stands between is not rounded to them.
pub(super) fn wide(e: &mut dyn Emit, x: ValueId) -> Result<ValueId> {
    let narrow = [DType::F16, DType::BF16].contains(&e.ty(x).dtype);
    if narrow { cast(e, x, DType::F32) } else { Ok(x) }
}

/// Ids as places on an axis of `n`: negative ones count from the end. `None` where that takes a
/// size that is not known.
pub(super) fn places(e: &mut dyn Emit, ids: ValueId, n: &Dim) -> Result<Option<ValueId>> {
    if e.ty(ids).dtype == DType::U32 {
        return Ok(Some(ids));
    }
    let Some(n) = n.as_static() else { return Ok(None) };
    let zero = like(e, ids, 0.0)?;
    let negative = compare(e, Comparison::Lt, ids, zero)?;
    let from_end = with(e, Binary::Add, ids, n as f64)?;
    select(e, negative, from_end, ids).map(Some)
}

/// `y[.., v, ..]` is the sum of all `x[.., n, ..]` for which `mask[v, n]` holds. In memory that is
/// `x` as often as the mask has rows: what is not taken is 0 and not a factor, so that it may be
/// infinite or NaN.
pub(super) fn masked_sum(
    e: &mut dyn Emit,
    mask: ValueId,
    x: ValueId,
    axis: usize,
) -> Result<ValueId> {
    let mut dims = e.ty(x).shape.0.clone();
    let behind = dims.len().saturating_sub(axis + 1);
    dims.insert(axis, Dim::from(1u64));
    let x = reshape(e, x, dims)?;
    let mut dims = e.ty(mask).shape.0.clone();
    dims.extend((0..behind).map(|_| Dim::from(1u64)));
    let mask = reshape(e, mask, dims)?;
    let zero = like(e, x, 0.0)?;
    let taken = select(e, mask, x, zero)?;
    e.one(Reduce { f: Reduction::Sum, axes: vec![axis + 1], keep: false }, &[taken])
}
