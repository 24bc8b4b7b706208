//! One element an index.

use super::{Attrs, Class, Operator, arity, rules};
use crate::error::{Error, Result};
use crate::types::Type;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// `gather_elements x, ids u32 | i32 | i64 -> y`: `y[.., i, ..] = x[.., ids[.., i, ..], ..]`, the
/// index of `axis` replaced and all others kept; `ids` has the sizes of `x` but on `axis`, and `y`
/// has those of `ids`. Any scalar type. Ids outside are as in `gather`. ONNX `GatherElements`.
#[derive(Clone, Debug, PartialEq)]
pub struct GatherElements {
    /// The axis.
    pub axis: usize,
}

impl Operator for GatherElements {
    const NAME: &'static str = "gather_elements";
    const CLASS: Class = Class::Movement;

    fn attrs(&self) -> Attrs {
        Attrs::none().axis("axis", self.axis)
    }

    fn from_attrs(attrs: &Attrs) -> Result<Self> {
        attrs.only(&["axis"])?;
        Ok(GatherElements { axis: attrs.get_axis("axis")? })
    }

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("gather_elements", operands, 2)?;
        let (x, ids) = (operands[0], operands[1]);
        rules::scalar_tensor("gather_elements", "x", x)?;
        rules::ids_tensor("gather_elements", ids)?;
        rules::has_axis("gather_elements", x, self.axis)?;
        let mut need = x.shape.clone();
        if let Some(size) = ids.shape.0.get(self.axis) {
            need.0[self.axis] = size.clone();
        }
        if ids.shape != need {
            return Err(Error::bad_graph(format!(
                "gather_elements: x is {x}, ids is {ids}; they may differ on axis {} only",
                self.axis
            )));
        }
        Ok(vec![Type::tensor(x.dtype, ids.shape.clone())])
    }
}
