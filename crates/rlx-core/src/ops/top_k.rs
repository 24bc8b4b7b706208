//! Where the largest elements stand.

use super::{Attrs, Class, Operator, arity, rules};
use crate::error::{Error, Result};
use crate::types::{DType, Dim, Type};
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

impl Operator for TopK {
    const NAME: &'static str = "top_k";
    const CLASS: Class = Class::Reduction;

    fn attrs(&self) -> Attrs {
        Attrs::none().int("k", self.k)
    }

    fn from_attrs(attrs: &Attrs) -> Result<Self> {
        attrs.only(&["k"])?;
        Ok(TopK { k: attrs.get_int("k")? })
    }

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
}
