//! Row-major indices: how loops walk tensors of any number of axes.

use super::View;
use crate::error::{Code, Error, Result};
use crate::types::{Shape, Type};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// Static sizes, each and their product within what memory addresses.
pub(super) fn sizes(shape: &Shape) -> Result<Vec<usize>> {
    let large = || Error::new(Code::OutOfMemory, format!("shape {shape} is too large"));
    usize::try_from(shape.elements()?).map_err(|_| large())?;
    shape.static_dims()?.into_iter().map(|n| usize::try_from(n).map_err(|_| large())).collect()
}

/// An empty vector with room for `n`.
///
/// # Errors
/// `OutOfMemory`: a graph may ask for any size.
pub(super) fn room<T>(n: usize) -> Result<Vec<T>> {
    let mut out = Vec::new();
    out.try_reserve_exact(n)
        .map_err(|_| Error::new(Code::OutOfMemory, format!("no memory for {n} elements")))?;
    Ok(out)
}

/// `n` of a value.
pub(super) fn filled<T: Clone>(n: usize, value: T) -> Result<Vec<T>> {
    let mut out = room(n)?;
    out.resize(n, value);
    Ok(out)
}

/// Calls `f` with every index of a shape, the last axis fastest.
pub(super) fn each_index(dims: &[usize], mut f: impl FnMut(&[usize])) {
    if dims.contains(&0) {
        return;
    }
    let mut index = vec![0; dims.len()];
    loop {
        f(&index);
        let mut axis = dims.len();
        loop {
            if axis == 0 {
                return;
            }
            axis -= 1;
            index[axis] += 1;
            if index[axis] < dims[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
}

/// Elements from one index to the next on each axis.
pub(super) fn strides(dims: &[usize]) -> Vec<usize> {
    let mut out = vec![1usize; dims.len()];
    for i in (1..dims.len()).rev() {
        // Zero-size axes apart, a stride is at most the number of elements.
        out[i - 1] = out[i].saturating_mul(dims[i]);
    }
    out
}

/// For every element of `to` the element of `of` that repeats there [NumPy broadcasting].
pub(super) fn repeated(of: &[usize], to: &[usize]) -> Result<Vec<usize>> {
    let mut out = room(to.iter().product())?;
    let new = to.len().saturating_sub(of.len());
    let strides = strides(of);
    each_index(to, |index| {
        let own = index[new..].iter().zip(of).zip(&strides);
        out.push(own.map(|((&i, &n), &stride)| if n == 1 { 0 } else { i * stride }).sum());
    });
    Ok(out)
}

/// Elements of a scalar type, copied: that of index `i` from element `from(i)` of `x`.
pub(super) fn pick(
    x: &View<'_>,
    to: &[usize],
    mut from: impl FnMut(&[usize]) -> usize,
) -> Result<Vec<u8>> {
    let size = x.ty.dtype.block_bytes();
    let mut out = room(to.iter().product::<usize>().saturating_mul(size))?;
    let mut bad = None;
    each_index(to, |index| {
        let at = from(index);
        match at.checked_mul(size).and_then(|at| x.bytes.get(at..)?.get(..size)) {
            Some(bytes) => out.extend_from_slice(bytes),
            None => bad = Some(at),
        }
    });
    match bad {
        None => Ok(out),
        Some(at) => Err(Error::internal(format!("{} has no element {at}", x.ty))),
    }
}

/// Sizes around an axis: the product of those before it, its own, the product of those behind.
pub(super) fn around(dims: &[usize], axis: usize) -> Result<(usize, usize, usize)> {
    let (Some(before), Some(own), Some(behind)) =
        (dims.get(..axis), dims.get(axis), dims.get(axis + 1..))
    else {
        return Err(Error::internal(format!("{dims:?} has no axis {axis}")));
    };
    // With a size of 0 elsewhere one product may overflow; then there is nothing to walk.
    let product = |dims: &[usize]| dims.iter().fold(1usize, |n, d| n.saturating_mul(*d));
    Ok((product(before), *own, product(behind)))
}

/// Bytes from one index of an axis to the next; packed types have none on their last.
pub(super) fn step_bytes(ty: &Type, axis: usize) -> Result<usize> {
    let dims = ty.shape.static_dims()?;
    let bytes = match dims.get(axis + 1..) {
        Some([rows @ .., last]) => ty
            .dtype
            .row_bytes(*last)
            .and_then(|row| rows.iter().try_fold(row, |n, d| n.checked_mul(*d))),
        Some([]) if !ty.dtype.is_block() => Some(ty.dtype.block_bytes() as u64),
        _ => None,
    };
    bytes
        .and_then(|n| usize::try_from(n).ok())
        .ok_or_else(|| Error::internal(format!("{ty} has no bytes along axis {axis}")))
}

/// The place that an id says on an axis of `n`: a negative one counts from the end.
pub(super) fn place(id: i64, n: usize) -> i64 {
    if id < 0 { id.saturating_add(i64::try_from(n).unwrap_or(i64::MAX)) } else { id }
}
