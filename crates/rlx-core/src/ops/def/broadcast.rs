//! Operands that repeat to one shape [NumPy broadcasting]: aligned at the last axis, sizes on one axis
//! are equal, or 1, or absent. Symbolic sizes are equal when their canonical forms are.

use crate::error::{Error, Result};
use crate::ops::{Alias, Operator, RowUse};
use crate::types::{DType, Dim, Shape, Type};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// The sizes that all repeat to, or two on one axis that do not fit.
pub(crate) fn sizes(all: &[&[Dim]]) -> Result<Vec<Dim>, (Dim, Dim)> {
    let rank = all.iter().map(|dims| dims.len()).max().unwrap_or(0);
    let one = Dim::from(1u64);
    let mut out: Vec<Dim> = Vec::with_capacity(rank);
    for i in 0..rank {
        let mut size = one.clone();
        for dims in all {
            let Some(d) = (i + dims.len()).checked_sub(rank).and_then(|k| dims.get(k)) else {
                continue;
            };
            if size == one {
                size = d.clone();
            } else if *d != one && *d != size {
                return Err((size, d.clone()));
            }
        }
        out.push(size);
    }
    Ok(out)
}

/// The shape that operands repeat to.
pub(crate) fn shape(name: &str, operands: &[&Type]) -> Result<Shape> {
    let all: Vec<&[Dim]> = operands.iter().map(|t| t.shape.0.as_slice()).collect();
    sizes(&all).map(Shape).map_err(|(size, d)| {
        let names: Vec<String> = operands.iter().map(|t| format!("{t}")).collect();
        Error::bad_graph(format!(
            "{name}: operands {} do not broadcast, on one axis they have {size} and {d}",
            names.join(", ")
        ))
    })
}

/// Fails unless NumPy broadcasting repeats `v` to the shape of `x`, of the same element type.
pub(crate) fn repeats(name: &str, operand: &str, v: &Type, x: &Type) -> Result<()> {
    let one = Dim::from(1u64);
    let fits = v.shape.rank() <= x.shape.rank()
        && v.shape.0.iter().rev().zip(x.shape.0.iter().rev()).all(|(a, b)| a == b || *a == one);
    if v.kind == x.kind && v.dtype == x.dtype && fits {
        return Ok(());
    }
    Err(Error::bad_graph(format!("{name}: {operand} is {v}, it does not repeat to x, {x}")))
}

/// The alias of a broadcast result of `dtype`: operand `k`, where it repeats nothing and has
/// elements of the same size.
pub(crate) fn in_place(name: &str, k: usize, operands: &[&Type], dtype: DType) -> Alias {
    let (Some(x), Ok(all)) = (operands.get(k), shape(name, operands)) else {
        return Alias::None;
    };
    if x.shape == all && x.dtype.block_bytes() == dtype.block_bytes() && !x.dtype.is_block() {
        return Alias::Elementwise { operand: k };
    }
    Alias::None
}

/// Which rows an elementwise operator needs of an operand: those of the result, unless the operand is repeated.
pub(crate) fn same_rows<O: Operator>(op: &O, operand: usize, operands: &[&Type]) -> RowUse {
    let Ok(results) = op.infer(operands) else { return RowUse::All };
    let shape = |ty: Option<&Type>| ty.map(|ty| ty.shape.clone());
    match shape(operands.get(operand).copied()) == shape(results.first()) {
        true => RowUse::Same,
        false => RowUse::All,
    }
}
