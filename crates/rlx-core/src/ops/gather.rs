//! `y[i, :] = table[ids[i], :]`: an embedding look-up. The table may be packed.

use super::{Attrs, Class, Operator, arity, matrix};
use crate::error::{Error, Result};
use crate::types::{DType, Shape, Type};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// `gather table [V, D] any, ids [N] u32 -> [N, D] f32`. An id of V or more reads row V - 1.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Gather;

impl Operator for Gather {
    const NAME: &'static str = "gather";
    const CLASS: Class = Class::Movement;

    fn from_attrs(attrs: &Attrs) -> Result<Self> {
        attrs.only(&[])?;
        Ok(Gather)
    }

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("gather", operands, 2)?;
        let (_, width) = matrix("gather", "table", operands[0])?;
        let ids = operands[1];
        if ids.dtype != DType::U32 || ids.shape.rank() != 1 {
            return Err(Error::bad_graph(format!("gather: ids is {ids}, expected u32 of rank 1")));
        }
        Ok(vec![Type::tensor(DType::F32, Shape(vec![ids.shape.0[0].clone(), width]))])
    }
}
