//! Floats to 8-bit integers with scales and zero points [ONNX QuantizeLinear].

use crate::error::{Error, Result};
use crate::ops::{Binary, Class, Emit, Operator, Unary, arity, attributes, expect, float_tensor};
use crate::types::{DType, Scalar, Shape, Type, ValueId};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// `quantize x float, scales, zero_points -> i8 or u8`, the shape of x:
/// `saturate(round(x / scale) + zero_point)`, ties to even.
///
/// Scales have x's element type, zero points the result's; both are `[]`, or `[C]` along `axis`.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantize {
    /// i8 or u8.
    pub to: DType,
    /// The axis that has scales of its own; `None` for one scale.
    pub axis: Option<usize>,
}

attributes! { Quantize { to, axis } }

impl Operator for Quantize {
    const NAME: &'static str = "quantize";
    const CLASS: Class = Class::Elementwise;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("quantize", operands, 3)?;
        let x = operands[0];
        float_tensor("quantize", "x", x)?;
        if byte_range(self.to).is_none() {
            return Err(Error::bad_graph(format!(
                "quantize: to is {}, expected i8 or u8",
                self.to
            )));
        }
        let shape = along("quantize", x, self.axis)?;
        expect("quantize", "scales", operands[1], &Type::tensor(x.dtype, shape.clone()))?;
        expect("quantize", "zero_points", operands[2], &Type::tensor(self.to, shape))?;
        Ok(vec![Type::tensor(self.to, x.shape.clone())])
    }

    /// A cast to bytes truncates what is an integer already, and saturates.
    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let &[x, scales, zeros] = operands else { return Ok(None) };
        let (x, scales) = (e.wide(x)?, e.wide(scales)?);
        let (rank, wide) = (e.dims(x).len(), e.ty(x).dtype);
        let scales = spread(e, scales, self.axis, rank)?;
        let zeros = e.cast(zeros, wide)?;
        let zeros = spread(e, zeros, self.axis, rank)?;
        let y = e.zip(Binary::Div, x, scales)?;
        let y = e.map(Unary::Round, y)?;
        let y = e.add(y, zeros)?;
        Ok(Some(vec![e.cast(y, self.to)?]))
    }
}

/// The least and the largest value of i8 or u8.
pub(crate) fn byte_range(dtype: DType) -> Option<(f64, f64)> {
    match dtype {
        DType::Scalar(Scalar::I8) => Some((-128.0, 127.0)),
        DType::Scalar(Scalar::U8) => Some((0.0, 255.0)),
        _ => None,
    }
}

/// The shape of scales: `[]`, or one for each index of the axis.
pub(super) fn along(name: &str, x: &Type, axis: Option<usize>) -> Result<Shape> {
    match axis.map(|a| (a, x.shape.0.get(a))) {
        None => Ok(Shape(vec![])),
        Some((_, Some(d))) => Ok(Shape(vec![d.clone()])),
        Some((a, None)) => Err(Error::bad_graph(format!("{name}: x is {x}, it has no axis {a}"))),
    }
}

/// Scales as an axis among `rank`; one scale as it is.
pub(super) fn spread(
    e: &mut dyn Emit,
    v: ValueId,
    axis: Option<usize>,
    rank: usize,
) -> Result<ValueId> {
    axis.map_or(Ok(v), |axis| e.along(v, axis, rank))
}
