//! What type rules ask of operands: how many, of which kind and element type, with which axes.

use crate::error::{Error, Result};
use crate::types::{DType, Dim, Kind, Shape, Type};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// Fails unless there are so many operands.
pub(crate) fn arity(name: &str, operands: &[&Type], n: usize) -> Result<()> {
    if operands.len() != n {
        return Err(Error::bad_graph(format!("{name} takes {n} operands, got {}", operands.len())));
    }
    Ok(())
}

/// Fails unless the operand is of that very type.
pub(crate) fn expect(name: &str, operand: &str, got: &Type, need: &Type) -> Result<()> {
    if got != need {
        return Err(Error::bad_graph(format!("{name}: {operand} is {got}, expected {need}")));
    }
    Ok(())
}

/// Operands as an error shows them: `a is tensor<2xf32>, b is tensor<3xf32>`.
fn shown(operands: &[(&str, &Type)]) -> String {
    let all: Vec<String> = operands.iter().map(|(name, ty)| format!("{name} is {ty}")).collect();
    all.join(", ")
}

/// The error of operands that do not fit each other.
pub(crate) fn misfit(op: &str, operands: &[(&str, &Type)], need: &str) -> Error {
    Error::bad_graph(format!("{op}: {}; expected {need}", shown(operands)))
}

/// Fails unless the operand is a tensor of f64, f32, f16 or bf16.
pub(crate) fn float_tensor(name: &str, operand: &str, ty: &Type) -> Result<()> {
    if ty.kind == Kind::Tensor && ty.dtype.is_float() {
        return Ok(());
    }
    Err(Error::bad_graph(format!("{name}: {operand} is {ty}, expected a tensor of floats")))
}

/// Fails unless the operand is a tensor of scalars: any type but packed ones.
pub(crate) fn scalar_tensor(name: &str, operand: &str, ty: &Type) -> Result<()> {
    if ty.kind == Kind::Tensor && !ty.dtype.is_block() {
        return Ok(());
    }
    Err(Error::bad_graph(format!("{name}: {operand} is {ty}, expected a tensor of scalars")))
}

/// Fails unless the operand is a tensor of floats or integers.
pub(crate) fn number_tensor(name: &str, operand: &str, ty: &Type) -> Result<()> {
    if ty.kind == Kind::Tensor && (ty.dtype.is_float() || ty.dtype.is_int()) {
        return Ok(());
    }
    Err(Error::bad_graph(format!(
        "{name}: {operand} is {ty}, expected a tensor of floats or integers"
    )))
}

/// Fails unless the operand is a tensor of `u32`, `i32` or `i64`.
pub(crate) fn ids_tensor(name: &str, ty: &Type) -> Result<()> {
    let integer = [DType::U32, DType::I32, DType::I64].contains(&ty.dtype);
    if ty.kind == Kind::Tensor && integer {
        return Ok(());
    }
    Err(Error::bad_graph(format!("{name}: ids is {ty}, expected a tensor of u32, i32 or i64")))
}

/// Fails unless `x` is a tensor of floats with at least `rank` axes.
pub(crate) fn floats(name: &str, x: &Type, rank: usize) -> Result<()> {
    float_tensor(name, "x", x)?;
    if x.shape.rank() < rank {
        return Err(Error::bad_graph(format!("{name}: x is {x}, expected at least {rank} axes")));
    }
    Ok(())
}

/// `[rows, columns]` of an f32 matrix operand.
pub(crate) fn matrix(name: &str, operand: &str, ty: &Type) -> Result<(Dim, Dim)> {
    match ty.shape.0.as_slice() {
        [rows, columns] if ty.kind == Kind::Tensor => Ok((rows.clone(), columns.clone())),
        _ => Err(Error::bad_graph(format!("{name}: {operand} is {ty}, expected a matrix"))),
    }
}

/// Fails unless a vector of a norm or bias is `[n]` of f32 or of the activations' type.
pub(crate) fn vector(op: &str, operand: &str, got: &Type, n: &Dim, x: DType) -> Result<()> {
    let fits = got.kind == Kind::Tensor
        && got.shape.0.as_slice() == core::slice::from_ref(n)
        && (got.dtype == DType::F32 || got.dtype == x);
    if fits {
        return Ok(());
    }
    let need = Type::tensor(DType::F32, Shape(vec![n.clone()]));
    let or = if x == DType::F32 { String::new() } else { format!(" or {x}") };
    Err(Error::bad_graph(format!("{op}: {operand} is {got}, expected {need}{or}")))
}

/// The element type that all operands share: tensors of one float type.
pub(crate) fn same_floats(op: &str, operands: &[(&str, &Type)]) -> Result<DType> {
    let first = operands.first().map_or(DType::F32, |(_, ty)| ty.dtype);
    let ok = operands.iter().all(|(_, ty)| ty.kind == Kind::Tensor && ty.dtype == first);
    if ok && first.is_float() {
        return Ok(first);
    }
    Err(misfit(op, operands, "tensors of one float type"))
}

/// Fails unless two operands have one element type.
pub(crate) fn one_dtype(name: &str, a: &Type, b: &Type) -> Result<()> {
    if a.dtype == b.dtype {
        return Ok(());
    }
    Err(Error::bad_graph(format!("{name}: operands are {a} and {b}, expected one element type"))
        .hint("insert a cast"))
}

/// True for a tensor of this type that has one element: of no axis, or of one of size 1.
pub(crate) fn is_scalar(ty: &Type, dtype: DType) -> bool {
    ty.kind == Kind::Tensor
        && ty.dtype == dtype
        && match ty.shape.0.as_slice() {
            [] => true,
            [one] => one.as_static() == Some(1),
            _ => false,
        }
}

/// True for a tensor that a product reads as weights: floats, or packed blocks.
pub(crate) fn is_weight(ty: &Type) -> bool {
    ty.kind == Kind::Tensor && (ty.dtype.is_float() || ty.dtype.is_block())
}

/// Fails unless `x` has that axis.
pub(crate) fn has_axis(name: &str, x: &Type, axis: usize) -> Result<()> {
    if axis < x.shape.rank() {
        return Ok(());
    }
    Err(Error::bad_graph(format!("{name}: x is {x}, it has no axis {axis}")))
}

/// Fails unless the axes are ascending and all of `x`.
pub(crate) fn has_axes(name: &str, x: &Type, axes: &[usize]) -> Result<()> {
    for &axis in axes {
        has_axis(name, x, axis)?;
    }
    if axes.is_sorted_by(|a, b| a < b) {
        return Ok(());
    }
    Err(Error::bad_graph(format!("{name}: axes are {axes:?}, expected ascending ones")))
}

/// The product of sizes. Errors on overflow.
pub(crate) fn product(dims: &[Dim]) -> Result<Dim> {
    dims.iter().try_fold(Dim::from(1u64), |n, d| n.mul(d))
}
