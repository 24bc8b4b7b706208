//! Axes from their ends.

use super::{Attrs, Class, Operator, arity, rules};
use crate::error::Result;
use crate::types::Type;
use alloc::vec;
use alloc::vec::Vec;

/// `reverse x -> x`: `y[i] = x[n - 1 - i]` on each axis. Any scalar type. NumPy and PyTorch `flip`.
#[derive(Clone, Debug, PartialEq)]
pub struct Reverse {
    /// The axes, ascending.
    pub axes: Vec<usize>,
}

impl Operator for Reverse {
    const NAME: &'static str = "reverse";
    const CLASS: Class = Class::Movement;

    fn attrs(&self) -> Attrs {
        Attrs::none().axes("axes", &self.axes)
    }

    fn from_attrs(attrs: &Attrs) -> Result<Self> {
        attrs.only(&["axes"])?;
        Ok(Reverse { axes: attrs.get_axes("axes")? })
    }

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("reverse", operands, 1)?;
        rules::scalar_tensor("reverse", "x", operands[0])?;
        rules::has_axes("reverse", operands[0], &self.axes)?;
        Ok(vec![operands[0].clone()])
    }
}
