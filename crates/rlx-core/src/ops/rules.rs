//! Pieces of type rules that several operators share.

use super::Alias;
use crate::error::{Error, Result};
use crate::types::{DType, Dim, Kind, Shape, Type};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// The shape that operands repeat to [NumPy broadcasting]: aligned at the last axis, sizes on one
/// axis are equal, or 1, or absent. Symbolic sizes are equal when their canonical forms are.
pub(super) fn broadcast(name: &str, operands: &[&Type]) -> Result<Shape> {
    let rank = operands.iter().map(|t| t.shape.rank()).max().unwrap_or(0);
    let one = Dim::from(1u64);
    let mut dims: Vec<Dim> = Vec::with_capacity(rank);
    for i in 0..rank {
        let mut size = one.clone();
        for t in operands {
            let Some(d) = (i + t.shape.rank()).checked_sub(rank).and_then(|k| t.shape.0.get(k))
            else {
                continue;
            };
            if size == one {
                size = d.clone();
            } else if *d != one && *d != size {
                let names: Vec<String> = operands.iter().map(|t| format!("{t}")).collect();
                return Err(Error::bad_graph(format!(
                    "{name}: operands {} do not broadcast, on one axis they have {size} and {d}",
                    names.join(", ")
                )));
            }
        }
        dims.push(size);
    }
    Ok(Shape(dims))
}

/// Fails unless `x` has that axis.
pub(super) fn has_axis(name: &str, x: &Type, axis: usize) -> Result<()> {
    if axis < x.shape.rank() {
        return Ok(());
    }
    Err(Error::bad_graph(format!("{name}: x is {x}, it has no axis {axis}")))
}

/// Fails unless the axes are ascending and all of `x`.
pub(super) fn has_axes(name: &str, x: &Type, axes: &[usize]) -> Result<()> {
    for &axis in axes {
        has_axis(name, x, axis)?;
    }
    if axes.is_sorted_by(|a, b| a < b) {
        return Ok(());
    }
    Err(Error::bad_graph(format!("{name}: axes are {axes:?}, expected ascending ones")))
}

/// Fails unless the operand is a tensor of scalars: any type but packed ones.
pub(super) fn scalar_tensor(name: &str, operand: &str, ty: &Type) -> Result<()> {
    if ty.kind == Kind::Tensor && !ty.dtype.is_block() {
        return Ok(());
    }
    Err(Error::bad_graph(format!("{name}: {operand} is {ty}, expected a tensor of scalars")))
}

/// Fails unless the operand is a tensor of floats or integers.
pub(super) fn number_tensor(name: &str, operand: &str, ty: &Type) -> Result<()> {
    if ty.kind == Kind::Tensor && (ty.dtype.is_float() || ty.dtype.is_int()) {
        return Ok(());
    }
    Err(Error::bad_graph(format!(
        "{name}: {operand} is {ty}, expected a tensor of floats or integers"
    )))
}

/// Fails unless the operand is a tensor of `u32`, `i32` or `i64`.
pub(super) fn ids_tensor(name: &str, ty: &Type) -> Result<()> {
    let integer = [DType::U32, DType::I32, DType::I64].contains(&ty.dtype);
    if ty.kind == Kind::Tensor && integer {
        return Ok(());
    }
    Err(Error::bad_graph(format!("{name}: ids is {ty}, expected a tensor of u32, i32 or i64")))
}

/// Fails unless two operands have one element type.
pub(super) fn one_dtype(name: &str, a: &Type, b: &Type) -> Result<()> {
    if a.dtype == b.dtype {
        return Ok(());
    }
    Err(Error::bad_graph(format!("{name}: operands are {a} and {b}, expected one element type"))
        .hint("insert a cast"))
}

/// The product of sizes. Errors on overflow.
pub(super) fn product(dims: &[Dim]) -> Result<Dim> {
    dims.iter().try_fold(Dim::from(1u64), |n, d| n.mul(d))
}

/// True where the axes of `shape` but the first `axis` are such that a run of indices on `axis` is
/// one run of bytes: every axis before it is 1.
pub(super) fn outermost(shape: &Shape, axis: usize) -> bool {
    shape.0.iter().take(axis).all(|d| d.as_static() == Some(1))
}

/// The alias of a broadcast result of `dtype`: operand `k`, where it repeats nothing and has
/// elements of the same size.
pub(super) fn in_place(name: &str, k: usize, operands: &[&Type], dtype: DType) -> Alias {
    let (Some(x), Ok(shape)) = (operands.get(k), broadcast(name, operands)) else {
        return Alias::None;
    };
    if x.shape == shape && x.dtype.block_bytes() == dtype.block_bytes() && !x.dtype.is_block() {
        return Alias::Elementwise { operand: k };
    }
    Alias::None
}
