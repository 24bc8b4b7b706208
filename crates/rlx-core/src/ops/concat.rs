//! Tensors one after another.

use super::{Alias, Class, Emit, Operator, attributes, rules};
use crate::error::{Error, Result};
use crate::types::{Type, ValueId};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// `concat a, b, .. -> y`: one operand or more, one after another along `axis`; of one scalar type,
/// and one size on every other axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Concat {
    /// The axis.
    pub axis: usize,
}

attributes! { Concat { axis } }

/// Operands that a target which runs `concat` at all takes at once.
const FEW: usize = 4;

impl Operator for Concat {
    const NAME: &'static str = "concat";
    const CLASS: Class = Class::Movement;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        let [first, rest @ ..] = operands else {
            return Err(Error::bad_graph("concat takes an operand at least, got 0"));
        };
        rules::scalar_tensor("concat", "operand 0", first)?;
        rules::has_axis("concat", first, self.axis)?;
        let mut shape = first.shape.clone();
        for (i, x) in rest.iter().enumerate() {
            rules::scalar_tensor("concat", &format!("operand {}", i + 1), x)?;
            rules::one_dtype("concat", first, x)?;
            let others = |t: &Type| {
                let mut dims = t.shape.0.clone();
                (self.axis < dims.len()).then(|| dims.remove(self.axis)).map(|_| dims)
            };
            if others(first) != others(x) {
                return Err(Error::bad_graph(format!(
                    "concat: operand {} is {x}, expected the sizes of {first} but on axis {}",
                    i + 1,
                    self.axis
                )));
            }
            shape.0[self.axis] = shape.0[self.axis].add(&x.shape.0[self.axis])?;
        }
        Ok(vec![Type::tensor(first.dtype, shape)])
    }

    /// More than a few, for targets whose kernels bind so many tensors and no more.
    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        if operands.len() <= FEW {
            return Ok(None);
        }
        let mut runs = Vec::with_capacity(operands.len().div_ceil(FEW));
        for run in operands.chunks(FEW) {
            runs.push(match run {
                &[one] => one,
                _ => e.one(self.clone(), run)?,
            });
        }
        Ok(Some(vec![e.one(self.clone(), &runs)?]))
    }

    fn alias(&self, operands: &[&Type]) -> Alias {
        match operands {
            [_] => Alias::View { operand: 0, byte_offset: 0 },
            _ => Alias::None,
        }
    }
}
