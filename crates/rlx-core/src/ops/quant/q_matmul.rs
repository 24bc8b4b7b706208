//! A product of 8-bit integers, requantised [ONNX QLinearMatMul].

use crate::error::{Error, Result};
use crate::ops::{Binary, Class, Emit, Operator, Unary, arity, attributes, expect};
use crate::types::{DType, Dim, Kind, Scalar, Shape, Type, ValueId};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// How sums of products of i8 become i8 again:
/// `saturate(round(multiplier * (sum + bias)) + out_zero)`, ties to even.
#[derive(Clone, Debug, PartialEq)]
pub struct Requantize {
    /// Zero point of x.
    pub x_zero: i8,
    /// Zero point of w.
    pub w_zero: i8,
    /// Zero point of the result.
    pub out_zero: i8,
    /// Scale of x times scale of w over scale of the result.
    pub multiplier: f32,
    /// Whether there is a bias of i32, one for each output.
    pub bias: bool,
}

attributes! { Requantize { x_zero, w_zero, out_zero, multiplier, bias } }

impl Requantize {
    /// Fails unless x and w are tensors of i8 and the bias, if any, has `outputs` elements.
    pub(super) fn check(&self, name: &str, operands: &[&Type], outputs: &Dim) -> Result<()> {
        for (what, ty) in ["x", "w"].iter().zip(operands) {
            if ty.dtype != I8 || ty.kind != Kind::Tensor {
                return Err(Error::bad_graph(format!(
                    "{name}: {what} is {ty}, expected a tensor of i8"
                )));
            }
        }
        if let Some(bias) = operands.get(2) {
            let need = Type::tensor(DType::I32, Shape(vec![outputs.clone()]));
            expect(name, "bias", bias, &need)?;
        }
        Ok(())
    }

    /// `v - zero` in f64.
    pub(super) fn centred(&self, e: &mut dyn Emit, v: ValueId, zero: i8) -> Result<ValueId> {
        let v = e.cast(v, DType::F64)?;
        e.zip_number(Binary::Sub, v, f64::from(zero))
    }

    /// Sums in f64 as i8, with a bias along `axis`.
    pub(super) fn finish(
        &self,
        e: &mut dyn Emit,
        sums: ValueId,
        bias: Option<ValueId>,
        axis: usize,
    ) -> Result<ValueId> {
        let (mut y, rank) = (sums, e.dims(sums).len());
        if let Some(bias) = bias {
            let bias = e.cast(bias, DType::F64)?;
            let bias = e.along(bias, axis, rank)?;
            y = e.add(y, bias)?;
        }
        let y = e.zip_number(Binary::Mul, y, f64::from(self.multiplier))?;
        let y = e.map(Unary::Round, y)?;
        let y = e.zip_number(Binary::Add, y, f64::from(self.out_zero))?;
        e.cast(y, I8)
    }
}

pub(super) const I8: DType = DType::Scalar(Scalar::I8);

/// `q_matmul x [.., M, K] i8, w [N, K] i8, (bias [N] i32) -> [.., M, N] i8`: sums of
/// `(x - x_zero) * (w - w_zero)` over K, then [`Requantize`].
///
/// Sums are exact. An executor may hold them in 32 bits: they fit for K up to 33,025 without bias.
#[derive(Clone, Debug, PartialEq)]
pub struct QMatMul {
    /// Zero points, multiplier, bias.
    pub requantize: Requantize,
}

attributes! { QMatMul { requantize } }

impl Operator for QMatMul {
    const NAME: &'static str = "q_matmul";
    const CLASS: Class = Class::Compute;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("q_matmul", operands, 2 + usize::from(self.requantize.bias))?;
        let (x, w) = (operands[0], operands[1]);
        let ([lead @ .., m, k], [n, depth]) = (x.shape.0.as_slice(), w.shape.0.as_slice()) else {
            return Err(Error::bad_graph(format!(
                "q_matmul: x is {x}, w is {w}; expected [.., M, K] and [N, K]"
            )));
        };
        if k != depth {
            return Err(Error::bad_graph(format!(
                "q_matmul: x is {x}, w is {w}; rows of different lengths"
            )));
        }
        self.requantize.check("q_matmul", operands, n)?;
        let mut dims = lead.to_vec();
        dims.extend([m.clone(), n.clone()]);
        Ok(vec![Type::tensor(I8, Shape(dims))])
    }

    /// In f64, which holds every sum exactly.
    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let [x, w, bias @ ..] = operands else { return Ok(None) };
        let x = self.requantize.centred(e, *x, self.requantize.x_zero)?;
        let w = self.requantize.centred(e, *w, self.requantize.w_zero)?;
        let sums = e.matmul(x, w, true)?;
        let axis = e.dims(sums).len() - 1;
        Ok(Some(vec![self.requantize.finish(e, sums, bias.first().copied(), axis)?]))
    }
}
