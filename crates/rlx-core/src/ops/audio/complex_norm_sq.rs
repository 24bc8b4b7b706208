//! Squared absolute values of complex numbers.

use super::fft::{complex_length, with_last};
use crate::error::Result;
use crate::ops::{Class, Emit, Operator, arity, attributes};
use crate::types::{DType, Type, ValueId};
use alloc::vec;
use alloc::vec::Vec;

/// `complex_norm_sq x [.., n] c64 -> [.., n] f32`, or `x [.., 2n] float -> [.., n]` of rows with n
/// real, then n imaginary parts: `re^2 + im^2`.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct ComplexNormSq;

attributes! { ComplexNormSq {} }

impl Operator for ComplexNormSq {
    const NAME: &'static str = "complex_norm_sq";
    const CLASS: Class = Class::Elementwise;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("complex_norm_sq", operands, 1)?;
        let x = operands[0];
        let n = complex_length("complex_norm_sq", x)?;
        let dtype = if x.dtype.is_float() { x.dtype } else { DType::F32 };
        Ok(vec![with_last(x, dtype, n)])
    }

    /// Of pairs; c64 is primitive.
    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let &[x] = operands else { return Ok(None) };
        if !e.ty(x).dtype.is_float() {
            return Ok(None);
        }
        let n = complex_length(Self::NAME, e.ty(x))?;
        let (dtype, axis) = (e.ty(x).dtype, e.dims(x).len() - 1);
        let x = e.wide(x)?;
        let (re, im) = (e.slice(x, axis, 0u64, n.clone())?, e.slice(x, axis, n.clone(), n)?);
        let (re, im) = (e.mul(re, re)?, e.mul(im, im)?);
        let sum = e.add(re, im)?;
        Ok(Some(vec![e.cast(sum, dtype)?]))
    }
}
