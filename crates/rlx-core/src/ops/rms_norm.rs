//! Root-mean-square norm (arXiv:1910.07467): `y = x * w / sqrt(mean(x^2) + eps)`.

use super::{Attrs, Class, Operator, arity, fit, float_tensor};
use crate::error::{Error, Result};
use crate::types::Type;
use alloc::vec;
use alloc::vec::Vec;

/// `rms_norm x [.., D], w [D] -> [.., D]`: `x` is of any float type, the result's; `w` of that or
/// of f32.
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
        let [x, w] = operands else { return Err(Error::internal("rms_norm: arity")) };
        float_tensor("rms_norm", "x", x)?;
        if x.shape.rank() == 0 {
            return Err(fit::misfit("rms_norm", &[("x", x)], "at least one axis"));
        }
        fit::vector("rms_norm", "w", w, &x.shape.last(), x.dtype)?;
        Ok(vec![(*x).clone()])
    }
}
