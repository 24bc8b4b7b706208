//! Normal random numbers.

use super::{Class, Operator, attributes, random_uniform};
use crate::error::Result;
use crate::types::{Binding, Shape, Type};
use alloc::vec::Vec;

/// `random_normal key u32 [4] -> f32 dims`: mean 0, deviation 1.
///
/// Words are those of [`RandomUniform`](super::RandomUniform). Elements `2 p` and `2 p + 1` are
/// `r cos(t)` and `r sin(t)` of words `2 p` and `2 p + 1` [Box and Muller 1958], with
/// `r = sqrt(-2 ln(((w >> 8) + 1) 2^-24))` of the first and `t = 2 pi (w >> 8) 2^-24` of the second.
#[derive(Clone, Debug, PartialEq)]
pub struct RandomNormal {
    /// The sizes.
    pub dims: Shape,
}

attributes! { RandomNormal { dims } }

impl Operator for RandomNormal {
    const NAME: &'static str = "random_normal";
    const CLASS: Class = Class::Boundary;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        random_uniform::rule("random_normal", &self.dims, operands)
    }

    fn bind(&mut self, binding: &Binding) -> Result<()> {
        self.dims = self.dims.bind(binding)?;
        Ok(())
    }
}
