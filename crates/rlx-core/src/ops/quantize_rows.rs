//! f32 rows to int8 blocks, for integer dot products with packed weights.

use super::{Class, Operator, RowUse, arity, attributes};
use crate::error::{Error, Result};
use crate::types::{BlockFormat, DType, Kind, Type};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// `quantize_rows x [.., K] f32 -> [.., K] q8_0 | q8_k | q15_0`. `legalise` inserts it where the policy
/// says int8 or int16 activations; the result types never occur in files.
#[derive(Clone, Debug, PartialEq)]
pub struct QuantizeRows {
    /// `Q8_0` (blocks of 32), `Q8K` (blocks of 256), or `Q15_0` (blocks of 32 in two parts).
    pub format: BlockFormat,
    /// Whether only the [large](crate::formats::activations::is_large) blocks of a row keep their low parts, and those
    /// of the others are zero. Only `Q15_0` has low parts.
    pub only_large: bool,
}

impl QuantizeRows {
    /// To that format, with the low parts of every block that has them.
    pub fn to(format: BlockFormat) -> Self {
        QuantizeRows { format, only_large: false }
    }
}

attributes! { QuantizeRows { format as "to", only_large = false } }

impl Operator for QuantizeRows {
    const NAME: &'static str = "quantize_rows";
    const CLASS: Class = Class::Movement;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("quantize_rows", operands, 1)?;
        if !matches!(self.format, BlockFormat::Q8_0 | BlockFormat::Q8K | BlockFormat::Q15_0) {
            return Err(Error::bad_graph(format!(
                "quantize_rows: {} is no activation format, expected q8_0, q8_k or q15_0",
                self.format.name()
            )));
        }
        if self.only_large && self.format != BlockFormat::Q15_0 {
            let what = format!("quantize_rows: blocks of {} have no low parts", self.format.name());
            return Err(Error::bad_graph(what));
        }
        let x = operands[0];
        if (x.kind, x.dtype) != (Kind::Tensor, DType::F32)
            || x.shape.rank() < 2
            || x.shape.last().as_static().is_some_and(|k| k % self.format.elements() as u64 != 0)
        {
            return Err(Error::bad_graph(format!(
                "quantize_rows: x is {x}, expected f32 with rows of whole {} blocks",
                self.format.name()
            )));
        }
        Ok(vec![Type { dtype: DType::Block(self.format), ..x.clone() }])
    }

    fn row_use(&self, operand: usize, _: &[&Type]) -> RowUse {
        if operand == 0 { RowUse::Same } else { RowUse::All }
    }
}
