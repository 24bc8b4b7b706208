//! Root-mean-square norm (arXiv:1910.07467): `y = x * w / sqrt(mean(x^2) + eps)`.

use super::{
    Binary, Class, Emit, Operator, Reduction, RowUse, Unary, arity, attributes, float_tensor,
    rules, writing,
};
use crate::error::{Error, Result};
use crate::types::{DType, Type, ValueId};
use alloc::vec;
use alloc::vec::Vec;

/// `rms_norm x [.., D], w [D] -> [.., D]`: `x` is of any float type, the result's; `w` of that or
/// of f32.
#[derive(Clone, Debug, PartialEq)]
pub struct RmsNorm {
    /// Added to the mean square.
    pub eps: f32,
}

attributes! { RmsNorm { eps } }

impl Operator for RmsNorm {
    const NAME: &'static str = "rms_norm";
    const CLASS: Class = Class::Reduction;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("rms_norm", operands, 2)?;
        let [x, w] = operands else { return Err(Error::internal("rms_norm: arity")) };
        float_tensor("rms_norm", "x", x)?;
        if x.shape.rank() == 0 {
            return Err(rules::misfit("rms_norm", &[("x", x)], "at least one axis"));
        }
        rules::vector("rms_norm", "w", w, &x.shape.last(), x.dtype)?;
        Ok(vec![(*x).clone()])
    }

    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let [x, w] = *operands else { return Err(Error::internal("rms_norm: arity")) };
        let (ty, norm) = (e.ty(x).clone(), self.clone());
        // First what targets' kernels take, one step at a time: a matrix, then f32.
        if ty.shape.rank() != 2 {
            let rows = e.reshape(x, &[ty.shape.rows()?, ty.shape.last()])?;
            let y = e.one(norm, &[rows, w])?;
            return Ok(Some(vec![e.reshape(y, &ty.shape.0)?]));
        }
        if writing::is_half(ty.dtype) {
            let (x, w) = (e.cast(x, DType::F32)?, e.cast(w, DType::F32)?);
            let y = e.one(norm, &[x, w])?;
            return Ok(Some(vec![e.cast(y, ty.dtype)?]));
        }
        let w = e.cast(w, ty.dtype)?;
        let squares = e.zip(Binary::Mul, x, x)?;
        let mean = e.reduce_last(Reduction::Mean, squares)?;
        let shifted = e.zip_number(Binary::Add, mean, self.eps.into())?;
        let inverse = e.map(Unary::Rsqrt, shifted)?;
        let y = e.zip(Binary::Mul, x, inverse)?;
        Ok(Some(vec![e.zip(Binary::Mul, y, w)?]))
    }

    fn row_use(&self, operand: usize, _: &[&Type]) -> RowUse {
        if operand == 0 { RowUse::Same } else { RowUse::All }
    }
}
