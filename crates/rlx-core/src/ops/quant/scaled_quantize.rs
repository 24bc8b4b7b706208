//! Floats to small floats with scales (OCP MX, NVFP4, FP8 with f32 scales).

use super::scaling::{CODES, Scaling};
use crate::error::Result;
use crate::ops::{Class, Operator, arity, attributes, float_tensor};
use crate::types::Type;
use alloc::vec;
use alloc::vec::Vec;

/// `scaled_quantize x float -> codes u8, scales`: `codes = encode(x / scale)`, ties to even, what is
/// too large saturates. A code takes a byte, whatever its bits.
///
/// A scale brings the largest magnitude of those who share it to the format's largest value, see
/// [`ScaleLayout`](crate::ops::ScaleLayout); where all are 0 it is 1 (f32), the smallest (E8M0) or 0
/// (f8e4m3). It is a primitive: nothing else rounds to small floats.
#[derive(Clone, Debug, PartialEq)]
pub struct ScaledQuantize {
    /// Format and scales.
    pub scaling: Scaling,
}

attributes! { ScaledQuantize { scaling } }

impl Operator for ScaledQuantize {
    const NAME: &'static str = "scaled_quantize";
    const CLASS: Class = Class::Elementwise;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("scaled_quantize", operands, 1)?;
        let x = operands[0];
        float_tensor("scaled_quantize", "x", x)?;
        let scales = self.scaling.scales("scaled_quantize", x)?;
        Ok(vec![Type::tensor(CODES, x.shape.clone()), scales])
    }
}
