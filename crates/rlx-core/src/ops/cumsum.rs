//! Running sums along an axis.

use super::{Attrs, Class, Operator, arity, rules};
use crate::error::Result;
use crate::types::Type;
use alloc::vec;
use alloc::vec::Vec;

/// `cumsum x -> x`: `y[i]` is the sum of `x[0..=i]` along `axis`; exclusive, of `x[0..i]`. Floats,
/// accumulated wide and each rounded once, or integers, which wrap. ONNX `CumSum`.
#[derive(Clone, Debug, PartialEq)]
pub struct CumSum {
    /// The axis.
    pub axis: usize,
    /// Whether an element is left out of its own sum.
    pub exclusive: bool,
}

impl Operator for CumSum {
    const NAME: &'static str = "cumsum";
    const CLASS: Class = Class::Reduction;

    fn attrs(&self) -> Attrs {
        Attrs::none().axis("axis", self.axis).when("exclusive", self.exclusive)
    }

    fn from_attrs(attrs: &Attrs) -> Result<Self> {
        attrs.only(&["axis", "exclusive"])?;
        Ok(CumSum { axis: attrs.get_axis("axis")?, exclusive: attrs.flag("exclusive")? })
    }

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("cumsum", operands, 1)?;
        rules::number_tensor("cumsum", "x", operands[0])?;
        rules::has_axis("cumsum", operands[0], self.axis)?;
        Ok(vec![operands[0].clone()])
    }
}
