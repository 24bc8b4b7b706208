//! Layer norm over the channels of images (ConvNeXt, SAM).

use crate::error::Result;
use crate::ops::def::rules::floats;
use crate::ops::{Class, Emit, Operator, arity, attributes, rules};
use crate::types::{Type, ValueId};
use alloc::vec;
use alloc::vec::Vec;

/// `layer_norm_2d x [N, C, ..], scale [C], bias [C] -> [N, C, ..]`: mean and biased variance over
/// C, for each item and place.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerNorm2d {
    /// Added to the variance.
    pub eps: f32,
}

attributes! { LayerNorm2d { eps } }

impl Operator for LayerNorm2d {
    const NAME: &'static str = "layer_norm_2d";
    const CLASS: Class = Class::Reduction;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("layer_norm_2d", operands, 3)?;
        let x = operands[0];
        floats("layer_norm_2d", x, 2)?;
        for (name, v) in ["scale", "bias"].iter().zip(&operands[1..]) {
            rules::vector("layer_norm_2d", name, v, &x.shape.0[1], x.dtype)?;
        }
        Ok(vec![x.clone()])
    }

    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let &[x, scale, bias] = operands else { return Ok(None) };
        let dtype = e.ty(x).dtype;
        let y = e.normalise(x, &[1], self.eps, true)?;
        let y = e.affine(y, 1, scale, Some(bias))?;
        Ok(Some(vec![e.cast(y, dtype)?]))
    }
}
