//! Layer norm over the last axis (arXiv:1607.06450) [ONNX LayerNormalization].

use super::def::rules::floats;
use super::{Class, Emit, Operator, RowUse, arity, attributes, rules};
use crate::error::Result;
use crate::types::{Type, ValueId};
use alloc::vec;
use alloc::vec::Vec;

/// `layer_norm x [.., D], scale [D], (bias [D]) -> [.., D]`: floats; weights may be f32 with any x.
///
/// `y = (x - mean) / sqrt(var + eps) * scale + bias` with the mean and the biased variance of each
/// row.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerNorm {
    /// Added to the variance.
    pub eps: f32,
    /// Whether there is a bias.
    pub bias: bool,
}

attributes! { LayerNorm { eps, bias } }

impl Operator for LayerNorm {
    const NAME: &'static str = "layer_norm";
    const CLASS: Class = Class::Reduction;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("layer_norm", operands, 2 + usize::from(self.bias))?;
        let x = operands[0];
        floats("layer_norm", x, 1)?;
        for (name, v) in ["scale", "bias"].iter().zip(&operands[1..]) {
            rules::vector("layer_norm", name, v, &x.shape.last(), x.dtype)?;
        }
        Ok(vec![x.clone()])
    }

    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let [x, scale, bias @ ..] = operands else { return Ok(None) };
        let (dtype, last) = (e.ty(*x).dtype, e.dims(*x).len() - 1);
        let y = e.normalise(*x, &[last], self.eps, true)?;
        let y = e.affine(y, last, *scale, bias.first().copied())?;
        Ok(Some(vec![e.cast(y, dtype)?]))
    }

    fn row_use(&self, operand: usize, _: &[&Type]) -> RowUse {
        if operand == 0 { RowUse::Same } else { RowUse::All }
    }
}
