//! A root-mean-square norm times a function of a gate.

use super::{
    Binary, Class, Emit, Operator, RmsNorm, RowUse, Unary, arity, attributes, expect, float_tensor,
    rules,
};
use crate::error::{Error, Result};
use crate::types::{Type, ValueId};
use alloc::vec;
use alloc::vec::Vec;

/// `gated_rms_norm x [.., D], w [D], gate [.., D] -> [.., D]`: `act(gate) x w / sqrt(mean(x^2) + eps)`. `x`
/// and `gate` are of one float type, the result's; `w` of that or of f32.
#[derive(Clone, Debug, PartialEq)]
pub struct GatedRmsNorm {
    /// Added to the mean square.
    pub eps: f32,
    /// The gate's function.
    pub act: Unary,
}

attributes! { GatedRmsNorm { eps, act } }

impl Operator for GatedRmsNorm {
    const NAME: &'static str = "gated_rms_norm";
    const CLASS: Class = Class::Reduction;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        const NAME: &str = GatedRmsNorm::NAME;
        arity(NAME, operands, 3)?;
        let [x, w, gate] = operands else { return Err(Error::internal("gated_rms_norm: arity")) };
        float_tensor(NAME, "x", x)?;
        if x.shape.rank() == 0 {
            return Err(rules::misfit(NAME, &[("x", x)], "at least one axis"));
        }
        rules::vector(NAME, "w", w, &x.shape.last(), x.dtype)?;
        expect(NAME, "gate", gate, x)?;
        Ok(vec![(*x).clone()])
    }

    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let [x, w, gate] = *operands else { return Err(Error::internal("gated_rms_norm: arity")) };
        let dtype = e.ty(x).dtype;
        let (x, gate) = (e.wide(x)?, e.wide(gate)?);
        let w = e.cast(w, e.ty(x).dtype)?;
        let normed = e.one(RmsNorm { eps: self.eps }, &[x, w])?;
        let gate = e.map(self.act, gate)?;
        let y = e.zip(Binary::Mul, normed, gate)?;
        Ok(Some(vec![e.cast(y, dtype)?]))
    }

    fn row_use(&self, operand: usize, _: &[&Type]) -> RowUse {
        if operand == 1 { RowUse::All } else { RowUse::Same }
    }
}
