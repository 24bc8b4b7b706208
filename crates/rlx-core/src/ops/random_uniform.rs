//! Uniform random numbers.

use super::{Class, Operator, arity, attributes, expect};
use crate::error::Result;
use crate::types::{Binding, DType, Shape, Type};
use alloc::vec;
use alloc::vec::Vec;

/// `random_uniform key u32 [4] -> f32 dims`: multiples of 2^-24 in `[0, 1)`.
///
/// The key is the seed's low and high word and the offset's. Elements `4 b .. 4 b + 4`, row-major,
/// are the four words of Philox4x32-10 for the counter `offset + b` (64 bits, the upper 64 are 0)
/// under the seed, each word's upper 24 bits times 2^-24. The same on every device.
#[derive(Clone, Debug, PartialEq)]
pub struct RandomUniform {
    /// The sizes.
    pub dims: Shape,
}

attributes! { RandomUniform { dims } }

/// The type rule of both random operators.
pub(super) fn rule(name: &str, dims: &Shape, operands: &[&Type]) -> Result<Vec<Type>> {
    arity(name, operands, 1)?;
    expect(name, "key", operands[0], &Type::tensor(DType::U32, Shape::of(&[4])))?;
    Ok(vec![Type::tensor(DType::F32, dims.clone())])
}

impl Operator for RandomUniform {
    const NAME: &'static str = "random_uniform";
    const CLASS: Class = Class::Boundary;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        rule("random_uniform", &self.dims, operands)
    }

    fn bind(&mut self, binding: &Binding) -> Result<()> {
        self.dims = self.dims.bind(binding)?;
        Ok(())
    }
}
