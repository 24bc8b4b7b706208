//! Axes turned round.

use super::{Attrs, Class, Operator, arity, rules};
use crate::error::{Error, Result};
use crate::types::Type;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// `roll x -> x`: `y[(i + shift) mod n] = x[i]` on each axis; what leaves at one end comes back at
/// the other. Any scalar type. NumPy and PyTorch `roll`.
#[derive(Clone, Debug, PartialEq)]
pub struct Roll {
    /// How far to move, one entry for each of `axes`; negative towards index 0.
    pub shifts: Vec<i64>,
    /// The axes, ascending.
    pub axes: Vec<usize>,
}

impl Operator for Roll {
    const NAME: &'static str = "roll";
    const CLASS: Class = Class::Movement;

    fn attrs(&self) -> Attrs {
        Attrs::none().signeds("shifts", &self.shifts).axes("axes", &self.axes)
    }

    fn from_attrs(attrs: &Attrs) -> Result<Self> {
        attrs.only(&["shifts", "axes"])?;
        Ok(Roll { shifts: attrs.get_signeds("shifts")?, axes: attrs.get_axes("axes")? })
    }

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("roll", operands, 1)?;
        let x = operands[0];
        rules::scalar_tensor("roll", "x", x)?;
        rules::has_axes("roll", x, &self.axes)?;
        if self.shifts.len() != self.axes.len() {
            return Err(Error::bad_graph(format!(
                "roll: shifts are {:?}, axes {:?}; expected as many",
                self.shifts, self.axes
            )));
        }
        Ok(vec![x.clone()])
    }
}
