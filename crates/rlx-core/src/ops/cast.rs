//! The same numbers in another element type.

use super::{Alias, Class, Operator, RowUse, arity, attributes, broadcast, rules};
use crate::error::{Error, Result};
use crate::types::{DType, Scalar, Type};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// `cast x -> to`, the same shape, any scalar type to any other.
///
/// | from, to | becomes |
/// | --- | --- |
/// | float or integer to float | the nearest, halves to even; rounded once |
/// | float to integer | cut off towards 0; what is too large saturates; NaN is 0 |
/// | integer to integer | its low bits: it wraps |
/// | to bool | false for 0, true for all else, NaN included |
/// | bool to number | 0 or 1 |
/// | `c64` to float, float to `c64` | the real part; an imaginary part of 0 |
#[derive(Clone, Debug, PartialEq)]
pub struct Cast {
    /// The element type of the result.
    pub to: DType,
}

attributes! { Cast { to } }

impl Operator for Cast {
    const NAME: &'static str = "cast";
    const CLASS: Class = Class::Movement;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("cast", operands, 1)?;
        let x = operands[0];
        rules::scalar_tensor("cast", "x", x)?;
        let complex = DType::Scalar(Scalar::C64);
        let fits = |one: DType, other: DType| one != complex || other == one || other.is_float();
        if self.to.is_block() || !fits(x.dtype, self.to) || !fits(self.to, x.dtype) {
            return Err(Error::bad_graph(format!("cast: x is {x}, it has no form in {}", self.to)));
        }
        Ok(vec![Type::tensor(self.to, x.shape.clone())])
    }

    fn alias(&self, operands: &[&Type]) -> Alias {
        match operands {
            [x] if x.dtype == self.to => Alias::View { operand: 0, byte_offset: 0 },
            _ => broadcast::in_place("cast", 0, operands, self.to),
        }
    }

    fn row_use(&self, _: usize, _: &[&Type]) -> RowUse {
        RowUse::Same
    }
}
