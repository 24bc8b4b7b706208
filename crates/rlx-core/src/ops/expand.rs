//! Elements repeated to a larger shape.

use super::{Alias, Class, Operator, arity, attributes, broadcast, rules};
use crate::error::{Error, Result};
use crate::types::{Binding, Dim, Shape, Type};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// `expand x -> dims`: axes of size 1, and axes that `x` has not, repeat [NumPy broadcasting]. Any
/// scalar type. Where nothing repeats it is a view.
#[derive(Clone, Debug, PartialEq)]
pub struct Expand {
    /// The sizes of the result.
    pub dims: Shape,
}

attributes! { Expand { dims } }

impl Operator for Expand {
    const NAME: &'static str = "expand";
    const CLASS: Class = Class::Movement;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("expand", operands, 1)?;
        let x = operands[0];
        rules::scalar_tensor("expand", "x", x)?;
        let to = Type::tensor(x.dtype, self.dims.clone());
        // One way only: the result may not be larger than what was asked for.
        if broadcast::shape("expand", &[x, &to]).ok().as_ref() != Some(&self.dims) {
            return Err(Error::bad_graph(format!("expand: x is {x}, it does not repeat to {to}")));
        }
        Ok(vec![to])
    }

    fn alias(&self, operands: &[&Type]) -> Alias {
        let [x] = operands else { return Alias::None };
        let new = self.dims.rank().saturating_sub(x.shape.rank());
        let (one, (ahead, rest)) = (Dim::from(1u64), self.dims.0.split_at(new));
        if ahead.iter().all(|d| *d == one) && rest == x.shape.0 {
            return Alias::View { operand: 0, byte_offset: 0 };
        }
        Alias::None
    }

    fn bind(&mut self, binding: &Binding) -> Result<()> {
        self.dims = self.dims.bind(binding)?;
        Ok(())
    }
}
