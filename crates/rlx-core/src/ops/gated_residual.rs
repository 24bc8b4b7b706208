//! A residual sum whose branch has a gate.

use super::norms::repeats;
use super::{Alias, Attrs, Class, Operator, arity, expect, float_tensor};
use crate::error::Result;
use crate::types::Type;
use alloc::vec;
use alloc::vec::Vec;

/// `gated_residual x, y, gate -> x + gate * y`: x and y of one type, gate repeats to it (NumPy).
#[derive(Clone, Debug, PartialEq, Default)]
pub struct GatedResidual;

impl Operator for GatedResidual {
    const NAME: &'static str = "gated_residual";
    const CLASS: Class = Class::Elementwise;

    fn from_attrs(attrs: &Attrs) -> Result<Self> {
        attrs.only(&[])?;
        Ok(GatedResidual)
    }

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("gated_residual", operands, 3)?;
        let x = operands[0];
        float_tensor("gated_residual", "x", x)?;
        expect("gated_residual", "y", operands[1], x)?;
        repeats("gated_residual", "gate", operands[2], x)?;
        Ok(vec![x.clone()])
    }

    fn alias(&self, _: &[&Type]) -> Alias {
        Alias::Elementwise { operand: 0 }
    }
}
