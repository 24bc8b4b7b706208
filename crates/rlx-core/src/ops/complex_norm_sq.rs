//! Squared absolute values of complex numbers.

use super::fft::{complex_length, with_last};
use super::{Attrs, Class, Operator, arity};
use crate::error::Result;
use crate::types::{DType, Type};
use alloc::vec;
use alloc::vec::Vec;

/// `complex_norm_sq x [.., n] c64 -> [.., n] f32`, or `x [.., 2n] float -> [.., n]` of rows with n
/// real, then n imaginary parts: `re^2 + im^2`.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct ComplexNormSq;

impl Operator for ComplexNormSq {
    const NAME: &'static str = "complex_norm_sq";
    const CLASS: Class = Class::Elementwise;

    fn from_attrs(attrs: &Attrs) -> Result<Self> {
        attrs.only(&[])?;
        Ok(ComplexNormSq)
    }

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("complex_norm_sq", operands, 1)?;
        let x = operands[0];
        let n = complex_length("complex_norm_sq", x)?;
        let dtype = if x.dtype.is_float() { x.dtype } else { DType::F32 };
        Ok(vec![with_last(x, dtype, n)])
    }
}
