//! A test of two tensors, element by element.

use super::{Alias, Class, Comparison, Operator, RowUse, arity, attributes, broadcast, rules};
use crate::error::{Error, Result};
use crate::types::{DType, Scalar, Type};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// `compare a, b -> bool`: `y[i] = a[i] f b[i]` of one element type, any scalar but `c64`; shapes
/// repeat to one [NumPy broadcasting]. Only `ne` holds for a NaN.
#[derive(Clone, Debug, PartialEq)]
pub struct Compare {
    /// The test.
    pub f: Comparison,
}

attributes! { Compare { f } }

impl Operator for Compare {
    const NAME: &'static str = "compare";
    const CLASS: Class = Class::Elementwise;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("compare", operands, 2)?;
        let (a, b) = (operands[0], operands[1]);
        rules::scalar_tensor("compare", "a", a)?;
        rules::scalar_tensor("compare", "b", b)?;
        rules::one_dtype("compare", a, b)?;
        if a.dtype == DType::Scalar(Scalar::C64) {
            return Err(Error::bad_graph(format!("compare: a is {a}, c64 has no order")));
        }
        Ok(vec![Type::tensor(DType::BOOL, broadcast::shape("compare", operands)?)])
    }

    fn alias(&self, operands: &[&Type]) -> Alias {
        broadcast::in_place("compare", 0, operands, DType::BOOL)
    }

    /// Rows of an operand that is repeated serve every token.
    fn row_use(&self, operand: usize, operands: &[&Type]) -> RowUse {
        broadcast::same_rows(self, operand, operands)
    }
}
