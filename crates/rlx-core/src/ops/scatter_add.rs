//! Updates added at indices.

use super::{Binary, Class, Comparison, Emit, Operator, arity, attributes, rules};
use crate::error::{Error, Result};
use crate::types::{Dim, Type, ValueId};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// `scatter_add target, ids u32 | i32 | i64 [N], updates -> target`: slice `i` of `updates` along
/// `axis` is added to slice `ids[i]` of the target; ids may repeat. Floats, accumulated wide in the
/// order of ids and rounded once, or integers, which wrap. A negative id counts from the end; one
/// outside of the axis adds nothing. PyTorch `index_add`.
#[derive(Clone, Debug, PartialEq)]
pub struct ScatterAdd {
    /// The axis.
    pub axis: usize,
}

attributes! { ScatterAdd { axis } }

impl Operator for ScatterAdd {
    const NAME: &'static str = "scatter_add";
    const CLASS: Class = Class::Movement;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("scatter_add", operands, 3)?;
        let (target, ids, updates) = (operands[0], operands[1], operands[2]);
        rules::number_tensor("scatter_add", "target", target)?;
        rules::number_tensor("scatter_add", "updates", updates)?;
        rules::one_dtype("scatter_add", target, updates)?;
        rules::ids_tensor("scatter_add", ids)?;
        rules::has_axis("scatter_add", target, self.axis)?;
        let mut need = target.shape.clone();
        if let [n] = ids.shape.0.as_slice() {
            need.0[self.axis] = n.clone();
        }
        if ids.shape.rank() != 1 || updates.shape != need {
            return Err(Error::bad_graph(format!(
                "scatter_add: target is {target}, ids is {ids}, updates is {updates}; expected ids of \
                 rank 1 and as many slices of the target along axis {}",
                self.axis
            )));
        }
        Ok(vec![target.clone()])
    }
    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let &[target, ids, updates] = operands else {
            return Err(Error::internal("scatter_add: arity was checked"));
        };
        let (ty, ids_ty) = (e.ty(target).clone(), e.ty(ids).clone());
        let n = &ty.shape.0[self.axis];
        let Some(ids) = e.places(ids, n)? else { return Ok(None) };
        let ids = e.reshape(ids, &[Dim::from(1u64), ids_ty.shape.last()])?;
        let index = e.indices(ids_ty.dtype, (n.clone(), 0, 2))?;
        let mask = e.compare(Comparison::Eq, index, ids)?;
        let (target, updates) = (e.wide(target)?, e.wide(updates)?);
        let sum = e.masked_sum(mask, updates, self.axis)?;
        let y = e.zip(Binary::Add, target, sum)?;
        Ok(Some(vec![e.cast(y, ty.dtype)?]))
    }
}
