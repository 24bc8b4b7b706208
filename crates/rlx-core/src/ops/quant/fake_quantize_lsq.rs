//! Fake quantisation with a step size that training learns (LSQ, arXiv:1902.08153).

use super::fake_quantize::{levels, stepped};
use super::quantize::{along, spread};
use crate::error::Result;
use crate::ops::{Clamp, Class, Emit, Operator, Unary, arity, attributes, expect, float_tensor};
use crate::types::{Type, ValueId};
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

attributes! { FakeQuantizeLsq { bits, axis } }

impl Operator for FakeQuantizeLsq {
    const NAME: &'static str = "fake_quantize_lsq";
    const CLASS: Class = Class::Elementwise;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("fake_quantize_lsq", operands, 2)?;
        let x = operands[0];
        float_tensor("fake_quantize_lsq", "x", x)?;
        levels("fake_quantize_lsq", self.bits)?;
        let need = Type::tensor(x.dtype, along("fake_quantize_lsq", x, self.axis)?);
        expect("fake_quantize_lsq", "scale", operands[1], &need)?;
        Ok(vec![x.clone()])
    }

    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let &[x, scale] = operands else { return Ok(None) };
        let (dtype, rank, n) = (e.ty(x).dtype, e.dims(x).len(), levels(Self::NAME, self.bits)?);
        let (x, scale) = (e.wide(x)?, e.wide(scale)?);
        let scale = spread(e, scale, self.axis, rank)?;
        let y = stepped(e, x, scale, |e, y| {
            let y = e.one(Clamp { min: -n as f32, max: n as f32 - 1.0 }, &[y])?;
            e.map(Unary::Round, y)
        })?;
        Ok(Some(vec![e.cast(y, dtype)?]))
    }
}
