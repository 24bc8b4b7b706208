//! Where the smallest element stands.

use super::{Class, Emit, Operator, Reduction, argmax, attributes};
use crate::error::Result;
use crate::types::{Type, ValueId};
use alloc::vec::Vec;

/// `argmin x -> u32`: the lowest index of the smallest element along `axis`, which goes, or stays
/// with size 1. Floats or integers. A NaN is never the smallest; where all are NaN the index is 0.
#[derive(Clone, Debug, PartialEq)]
pub struct ArgMin {
    /// The axis.
    pub axis: usize,
    /// Whether the axis stays, with size 1.
    pub keep: bool,
}

attributes! { ArgMin { axis, keep } }

impl Operator for ArgMin {
    const NAME: &'static str = "argmin";
    const CLASS: Class = Class::Reduction;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        argmax::rule("argmin", self.axis, self.keep, operands)
    }
    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        argmax::first_of("argmin", e, operands, Reduction::Min, (self.axis, self.keep))
    }
}
