//! One element an index.

use super::{Binary, Class, Emit, Gather, Operator, arity, attributes, rules};
use crate::error::{Error, Result};
use crate::types::{DType, Dim, Type, ValueId};
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

attributes! { GatherElements { axis } }

impl Operator for GatherElements {
    const NAME: &'static str = "gather_elements";
    const CLASS: Class = Class::Movement;

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
    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let &[x, ids] = operands else {
            return Err(Error::internal("gather_elements: arity was checked"));
        };
        let (x_ty, to) = (e.ty(x).clone(), e.ty(ids).shape.clone());
        // One index into all elements, in u32: sizes are numbers, and not too large.
        let (Ok(dims), Ok(count)) = (x_ty.shape.static_dims(), x_ty.shape.elements()) else {
            return Ok(None);
        };
        if count == 0 || count > u32::MAX.into() {
            return Ok(None);
        }
        let n = dims[self.axis];
        let Some(ids) = e.places(ids, &Dim::from(n))? else { return Ok(None) };
        let ids = match e.ty(ids).dtype {
            DType::U32 => ids,
            _ => e.zip_number(Binary::Max, ids, 0.0)?,
        };
        let ids = e.zip_number(Binary::Min, ids, (n - 1) as f64)?;
        let mut at = e.cast(ids, DType::U32)?;
        let mut stride = 1u64;
        let mut rest = None;
        for (axis, &n) in dims.iter().enumerate().rev() {
            let index = if axis == self.axis {
                at
            } else {
                e.indices(DType::U32, (to.0[axis].clone(), axis, to.rank()))?
            };
            let scaled = match stride {
                1 => index,
                _ => e.zip_number(Binary::Mul, index, stride as f64)?,
            };
            if axis == self.axis {
                at = scaled;
            } else if n > 1 {
                rest = Some(match rest {
                    None => scaled,
                    Some(sum) => e.zip(Binary::Add, sum, scaled)?,
                });
            }
            stride *= n;
        }
        if let Some(rest) = rest {
            at = e.zip(Binary::Add, at, rest)?;
        }
        let flat = e.reshape(x, &[Dim::from(count)])?;
        Ok(Some(vec![e.one(Gather { axis: 0 }, &[flat, at])?]))
    }
}
