//! Fake quantisation with a step size that training learns (LSQ, arXiv:1902.08153).

use super::fake_quantize::levels;
use super::quantize::along;
use super::{Attrs, Class, Operator, arity, expect, float_tensor};
use crate::error::Result;
use crate::types::Type;
use alloc::vec;
use alloc::vec::Vec;

/// `fake_quantize_lsq x, scale -> x's type`: `round(clamp(x / scale, -n, n - 1)) * scale` with
/// `n = 2^(bits - 1)`, ties to even; a scale of 0 gives 0. The scale is `[]`, or `[C]` along `axis`.
#[derive(Clone, Debug, PartialEq)]
pub struct FakeQuantizeLsq {
    /// 8, 4 or 2.
    pub bits: u64,
    /// The axis that has scales of its own; `None` for one scale.
    pub axis: Option<usize>,
}

impl Operator for FakeQuantizeLsq {
    const NAME: &'static str = "fake_quantize_lsq";
    const CLASS: Class = Class::Elementwise;

    fn attrs(&self) -> Attrs {
        let attrs = Attrs::none().int("bits", self.bits);
        match self.axis {
            Some(axis) => attrs.int("axis", axis as u64),
            None => attrs,
        }
    }

    fn from_attrs(attrs: &Attrs) -> Result<Self> {
        attrs.only(&["bits", "axis"])?;
        let axis = attrs.opt_int("axis")?.map(|n| n as usize);
        Ok(FakeQuantizeLsq { bits: attrs.get_int("bits")?, axis })
    }

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("fake_quantize_lsq", operands, 2)?;
        let x = operands[0];
        float_tensor("fake_quantize_lsq", "x", x)?;
        levels("fake_quantize_lsq", self.bits)?;
        let need = Type::tensor(x.dtype, along("fake_quantize_lsq", x, self.axis)?);
        expect("fake_quantize_lsq", "scale", operands[1], &need)?;
        Ok(vec![x.clone()])
    }
}
