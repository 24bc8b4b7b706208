//! A root-mean-square norm of a branch, and the sum that it joins.

use super::{
    Binary, Class, Emit, Operator, RmsNorm, RowUse, Zip, arity, attributes, expect, float_tensor,
};
use crate::error::{Error, Result};
use crate::types::{Type, ValueId};
use alloc::vec;
use alloc::vec::Vec;

/// `rms_norm_add x [.., D], w [D], residual [.., D] -> [.., D]`: `residual + rms_norm(x, w)`, the norm
/// rounded before the sum, as a step of its own rounds it.
#[derive(Clone, Debug, PartialEq)]
pub struct RmsNormAdd {
    /// Added to the mean square.
    pub eps: f32,
}

attributes! { RmsNormAdd { eps } }

impl Operator for RmsNormAdd {
    const NAME: &'static str = "rms_norm_add";
    const CLASS: Class = Class::Reduction;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity(Self::NAME, operands, 3)?;
        let [x, w, residual] = operands else {
            return Err(Error::internal("rms_norm_add: arity was checked"));
        };
        float_tensor(Self::NAME, "x", x)?;
        expect(Self::NAME, "residual", residual, x)?;
        RmsNorm { eps: self.eps }.infer(&[x, w])
    }

    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let [x, w, residual] = *operands else {
            return Err(Error::internal("rms_norm_add: arity"));
        };
        let normed = e.one(RmsNorm { eps: self.eps }, &[x, w])?;
        Ok(Some(vec![e.one(Zip { f: Binary::Add }, &[residual, normed])?]))
    }

    fn row_use(&self, operand: usize, _: &[&Type]) -> RowUse {
        if operand == 1 { RowUse::All } else { RowUse::Same }
    }
}
