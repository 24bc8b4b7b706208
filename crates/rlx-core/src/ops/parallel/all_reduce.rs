//! The sum of a tensor over all ranks.

use super::{Alias, Class, Operator, RowUse, arity, attributes, rules};
use crate::error::{Error, Result};
use crate::types::Type;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// `all_reduce x -> x`: of floats, on every rank the sum of the ranks' `x`, element by element. An executor sums in an
/// order of its own, the same on every rank, so that all ranks have the same bits.
#[derive(Clone, Debug, PartialEq)]
pub struct AllReduce {
    /// Ranks of the group, 1 or more.
    pub ranks: u64,
}

attributes! { AllReduce { ranks } }

impl Operator for AllReduce {
    const NAME: &'static str = "all_reduce";
    const CLASS: Class = Class::Movement;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity(Self::NAME, operands, 1)?;
        rules::float_tensor(Self::NAME, "x", operands[0])?;
        if self.ranks == 0 {
            return Err(Error::bad_graph(format!("{}: 0 ranks, expected 1 or more", Self::NAME)));
        }
        Ok(vec![operands[0].clone()])
    }

    fn alias(&self, _: &[&Type]) -> Alias {
        Alias::Elementwise { operand: 0 }
    }

    fn row_use(&self, _: usize, _: &[&Type]) -> RowUse {
        RowUse::Same
    }
}
