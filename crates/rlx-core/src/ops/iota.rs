//! Indices along an axis.

use super::{Class, Operator, arity, attributes, rules};
use crate::error::{Error, Result};
use crate::types::{Binding, DType, Shape, Type};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// `iota -> dims`: `y[.., i, ..] = i` along `axis`. StableHLO `iota`.
#[derive(Clone, Debug, PartialEq)]
pub struct Iota {
    /// A type of floats or integers.
    pub dtype: DType,
    /// The sizes.
    pub dims: Shape,
    /// The axis that counts.
    pub axis: usize,
}

attributes! { Iota { dtype as "type", dims, axis } }

impl Operator for Iota {
    const NAME: &'static str = "iota";
    const CLASS: Class = Class::Boundary;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("iota", operands, 0)?;
        let ty = Type::tensor(self.dtype, self.dims.clone());
        if !self.dtype.is_float() && !self.dtype.is_int() {
            return Err(Error::bad_graph(format!(
                "iota: {ty} does not count, expected floats or integers"
            )));
        }
        rules::has_axis("iota", &ty, self.axis)?;
        Ok(vec![ty])
    }

    fn bind(&mut self, binding: &Binding) -> Result<()> {
        self.dims = self.dims.bind(binding)?;
        Ok(())
    }
}
