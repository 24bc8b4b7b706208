//! A residual sum whose branch has a gate.

use super::def::broadcast::repeats;
use super::{Alias, Class, Emit, Operator, arity, attributes, expect, float_tensor};
use crate::error::Result;
use crate::types::{Type, ValueId};
use alloc::vec;
use alloc::vec::Vec;

/// `gated_residual x, y, gate -> x + gate * y`: x and y of one type, gate repeats to it (NumPy).
#[derive(Clone, Debug, PartialEq, Default)]
pub struct GatedResidual;

attributes! { GatedResidual {} }

impl Operator for GatedResidual {
    const NAME: &'static str = "gated_residual";
    const CLASS: Class = Class::Elementwise;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("gated_residual", operands, 3)?;
        let x = operands[0];
        float_tensor("gated_residual", "x", x)?;
        expect("gated_residual", "y", operands[1], x)?;
        repeats("gated_residual", "gate", operands[2], x)?;
        Ok(vec![x.clone()])
    }

    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let &[x, y, gate] = operands else { return Ok(None) };
        let dtype = e.ty(x).dtype;
        let (x, y, gate) = (e.wide(x)?, e.wide(y)?, e.wide(gate)?);
        let y = e.mul(y, gate)?;
        let sum = e.add(x, y)?;
        Ok(Some(vec![e.cast(sum, dtype)?]))
    }

    fn alias(&self, _: &[&Type]) -> Alias {
        Alias::Elementwise { operand: 0 }
    }
}
