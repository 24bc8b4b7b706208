//! Discrete Fourier transform [ONNX DFT].

use crate::error::{Error, Result};
use crate::math;
use crate::ops::{Class, Emit, Operator, arity, attributes, named};
use crate::types::{DType, Dim, DimOp, Kind, Scalar, Shape, Type, ValueId};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// What a transform is multiplied by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FftNorm {
    /// `1 / n` on the inverse.
    Backward,
    /// `1 / n` on the forward transform.
    Forward,
    /// `1 / sqrt(n)` on both.
    Ortho,
}

impl FftNorm {
    const ALL: [(FftNorm, &'static str); 3] =
        [(FftNorm::Backward, "backward"), (FftNorm::Forward, "forward"), (FftNorm::Ortho, "ortho")];

    /// The name in text IR.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// The norm of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|row| row.1 == name).map(|row| row.0)
    }
}

named!(FftNorm, "norm");

/// `fft x [.., n] c64 -> [.., n] c64`, or `x [.., 2n] float -> [.., 2n]` where a row is n real
/// parts, then n imaginary ones.
///
/// `y[k] = s * sum over j of x[j] * exp(-2 pi i j k / n)`, with a plus for the inverse; any n.
#[derive(Clone, Debug, PartialEq)]
pub struct Fft {
    /// Whether it is the inverse transform.
    pub inverse: bool,
    /// The factor s.
    pub norm: FftNorm,
}

attributes! { Fft { inverse, norm } }

impl Operator for Fft {
    const NAME: &'static str = "fft";
    const CLASS: Class = Class::Compute;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        complex_like("fft", operands)
    }

    /// A product with the matrix of the transform, for pairs of up to 512 numbers; c64 and longer
    /// rows are primitive.
    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let &[x] = operands else { return Ok(None) };
        let (dtype, dims) = (e.ty(x).dtype, e.dims(x));
        let Some(n) = dims.last().and_then(Dim::as_static).map(|n| n / 2) else { return Ok(None) };
        if !dtype.is_float() || n > 512 {
            return Ok(None);
        }
        let (sign, factor) = (if self.inverse { 1.0 } else { -1.0 }, self.factor(n));
        let mut matrix = Vec::with_capacity((4 * n * n) as usize);
        for i in 0..2 * n {
            for j in 0..2 * n {
                let angle = core::f64::consts::TAU * ((i % n) * (j % n) % n) as f64 / n as f64;
                let (cos, sin) = (math::cos(angle), sign * math::sin(angle));
                matrix.push(
                    factor
                        * match (i < n, j < n) {
                            (true, true) | (false, false) => cos,
                            (true, false) => -sin,
                            (false, true) => sin,
                        },
                );
            }
        }
        let x = e.wide(x)?;
        let wide = e.ty(x).dtype;
        let matrix = e.constant(wide, &[2 * n, 2 * n], &matrix)?;
        let rows: Vec<Dim> = if dims.len() > 1 {
            dims.clone()
        } else {
            [Dim::from(1u64)].iter().chain(&dims).cloned().collect()
        };
        let y = e.reshape(x, &rows)?;
        let y = e.matmul(y, matrix, true)?;
        let y = e.reshape(y, &dims)?;
        Ok(Some(vec![e.cast(y, dtype)?]))
    }
}

impl Fft {
    /// The factor s of a transform of `n`.
    pub(crate) fn factor(&self, n: u64) -> f64 {
        match (self.norm, self.inverse) {
            (FftNorm::Backward, true) | (FftNorm::Forward, false) => 1.0 / n as f64,
            (FftNorm::Ortho, _) => 1.0 / crate::math::sqrt(n as f64),
            _ => 1.0,
        }
    }
}

/// Complex numbers in a row of `x`: c64 elements, or half of the floats.
pub(super) fn complex_length(name: &str, x: &Type) -> Result<Dim> {
    let last = x.shape.last();
    let odd = last.as_static().is_some_and(|n| n % 2 == 1);
    if x.kind == Kind::Tensor && x.shape.rank() > 0 && last.as_static() != Some(0) {
        if x.dtype == DType::Scalar(Scalar::C64) {
            return Ok(last);
        }
        if x.dtype.is_float() && !odd {
            return last.apply(DimOp::FloorDiv, &Dim::from(2u64));
        }
    }
    Err(Error::bad_graph(format!(
        "{name}: x is {x}, expected rows of c64, or of floats as real and imaginary halves"
    )))
}

/// The type with `last` in place of the last axis.
pub(super) fn with_last(x: &Type, dtype: DType, last: Dim) -> Type {
    let mut dims = x.shape.0.clone();
    if let Some(d) = dims.last_mut() {
        *d = last;
    }
    Type::tensor(dtype, Shape(dims))
}

/// The one result of an operator whose shape is its operand's.
pub(super) fn complex_like(name: &str, operands: &[&Type]) -> Result<Vec<Type>> {
    arity(name, operands, 1)?;
    complex_length(name, operands[0])?;
    Ok(vec![operands[0].clone()])
}
