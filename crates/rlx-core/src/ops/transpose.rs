//! Axes in another order.

use super::{Alias, Class, Operator, arity, attributes, rules};
use crate::error::{Error, Result};
use crate::types::{Shape, Type};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// `transpose x -> y`: axis `i` of the result is axis `perm[i]` of `x`. Any scalar type. Where only
/// axes of size 1 move it is a view.
#[derive(Clone, Debug, PartialEq)]
pub struct Transpose {
    /// Every axis of `x` once.
    pub perm: Vec<usize>,
}

attributes! { Transpose { perm } }

impl Operator for Transpose {
    const NAME: &'static str = "transpose";
    const CLASS: Class = Class::Movement;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("transpose", operands, 1)?;
        let x = operands[0];
        rules::scalar_tensor("transpose", "x", x)?;
        let once = (0..x.shape.rank()).all(|axis| self.perm.contains(&axis));
        if self.perm.len() != x.shape.rank() || !once {
            return Err(Error::bad_graph(format!(
                "transpose: x is {x}, {:?} is no order of its axes",
                self.perm
            )));
        }
        let dims = self.perm.iter().map(|&axis| x.shape.0[axis].clone()).collect();
        Ok(vec![Type::tensor(x.dtype, Shape(dims))])
    }

    fn alias(&self, operands: &[&Type]) -> Alias {
        let [x] = operands else { return Alias::None };
        let real = |axis: &usize| x.shape.0.get(*axis).is_some_and(|d| d.as_static() != Some(1));
        let moves = self.perm.iter().copied().filter(real);
        if moves.is_sorted() { Alias::View { operand: 0, byte_offset: 0 } } else { Alias::None }
    }
}
