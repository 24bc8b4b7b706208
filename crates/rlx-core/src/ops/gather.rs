//! `y[i, :] = table[ids[i], :]`: an embedding look-up, and indices on any axis. Tables may be packed.

use super::{Class, Operator, RowUse, arity, attributes, rules};
use crate::error::{Error, Result};
use crate::types::{DType, Kind, Scalar, Shape, Type};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// `gather table, ids u32 | i32 | i64 -> y`: the shape of `ids` stands for `axis` of the table.
///
/// An embedding is axis 0 of a matrix, packed or of `f32 f16 bf16`: it gives f32. All other tables
/// have a scalar type, which is the result's. A negative id counts from the end; what is outside of
/// the axis then reads the nearest element on it: an id of V or more reads V - 1.
/// ONNX `Gather`, NumPy `take`.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Gather {
    /// The axis of the table that ids index.
    pub axis: usize,
}

attributes! { Gather { axis = 0 } }

impl Gather {
    /// True for a table whose rows are decoded to f32.
    pub fn is_embedding(&self, table: &Type) -> bool {
        let decodes = matches!(
            table.dtype,
            DType::Block(_) | DType::Scalar(Scalar::F32 | Scalar::F16 | Scalar::Bf16)
        );
        self.axis == 0 && table.shape.rank() == 2 && decodes
    }
}

impl Operator for Gather {
    const NAME: &'static str = "gather";
    const CLASS: Class = Class::Movement;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("gather", operands, 2)?;
        let (table, ids) = (operands[0], operands[1]);
        rules::ids_tensor("gather", ids)?;
        rules::has_axis("gather", table, self.axis)?;
        let embedding = self.is_embedding(table);
        if table.kind != Kind::Tensor || (table.dtype.is_block() && !embedding) {
            return Err(Error::bad_graph(format!(
                "gather: table is {table}, expected a tensor, and rows of a matrix where it is packed"
            )));
        }
        let mut dims = table.shape.0.clone();
        dims.splice(self.axis..=self.axis, ids.shape.0.iter().cloned());
        let dtype = if embedding { DType::F32 } else { table.dtype };
        Ok(vec![Type::tensor(dtype, Shape(dims))])
    }

    /// Rows of ids.
    fn row_use(&self, operand: usize, _: &[&Type]) -> RowUse {
        if operand == 1 && self.axis == 0 { RowUse::Same } else { RowUse::All }
    }
}
