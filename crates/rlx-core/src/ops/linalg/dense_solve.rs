//! Linear systems with dense matrices [PyTorch linalg.solve].

use super::cholesky::square;
use crate::error::{Error, Result};
use crate::ops::{Class, Operator, arity, attributes};
use crate::types::Type;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// `dense_solve a [.., N, N], b -> x` with `a x = b`: b and x are `[.., N, K]`, or `[.., N]` for one
/// right-hand side each. f64 or f32.
///
/// Gauss elimination with partial pivoting. A singular matrix is an error where it runs. It is a
/// primitive: no smaller operators make it.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct DenseSolve;

attributes! { DenseSolve {} }

impl Operator for DenseSolve {
    const NAME: &'static str = "dense_solve";
    const CLASS: Class = Class::Compute;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("dense_solve", operands, 2)?;
        let (a, b) = (operands[0], operands[1]);
        let (n, lead) = square("dense_solve", a)?;
        let dims = b.shape.0.as_slice();
        // [.., N] or [.., N, K]: as many axes as a has, or one less.
        let fits = dims.len() + 1 >= a.shape.rank()
            && dims.len() <= a.shape.rank()
            && dims.starts_with(lead)
            && dims.get(lead.len()) == Some(n);
        if !fits || b.dtype != a.dtype || b.kind != a.kind {
            return Err(Error::bad_graph(format!(
                "dense_solve: a is {a}, b is {b}; expected [.., N, K] or [.., N] of the same type"
            )));
        }
        Ok(vec![b.clone()])
    }
}
