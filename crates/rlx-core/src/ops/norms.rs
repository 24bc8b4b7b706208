//! What the type rules of norms share.

use super::float_tensor;
use crate::error::{Error, Result};
use crate::types::{Dim, Type};
use alloc::format;

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
