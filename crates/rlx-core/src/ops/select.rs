//! One of two tensors, element by element.

use super::{Alias, Class, Operator, RowUse, arity, attributes, broadcast, rules};
use crate::error::{Error, Result};
use crate::types::{DType, Type};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// `select cond bool, a, b -> y`: `y[i] = cond[i] ? a[i] : b[i]`; `a` and `b` have one scalar type,
/// the three shapes repeat to one [NumPy broadcasting]. ONNX `Where`.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Select;

attributes! { Select {} }

impl Operator for Select {
    const NAME: &'static str = "select";
    const CLASS: Class = Class::Elementwise;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("select", operands, 3)?;
        let (cond, a, b) = (operands[0], operands[1], operands[2]);
        rules::scalar_tensor("select", "cond", cond)?;
        rules::scalar_tensor("select", "a", a)?;
        rules::scalar_tensor("select", "b", b)?;
        if cond.dtype != DType::BOOL {
            return Err(Error::bad_graph(format!("select: cond is {cond}, expected bool")));
        }
        rules::one_dtype("select", a, b)?;
        Ok(vec![Type::tensor(a.dtype, broadcast::shape("select", operands)?)])
    }

    fn alias(&self, operands: &[&Type]) -> Alias {
        match operands {
            [_, a, _] => broadcast::in_place("select", 1, operands, a.dtype),
            _ => Alias::None,
        }
    }

    /// Rows of an operand that is repeated serve every token.
    fn row_use(&self, operand: usize, operands: &[&Type]) -> RowUse {
        broadcast::same_rows(self, operand, operands)
    }
}
