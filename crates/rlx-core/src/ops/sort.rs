//! Elements in order.

use super::{Class, Operator, arity, attributes, rules};
use crate::error::Result;
use crate::types::{DType, Type};
use alloc::vec;
use alloc::vec::Vec;

/// `sort x -> values, indices u32`: elements along `axis` in ascending or descending order, and
/// where each stood. Floats or integers. Stable: equal elements keep their order, whichever way is
/// sorted; zeros of either sign are equal. A NaN counts as larger than all numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Sort {
    /// The axis.
    pub axis: usize,
    /// Whether the largest comes first.
    pub descending: bool,
}

attributes! { Sort { axis, descending } }

impl Operator for Sort {
    const NAME: &'static str = "sort";
    const CLASS: Class = Class::Reduction;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("sort", operands, 1)?;
        let x = operands[0];
        rules::number_tensor("sort", "x", x)?;
        rules::has_axis("sort", x, self.axis)?;
        Ok(vec![x.clone(), Type::tensor(DType::U32, x.shape.clone())])
    }
}
