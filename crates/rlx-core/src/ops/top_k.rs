//! Where the largest elements stand.

use super::{Class, Emit, Operator, Sort, arity, attributes, rules};
use crate::error::{Error, Result};
use crate::types::{DType, Dim, Type, ValueId};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// `top_k x [.., N] -> u32 [.., k]`: indices of the `k` largest elements of the last axis, the
/// largest first, ties to the lower index. Floats or integers; a NaN counts as larger than all
/// numbers, as in `sort`.
#[derive(Clone, Debug, PartialEq)]
pub struct TopK {
    /// How many.
    pub k: u64,
}

attributes! { TopK { k } }

impl Operator for TopK {
    const NAME: &'static str = "top_k";
    const CLASS: Class = Class::Movement;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("top_k", operands, 1)?;
        let x = operands[0];
        rules::number_tensor("top_k", "x", x)?;
        let mut shape = x.shape.clone();
        let few = |last: &Dim| last.as_static().is_some_and(|n| n < self.k);
        match shape.0.last_mut() {
            Some(last) if !few(last) => *last = Dim::from(self.k),
            _ => {
                return Err(Error::bad_graph(format!(
                    "top_k: x is {x}, expected a last axis of at least {}",
                    self.k
                )));
            }
        }
        Ok(vec![Type::tensor(DType::U32, shape)])
    }
    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let &[x] = operands else { return Err(Error::internal("top_k: arity was checked")) };
        let axis = e.ty(x).shape.rank().saturating_sub(1);
        let sorted = e.emit(Sort { axis, descending: true }.into(), &[x])?;
        let &[_, indices] = sorted.as_slice() else {
            return Err(Error::internal("sort has two results"));
        };
        Ok(Some(vec![e.slice(indices, axis, 0u64, self.k)?]))
    }
}
