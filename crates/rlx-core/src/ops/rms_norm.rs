//! Root-mean-square norm (arXiv:1910.07467): `y = x * w / sqrt(mean(x^2) + eps)`.

use super::{Attrs, Class, Operator, arity, expect, matrix};
use crate::error::Result;
use crate::types::{DType, Shape, Type};
use alloc::vec;
use alloc::vec::Vec;

/// `rms_norm x [R, D] f32, w [D] f32 -> [R, D] f32`.
#[derive(Clone, Debug, PartialEq)]
pub struct RmsNorm {
    /// Added to the mean square.
    pub eps: f32,
}

impl Operator for RmsNorm {
    const NAME: &'static str = "rms_norm";
    const CLASS: Class = Class::Reduction;

    fn attrs(&self) -> Attrs {
        Attrs::none().float("eps", self.eps)
    }

    fn from_attrs(attrs: &Attrs) -> Result<Self> {
        attrs.only(&["eps"])?;
        Ok(RmsNorm { eps: attrs.get_float("eps")? })
    }

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("rms_norm", operands, 2)?;
        let (rows, width) = matrix("rms_norm", "x", operands[0])?;
        let x = Type::tensor(DType::F32, Shape(vec![rows, width.clone()]));
        expect("rms_norm", "x", operands[0], &x)?;
        let w = Type::tensor(DType::F32, Shape(vec![width]));
        expect("rms_norm", "w", operands[1], &w)?;
        Ok(vec![x])
    }
}
