//! Conjugates of complex numbers.

use super::fft::{complex_length, complex_like};
use crate::error::Result;
use crate::ops::{Class, Concat, Emit, Operator, Unary, attributes};
use crate::types::{Type, ValueId};
use alloc::vec;
use alloc::vec::Vec;

/// `conjugate x -> x's type`: imaginary parts change sign. x is c64, or floats whose rows are n
/// real, then n imaginary parts.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Conjugate;

attributes! { Conjugate {} }

impl Operator for Conjugate {
    const NAME: &'static str = "conjugate";
    const CLASS: Class = Class::Elementwise;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        complex_like("conjugate", operands)
    }

    /// Of pairs whose number is known; c64 is primitive.
    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let &[x] = operands else { return Ok(None) };
        let n = complex_length(Self::NAME, e.ty(x))?;
        if !e.ty(x).dtype.is_float() || n.as_static().is_none() {
            return Ok(None);
        }
        let axis = e.dims(x).len() - 1;
        let (re, im) = (e.slice(x, axis, 0u64, n.clone())?, e.slice(x, axis, n.clone(), n)?);
        let im = e.map(Unary::Neg, im)?;
        Ok(Some(vec![e.one(Concat { axis }, &[re, im])?]))
    }
}
