//! Axes from their ends.

use super::{Class, Emit, Operator, arity, attributes, rules};
use crate::error::{Error, Result};
use crate::types::{Type, ValueId};
use alloc::vec;
use alloc::vec::Vec;

/// `reverse x -> x`: `y[i] = x[n - 1 - i]` on each axis. Any scalar type. NumPy and PyTorch `flip`.
#[derive(Clone, Debug, PartialEq)]
pub struct Reverse {
    /// The axes, ascending.
    pub axes: Vec<usize>,
}

attributes! { Reverse { axes } }

impl Operator for Reverse {
    const NAME: &'static str = "reverse";
    const CLASS: Class = Class::Movement;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("reverse", operands, 1)?;
        rules::scalar_tensor("reverse", "x", operands[0])?;
        rules::has_axes("reverse", operands[0], &self.axes)?;
        Ok(vec![operands[0].clone()])
    }
    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let &[x] = operands else { return Err(Error::internal("reverse: arity was checked")) };
        let shape = e.ty(x).shape.clone();
        let mut y = x;
        for &axis in &self.axes {
            // Where the last index is no number, no slice can begin there.
            let Some(n) = shape.0[axis].as_static() else { return Ok(None) };
            if n > 1 {
                y = e.slice_back(y, axis, n - 1, n)?;
            }
        }
        Ok(Some(vec![if y == x { e.whole(x)? } else { y }]))
    }
}
