//! A scalar function of two tensors, element by element.

use super::{Alias, Binary, Class, Operator, RowUse, arity, attributes, broadcast, rules};
use crate::error::{Error, Result};
use crate::types::Type;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// `zip a, b -> y`: `y[i] = f(a[i], b[i])` of one element type, floats or integers; shapes repeat to
/// one [NumPy broadcasting]. Integers wrap; dividing them by 0 is an error of the reference and a
/// value nobody may read elsewhere. Integers have no `pow`.
#[derive(Clone, Debug, PartialEq)]
pub struct Zip {
    /// The function.
    pub f: Binary,
}

attributes! { Zip { f } }

impl Operator for Zip {
    const NAME: &'static str = "zip";
    const CLASS: Class = Class::Elementwise;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("zip", operands, 2)?;
        let (a, b) = (operands[0], operands[1]);
        rules::number_tensor("zip", "a", a)?;
        rules::number_tensor("zip", "b", b)?;
        rules::one_dtype("zip", a, b)?;
        if self.f == Binary::Pow && !a.dtype.is_float() {
            return Err(Error::bad_graph(format!("zip: a is {a}, pow is of floats")));
        }
        Ok(vec![Type::tensor(a.dtype, broadcast::shape("zip", operands)?)])
    }

    fn alias(&self, operands: &[&Type]) -> Alias {
        match operands {
            [a, _] => broadcast::in_place("zip", 0, operands, a.dtype),
            _ => Alias::None,
        }
    }

    /// Rows of an operand that is repeated serve every token.
    fn row_use(&self, operand: usize, operands: &[&Type]) -> RowUse {
        broadcast::same_rows(self, operand, operands)
    }
}
