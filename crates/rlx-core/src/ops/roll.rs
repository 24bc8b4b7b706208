//! Axes turned round.

use super::{Class, Concat, Emit, Operator, arity, attributes, rules};
use crate::error::{Error, Result};
use crate::types::{Type, ValueId};
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

attributes! { Roll { shifts, axes } }

impl Operator for Roll {
    const NAME: &'static str = "roll";
    const CLASS: Class = Class::Movement;

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
    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let &[x] = operands else { return Err(Error::internal("roll: arity was checked")) };
        let shape = e.ty(x).shape.clone();
        let mut y = x;
        for (&axis, &shift) in self.axes.iter().zip(&self.shifts) {
            let Some(n) = shape.0[axis].as_static() else { return Ok(None) };
            // In i128, which holds every u64 and i64; the remainder is below n again.
            let moved = i128::from(shift).rem_euclid(i128::from(n.max(1))) as u64;
            if moved > 0 {
                let last = e.slice(y, axis, n - moved, moved)?;
                let first = e.slice(y, axis, 0u64, n - moved)?;
                y = e.one(Concat { axis }, &[last, first])?;
            }
        }
        Ok(Some(vec![if y == x { e.whole(x)? } else { y }]))
    }
}
