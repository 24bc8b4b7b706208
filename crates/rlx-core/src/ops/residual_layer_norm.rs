//! A residual sum and its layer norm.

use super::def::rules::floats;
use super::{Class, Emit, LayerNorm, Operator, RowUse, arity, attributes, expect, rules};
use crate::error::{Error, Result};
use crate::types::{Type, ValueId};
use alloc::vec;
use alloc::vec::Vec;

/// `residual_layer_norm x [.., D], residual [.., D], (bias [D]), scale [D], (shift [D]) -> sum, y`.
///
/// `sum = x + residual + bias`, stored, and `y = layer_norm(sum) * scale + shift`: the bits of
/// separate operators.
#[derive(Clone, Debug, PartialEq)]
pub struct ResidualLayerNorm {
    /// Added to the variance.
    pub eps: f32,
    /// Whether a bias joins the sum.
    pub bias: bool,
    /// Whether the norm has a shift (the bias of `layer_norm`).
    pub shift: bool,
}

attributes! { ResidualLayerNorm { eps, bias, shift } }

impl Operator for ResidualLayerNorm {
    const NAME: &'static str = "residual_layer_norm";
    const CLASS: Class = Class::Reduction;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        let n = 3 + usize::from(self.bias) + usize::from(self.shift);
        arity("residual_layer_norm", operands, n)?;
        let x = operands[0];
        floats("residual_layer_norm", x, 1)?;
        expect("residual_layer_norm", "residual", operands[1], x)?;
        let names: &[&str] =
            if self.bias { &["bias", "scale", "shift"] } else { &["scale", "shift"] };
        for (name, v) in names.iter().zip(&operands[2..]) {
            rules::vector("residual_layer_norm", name, v, &x.shape.last(), x.dtype)?;
        }
        Ok(vec![x.clone(), x.clone()])
    }

    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let (residual, norm) = operands.split_at((2 + usize::from(self.bias)).min(operands.len()));
        let sum = residual_sum(e, residual)?;
        let norm: Vec<ValueId> = [sum].iter().chain(norm).copied().collect();
        Ok(Some(vec![sum, e.one(LayerNorm { eps: self.eps, bias: self.shift }, &norm)?]))
    }

    fn row_use(&self, operand: usize, _: &[&Type]) -> RowUse {
        if operand < 2 { RowUse::Same } else { RowUse::All }
    }
}

/// `x + residual`, or `x + residual + bias`, rounded once as far as f32 can.
pub(super) fn residual_sum(e: &mut dyn Emit, operands: &[ValueId]) -> Result<ValueId> {
    let [x, residual, bias @ ..] = operands else {
        return Err(Error::internal("a residual sum of less than two"));
    };
    let dtype = e.ty(*x).dtype;
    let (x, residual) = (e.wide(*x)?, e.wide(*residual)?);
    let mut sum = e.add(x, residual)?;
    if let Some(bias) = bias.first() {
        let wide = e.ty(sum).dtype;
        let bias = e.cast(*bias, wide)?;
        sum = e.add(sum, bias)?;
    }
    e.cast(sum, dtype)
}
