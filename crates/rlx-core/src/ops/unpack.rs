//! Packed blocks to the numbers they mean.

use super::{Attrs, Class, Operator, arity};
use crate::error::{Error, Result};
use crate::types::{DType, Kind, Type};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// `unpack x packed -> f32` of the same shape: of one matrix, or of a whole stack of experts.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Unpack;

impl Operator for Unpack {
    const NAME: &'static str = "unpack";
    const CLASS: Class = Class::Movement;

    fn from_attrs(attrs: &Attrs) -> Result<Self> {
        attrs.only(&[])?;
        Ok(Unpack)
    }

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("unpack", operands, 1)?;
        let x = operands[0];
        if x.kind != Kind::Tensor || !x.dtype.is_block() {
            return Err(Error::bad_graph(format!(
                "unpack: x is {x}, expected a tensor of packed blocks"
            ))
            .hint("cast converts scalar types"));
        }
        Ok(vec![Type::tensor(DType::F32, x.shape.clone())])
    }
}
