//! Tensors one after another.

use super::{Alias, Attrs, Class, Operator, rules};
use crate::error::{Error, Result};
use crate::types::Type;
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

impl Operator for Concat {
    const NAME: &'static str = "concat";
    const CLASS: Class = Class::Movement;

    fn attrs(&self) -> Attrs {
        Attrs::none().axis("axis", self.axis)
    }

    fn from_attrs(attrs: &Attrs) -> Result<Self> {
        attrs.only(&["axis"])?;
        Ok(Concat { axis: attrs.get_axis("axis")? })
    }

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

    fn alias(&self, operands: &[&Type]) -> Alias {
        match operands {
            [_] => Alias::View { operand: 0, byte_offset: 0 },
            _ => Alias::None,
        }
    }
}
