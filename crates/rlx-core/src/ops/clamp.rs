//! Numbers between two bounds.

use super::{Alias, Binary, Class, Emit, Operator, RowUse, arity, attributes, float_tensor};
use crate::error::{Error, Result};
use crate::types::{Type, ValueId};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// `clamp x -> x`: `min(max(x, min), max)` of floats; a NaN becomes `min`. ONNX `Clip`.
#[derive(Clone, Debug, PartialEq)]
pub struct Clamp {
    /// The lower bound.
    pub min: f32,
    /// The upper bound, no less than the lower one.
    pub max: f32,
}

attributes! { Clamp { min, max } }

impl Operator for Clamp {
    const NAME: &'static str = "clamp";
    const CLASS: Class = Class::Elementwise;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("clamp", operands, 1)?;
        float_tensor("clamp", "x", operands[0])?;
        if self.min.is_nan() || self.max.is_nan() || self.min > self.max {
            return Err(Error::bad_graph(format!(
                "clamp: bounds are {} and {}, expected a lower and an upper one",
                self.min, self.max
            )));
        }
        Ok(vec![operands[0].clone()])
    }

    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let &[x] = operands else { return Err(Error::internal("clamp: arity was checked")) };
        let low = e.zip_number(Binary::Max, x, self.min.into())?;
        Ok(Some(vec![e.zip_number(Binary::Min, low, self.max.into())?]))
    }

    fn alias(&self, _: &[&Type]) -> Alias {
        Alias::Elementwise { operand: 0 }
    }

    fn row_use(&self, _: usize, _: &[&Type]) -> RowUse {
        RowUse::Same
    }
}
