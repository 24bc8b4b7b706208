//! 8-bit integers with scales and zero points to floats [ONNX DequantizeLinear].

use super::quantize::{along, byte_range, spread};
use crate::error::{Error, Result};
use crate::ops::{Class, Emit, Operator, arity, attributes, expect, float_tensor};
use crate::types::{Kind, Type, ValueId};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// `dequantize x i8 or u8, scales float, zero_points -> float`, the shape of x and the element type
/// of scales: `(x - zero_point) * scale`.
///
/// Zero points have x's element type; both are `[]`, or `[C]` along `axis`.
#[derive(Clone, Debug, PartialEq)]
pub struct Dequantize {
    /// The axis that has scales of its own; `None` for one scale.
    pub axis: Option<usize>,
}

attributes! { Dequantize { axis } }

impl Operator for Dequantize {
    const NAME: &'static str = "dequantize";
    const CLASS: Class = Class::Elementwise;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("dequantize", operands, 3)?;
        let (x, scales) = (operands[0], operands[1]);
        if byte_range(x.dtype).is_none() || x.kind != Kind::Tensor {
            return Err(Error::bad_graph(format!(
                "dequantize: x is {x}, expected a tensor of i8 or u8"
            )));
        }
        float_tensor("dequantize", "scales", scales)?;
        let shape = along("dequantize", x, self.axis)?;
        let need = Type::tensor(scales.dtype, shape.clone());
        expect("dequantize", "scales", scales, &need)?;
        expect("dequantize", "zero_points", operands[2], &Type::tensor(x.dtype, shape))?;
        Ok(vec![Type::tensor(scales.dtype, x.shape.clone())])
    }

    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let &[x, scales, zeros] = operands else { return Ok(None) };
        let (dtype, rank) = (e.ty(scales).dtype, e.dims(x).len());
        let scales = e.wide(scales)?;
        let wide = e.ty(scales).dtype;
        let (x, zeros) = (e.cast(x, wide)?, e.cast(zeros, wide)?);
        let scales = spread(e, scales, self.axis, rank)?;
        let zeros = spread(e, zeros, self.axis, rank)?;
        let y = e.sub(x, zeros)?;
        let y = e.mul(y, scales)?;
        Ok(Some(vec![e.cast(y, dtype)?]))
    }
}
