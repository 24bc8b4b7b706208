//! Running sums along an axis.

use super::{Class, Comparison, Emit, Operator, arity, attributes, rules};
use crate::error::{Error, Result};
use crate::types::{DType, Type, ValueId};
use alloc::vec;
use alloc::vec::Vec;

/// `cumsum x -> x`: `y[i]` is the sum of `x[0..=i]` along `axis`; exclusive, of `x[0..i]`. Floats,
/// accumulated wide and each rounded once, or integers, which wrap. ONNX `CumSum`.
#[derive(Clone, Debug, PartialEq)]
pub struct CumSum {
    /// The axis.
    pub axis: usize,
    /// Whether an element is left out of its own sum.
    pub exclusive: bool,
}

attributes! { CumSum { axis, exclusive } }

impl Operator for CumSum {
    const NAME: &'static str = "cumsum";
    const CLASS: Class = Class::Reduction;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("cumsum", operands, 1)?;
        rules::number_tensor("cumsum", "x", operands[0])?;
        rules::has_axis("cumsum", operands[0], self.axis)?;
        Ok(vec![operands[0].clone()])
    }
    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let &[x] = operands else { return Err(Error::internal("cumsum: arity was checked")) };
        let ty = e.ty(x).clone();
        let n = &ty.shape.0[self.axis];
        let to = e.indices(DType::U32, (n.clone(), 0, 2))?;
        let from = e.indices(DType::U32, (n.clone(), 1, 2))?;
        let f = if self.exclusive { Comparison::Lt } else { Comparison::Le };
        let mask = e.compare(f, from, to)?;
        let x = e.wide(x)?;
        let y = e.masked_sum(mask, x, self.axis)?;
        Ok(Some(vec![e.cast(y, ty.dtype)?]))
    }
}
