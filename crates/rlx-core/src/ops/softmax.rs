//! Shares of exponentials along an axis.

use super::{Attrs, Class, Operator, arity, float_tensor, rules};
use crate::error::Result;
use crate::types::Type;
use alloc::vec;
use alloc::vec::Vec;

/// `softmax x -> x`: `exp(x[i] - m) / sum of exp(x[j] - m)` along `axis`, `m` its largest element.
/// Floats, the same shape and type. Where all are `-inf` the results are NaN.
#[derive(Clone, Debug, PartialEq)]
pub struct Softmax {
    /// The axis.
    pub axis: usize,
}

impl Operator for Softmax {
    const NAME: &'static str = "softmax";
    const CLASS: Class = Class::Reduction;

    fn attrs(&self) -> Attrs {
        Attrs::none().axis("axis", self.axis)
    }

    fn from_attrs(attrs: &Attrs) -> Result<Self> {
        attrs.only(&["axis"])?;
        Ok(Softmax { axis: attrs.get_axis("axis")? })
    }

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("softmax", operands, 1)?;
        float_tensor("softmax", "x", operands[0])?;
        rules::has_axis("softmax", operands[0], self.axis)?;
        Ok(vec![operands[0].clone()])
    }
}
