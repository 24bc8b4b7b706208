//! Batch norm with stored statistics (arXiv:1502.03167) [ONNX BatchNormalization, inference].

use crate::error::{Error, Result};
use crate::ops::def::rules::floats;
use crate::ops::{Binary, Class, Emit, Operator, Unary, arity, attributes, rules};
use crate::types::{Type, ValueId};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// `batch_norm_inference x, scale [C], bias [C], mean [C], var [C] -> x's type`:
/// `(x - mean) / sqrt(var + eps) * scale + bias` along `axis`.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchNormInference {
    /// The axis of channels: 1 in NCHW.
    pub axis: usize,
    /// Added to the variance.
    pub eps: f32,
}

attributes! { BatchNormInference { axis, eps } }

impl Operator for BatchNormInference {
    const NAME: &'static str = "batch_norm_inference";
    const CLASS: Class = Class::Elementwise;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("batch_norm_inference", operands, 5)?;
        let x = operands[0];
        floats("batch_norm_inference", x, 1)?;
        let Some(channels) = x.shape.0.get(self.axis) else {
            return Err(Error::bad_graph(format!(
                "batch_norm_inference: x is {x}, it has no axis {}",
                self.axis
            )));
        };
        for (name, v) in ["scale", "bias", "mean", "var"].iter().zip(&operands[1..]) {
            rules::vector("batch_norm_inference", name, v, channels, x.dtype)?;
        }
        Ok(vec![x.clone()])
    }

    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let &[x, scale, bias, mean, var] = operands else { return Ok(None) };
        let (dtype, rank) = (e.ty(x).dtype, e.dims(x).len());
        let x = e.wide(x)?;
        let wide = e.ty(x).dtype;
        let (mean, var) = (e.cast(mean, wide)?, e.cast(var, wide)?);
        let var = e.zip_number(Binary::Add, var, f64::from(self.eps))?;
        let inverse = e.map(Unary::Rsqrt, var)?;
        let (mean, inverse) = (e.along(mean, self.axis, rank)?, e.along(inverse, self.axis, rank)?);
        let y = e.sub(x, mean)?;
        let y = e.mul(y, inverse)?;
        let y = e.affine(y, self.axis, scale, Some(bias))?;
        Ok(Some(vec![e.cast(y, dtype)?]))
    }

    fn alias(&self, _: &[&Type]) -> crate::ops::Alias {
        crate::ops::Alias::Elementwise { operand: 0 }
    }
}
