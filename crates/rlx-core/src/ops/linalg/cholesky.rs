//! Cholesky factor of symmetric positive definite matrices [PyTorch linalg.cholesky].

use crate::error::{Error, Result};
use crate::ops::{Class, Operator, arity, attributes};
use crate::types::{DType, Dim, Kind, Scalar, Type};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// `cholesky a [.., N, N] -> l [.., N, N]`, f64 or f32: lower triangular with `a = l l^T`.
///
/// Only the lower triangle of a is read. A matrix that is not positive definite is an error where
/// it runs. It is a primitive: no smaller operators make it.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Cholesky;

attributes! { Cholesky {} }

impl Operator for Cholesky {
    const NAME: &'static str = "cholesky";
    const CLASS: Class = Class::Compute;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("cholesky", operands, 1)?;
        square("cholesky", operands[0])?;
        Ok(vec![operands[0].clone()])
    }
}

/// N and the leading axes of square matrices of f64 or f32.
pub(super) fn square<'a>(name: &str, a: &'a Type) -> Result<(&'a Dim, &'a [Dim])> {
    let solvable =
        matches!(a.dtype, DType::Scalar(Scalar::F64 | Scalar::F32)) && a.kind == Kind::Tensor;
    match a.shape.0.as_slice() {
        [lead @ .., rows, columns] if rows == columns && solvable => Ok((rows, lead)),
        _ => Err(Error::bad_graph(format!(
            "{name}: a is {a}, expected square matrices of f64 or f32"
        ))),
    }
}
