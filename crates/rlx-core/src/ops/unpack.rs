//! Packed blocks to the numbers they mean.

use super::{Class, Emit, Gather, Operator, arity, attributes};
use crate::error::{Error, Result};
use crate::types::{DType, Kind, Type, ValueId};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// `unpack x packed -> f32` of the same shape: of one matrix, or of a whole stack of experts.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Unpack;

attributes! { Unpack {} }

impl Operator for Unpack {
    const NAME: &'static str = "unpack";
    const CLASS: Class = Class::Movement;

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

    /// Every row of an embedding.
    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let [x] = *operands else { return Err(Error::internal("unpack: arity")) };
        let shape = e.ty(x).shape.clone();
        let table = e.reshape(x, &[shape.rows()?, shape.last()])?;
        let ids = e.iota(&[shape.rows()?], 0)?;
        let y = e.one(Gather::default(), &[table, ids])?;
        Ok(Some(vec![e.reshape(y, &shape.0)?]))
    }
}
