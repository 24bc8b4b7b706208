//! Conjugates of complex numbers.

use super::fft::complex_like;
use super::{Attrs, Class, Operator};
use crate::error::Result;
use crate::types::Type;
use alloc::vec::Vec;

/// `conjugate x -> x's type`: imaginary parts change sign. x is c64, or floats whose rows are n
/// real, then n imaginary parts.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Conjugate;

impl Operator for Conjugate {
    const NAME: &'static str = "conjugate";
    const CLASS: Class = Class::Elementwise;

    fn from_attrs(attrs: &Attrs) -> Result<Self> {
        attrs.only(&[])?;
        Ok(Conjugate)
    }

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        complex_like("conjugate", operands)
    }
}
