//! A residual sum and its root-mean-square norm.

use super::def::rules::floats;
use super::residual_layer_norm::residual_sum;
use super::{Class, Emit, Operator, RmsNorm, RowUse, arity, attributes, expect, rules};
use crate::error::Result;
use crate::types::{Type, ValueId};
use alloc::vec;
use alloc::vec::Vec;

/// `residual_rms_norm x [.., D], residual [.., D], (bias [D]), scale [D] -> sum, y`.
///
/// `sum = x + residual + bias`, stored, and `y = sum / sqrt(mean(sum^2) + eps) * scale`: the bits
/// of separate operators, but for a bias, which joins before the one rounding of the sum.
#[derive(Clone, Debug, PartialEq)]
pub struct ResidualRmsNorm {
    /// Added to the mean square.
    pub eps: f32,
    /// Whether a bias joins the sum.
    pub bias: bool,
}

attributes! { ResidualRmsNorm { eps, bias } }

impl Operator for ResidualRmsNorm {
    const NAME: &'static str = "residual_rms_norm";
    const CLASS: Class = Class::Reduction;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("residual_rms_norm", operands, 3 + usize::from(self.bias))?;
        let x = operands[0];
        floats("residual_rms_norm", x, 1)?;
        expect("residual_rms_norm", "residual", operands[1], x)?;
        let names: &[&str] = if self.bias { &["bias", "scale"] } else { &["scale"] };
        for (name, v) in names.iter().zip(&operands[2..]) {
            rules::vector("residual_rms_norm", name, v, &x.shape.last(), x.dtype)?;
        }
        Ok(vec![x.clone(), x.clone()])
    }

    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let (residual, norm) = operands.split_at((2 + usize::from(self.bias)).min(operands.len()));
        let sum = residual_sum(e, residual)?;
        let norm: Vec<ValueId> = [sum].iter().chain(norm).copied().collect();
        Ok(Some(vec![sum, e.one(RmsNorm { eps: self.eps }, &norm)?]))
    }

    fn row_use(&self, operand: usize, _: &[&Type]) -> RowUse {
        if operand < 2 { RowUse::Same } else { RowUse::All }
    }
}
