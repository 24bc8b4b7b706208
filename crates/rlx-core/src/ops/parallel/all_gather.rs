//! The tensors of all ranks, one behind the other.

use super::{Class, Operator, arity, attributes, rules};
use crate::error::{Error, Result};
use crate::types::{Dim, Type};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// `all_gather x [A, ..] -> y [ranks * A, ..]`: of scalars, on every rank the ranks' `x` one behind the other along
/// the first axis, rank 0 first.
#[derive(Clone, Debug, PartialEq)]
pub struct AllGather {
    /// Ranks of the group, 1 or more.
    pub ranks: u64,
}

attributes! { AllGather { ranks } }

impl Operator for AllGather {
    const NAME: &'static str = "all_gather";
    const CLASS: Class = Class::Movement;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity(Self::NAME, operands, 1)?;
        let x = operands[0];
        rules::scalar_tensor(Self::NAME, "x", x)?;
        rules::has_axis(Self::NAME, x, 0)?;
        if self.ranks == 0 {
            return Err(Error::bad_graph(format!("{}: 0 ranks, expected 1 or more", Self::NAME)));
        }
        let mut shape = x.shape.clone();
        shape.0[0] = shape.0[0].mul(&Dim::from(self.ranks))?;
        Ok(vec![Type::tensor(x.dtype, shape)])
    }
}
