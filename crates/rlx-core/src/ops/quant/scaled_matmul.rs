//! A product of two matrices of small floats with scales.

use super::scaling::Scaling;
use crate::error::{Error, Result};
use crate::ops::{Attrs, Class, Emit, Field, Operator, ScaledDequantize, arity, expect};
use crate::types::{DType, Shape, Type, ValueId};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// `scaled_matmul x [.., M, K] u8, x_scales, w [N, K] u8, w_scales, (bias [N] f32) -> [.., M, N] f32`:
/// both sides decoded and scaled, `y = x w^T + bias`.
#[derive(Clone, Debug, PartialEq)]
pub struct ScaledMatMul {
    /// Format and scales of x.
    pub x: Scaling,
    /// Format and scales of w.
    pub w: Scaling,
    /// Whether there is a bias.
    pub bias: bool,
}

/// Those of both sides, with a prefix each.
impl Field for ScaledMatMul {
    fn put(&self, _: &str, attrs: Attrs) -> Attrs {
        let attrs = self.w.write(self.x.write(attrs, "x_"), "w_");
        attrs.when("bias", self.bias)
    }

    fn take(_: &str, _: &str, attrs: &Attrs) -> Result<Self> {
        let (x, w) = (Scaling::read(attrs, "x_")?, Scaling::read(attrs, "w_")?);
        Ok(ScaledMatMul { x, w, bias: attrs.flag("bias")? })
    }

    fn names(_: &'static str, out: &mut Vec<&'static str>) {
        out.extend(["x_format", "x_layout", "x_block", "x_round"]);
        out.extend(["w_format", "w_layout", "w_block", "w_round", "bias"]);
    }
}

impl Operator for ScaledMatMul {
    const NAME: &'static str = "scaled_matmul";
    const CLASS: Class = Class::Compute;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("scaled_matmul", operands, 4 + usize::from(self.bias))?;
        let (x, w) = (operands[0], operands[2]);
        self.x.check("scaled_matmul", "x", x, operands[1])?;
        self.w.check("scaled_matmul", "w", w, operands[3])?;
        let ([lead @ .., m, k], [n, depth]) = (x.shape.0.as_slice(), w.shape.0.as_slice()) else {
            return Err(Error::bad_graph(format!(
                "scaled_matmul: x is {x}, w is {w}; expected [.., M, K] and [N, K]"
            )));
        };
        if k != depth {
            return Err(Error::bad_graph(format!(
                "scaled_matmul: x is {x}, w is {w}; rows of different lengths"
            )));
        }
        if self.bias {
            let need = Type::tensor(DType::F32, Shape(vec![n.clone()]));
            expect("scaled_matmul", "bias", operands[4], &need)?;
        }
        let mut dims = lead.to_vec();
        dims.extend([m.clone(), n.clone()]);
        Ok(vec![Type::tensor(DType::F32, Shape(dims))])
    }

    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let [x, x_scales, w, w_scales, bias @ ..] = operands else { return Ok(None) };
        let x = e.one(ScaledDequantize { scaling: self.x }, &[*x, *x_scales])?;
        let w = e.one(ScaledDequantize { scaling: self.w }, &[*w, *w_scales])?;
        let y = e.matmul(x, w, true)?;
        let Some(bias) = bias.first() else { return Ok(Some(vec![y])) };
        Ok(Some(vec![e.add(y, *bias)?]))
    }
}
