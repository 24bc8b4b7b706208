//! What type rules ask of operands.

use super::CONTROL_WORDS;
use crate::error::{Error, Result};
use crate::types::{Dim, Kind, Type};
use alloc::format;

pub(super) fn arity(name: &str, operands: &[&Type], n: usize) -> Result<()> {
    if operands.len() != n {
        return Err(Error::bad_graph(format!("{name} takes {n} operands, got {}", operands.len())));
    }
    Ok(())
}

pub(super) fn expect(name: &str, operand: &str, got: &Type, need: &Type) -> Result<()> {
    if got != need {
        return Err(Error::bad_graph(format!("{name}: {operand} is {got}, expected {need}")));
    }
    Ok(())
}

/// Fails unless the operand is a tensor of f64, f32, f16 or bf16.
pub(super) fn float_tensor(name: &str, operand: &str, ty: &Type) -> Result<()> {
    if ty.kind == Kind::Tensor && ty.dtype.is_float() {
        return Ok(());
    }
    Err(Error::bad_graph(format!("{name}: {operand} is {ty}, expected a tensor of floats")))
}

/// `[rows, columns]` of an f32 matrix operand.
pub(super) fn matrix(name: &str, operand: &str, ty: &Type) -> Result<(Dim, Dim)> {
    match ty.shape.0.as_slice() {
        [rows, columns] if ty.kind == Kind::Tensor => Ok((rows.clone(), columns.clone())),
        _ => Err(Error::bad_graph(format!("{name}: {operand} is {ty}, expected a matrix"))),
    }
}

pub(super) fn control(name: &str, ty: &Type) -> Result<()> {
    use crate::types::{DType, Shape};
    expect(name, "ctl", ty, &Type::state(DType::U32, Shape::of(&[CONTROL_WORDS])))
}
