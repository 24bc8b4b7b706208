//! Small floats with scales to floats.

use super::scaled_quantize::ATTRS;
use super::scaling::Scaling;
use super::{Attrs, Class, Operator, arity};
use crate::error::Result;
use crate::types::{DType, Type};
use alloc::vec;
use alloc::vec::Vec;

/// `scaled_dequantize codes u8, scales -> f32`, the shape of codes: `decode(code) * scale`.
#[derive(Clone, Debug, PartialEq)]
pub struct ScaledDequantize {
    /// Format and scales.
    pub scaling: Scaling,
}

impl Operator for ScaledDequantize {
    const NAME: &'static str = "scaled_dequantize";
    const CLASS: Class = Class::Elementwise;

    fn attrs(&self) -> Attrs {
        self.scaling.write(Attrs::none(), "")
    }

    fn from_attrs(attrs: &Attrs) -> Result<Self> {
        attrs.only(&ATTRS)?;
        Ok(ScaledDequantize { scaling: Scaling::read(attrs, "")? })
    }

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("scaled_dequantize", operands, 2)?;
        let codes = operands[0];
        self.scaling.check("scaled_dequantize", "codes", codes, operands[1])?;
        Ok(vec![Type::tensor(DType::F32, codes.shape.clone())])
    }
}
