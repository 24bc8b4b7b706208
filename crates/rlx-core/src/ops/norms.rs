//! What the type rules of norms share.

use super::{expect, float_tensor};
use crate::error::{Error, Result};
use crate::types::{Dim, Shape, Type};
use alloc::format;
use alloc::vec;

/// Fails unless `v` is a vector of `len` elements of `x`'s element type.
pub(super) fn vector(name: &str, operand: &str, v: &Type, x: &Type, len: &Dim) -> Result<()> {
    expect(name, operand, v, &Type::tensor(x.dtype, Shape(vec![len.clone()])))
}

/// Fails unless `x` is a tensor of floats with at least `rank` axes.
pub(super) fn floats(name: &str, x: &Type, rank: usize) -> Result<()> {
    float_tensor(name, "x", x)?;
    if x.shape.rank() < rank {
        return Err(Error::bad_graph(format!("{name}: x is {x}, expected at least {rank} axes")));
    }
    Ok(())
}

/// Fails unless NumPy broadcasting repeats `v` to the shape of `x`, of the same element type.
pub(super) fn repeats(name: &str, operand: &str, v: &Type, x: &Type) -> Result<()> {
    let one = Dim::from(1u64);
    let fits = v.shape.rank() <= x.shape.rank()
        && v.shape.0.iter().rev().zip(x.shape.0.iter().rev()).all(|(a, b)| a == b || *a == one);
    if v.kind == x.kind && v.dtype == x.dtype && fits {
        return Ok(());
    }
    Err(Error::bad_graph(format!("{name}: {operand} is {v}, it does not repeat to x, {x}")))
}
