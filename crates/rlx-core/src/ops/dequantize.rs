//! 8-bit integers with scales and zero points to floats [ONNX DequantizeLinear].

use super::build::Build;
use super::quantize::{along, byte_range, spread};
use super::{Attrs, Class, Emit, Operator, arity, expect, float_tensor};
use crate::error::{Error, Result};
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

impl Operator for Dequantize {
    const NAME: &'static str = "dequantize";
    const CLASS: Class = Class::Elementwise;

    fn attrs(&self) -> Attrs {
        match self.axis {
            Some(axis) => Attrs::none().int("axis", axis as u64),
            None => Attrs::none(),
        }
    }

    fn from_attrs(attrs: &Attrs) -> Result<Self> {
        attrs.only(&["axis"])?;
        Ok(Dequantize { axis: attrs.opt_axis("axis")? })
    }

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
        let mut b = Build(e);
        let (dtype, rank) = (b.dtype(scales), b.dims(x).len());
        let scales = b.wide(scales)?;
        let wide = b.dtype(scales);
        let (x, zeros) = (b.cast(x, wide)?, b.cast(zeros, wide)?);
        let scales = spread(&mut b, scales, self.axis, rank)?;
        let zeros = spread(&mut b, zeros, self.axis, rank)?;
        let y = b.sub(x, zeros)?;
        let y = b.mul(y, scales)?;
        Ok(Some(vec![b.cast(y, dtype)?]))
    }
}
