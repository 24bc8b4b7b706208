//! Where the largest element stands.

use super::{
    Class, Comparison, Emit, Operator, Reduce, Reduction, arity, attributes, reduce, rules,
};
use crate::error::{Error, Result};
use crate::types::{DType, Type, ValueId};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// `argmax x -> u32`: the lowest index of the largest element along `axis`, which goes, or stays
/// with size 1. Floats or integers. A NaN is never the largest; where all are NaN the index is 0.
#[derive(Clone, Debug, PartialEq)]
pub struct ArgMax {
    /// The axis.
    pub axis: usize,
    /// Whether the axis stays, with size 1.
    pub keep: bool,
}

attributes! { ArgMax { axis, keep } }

/// The type rule of both `argmax` and `argmin`.
pub(super) fn rule(name: &str, axis: usize, keep: bool, operands: &[&Type]) -> Result<Vec<Type>> {
    arity(name, operands, 1)?;
    let x = operands[0];
    rules::number_tensor(name, "x", x)?;
    rules::has_axis(name, x, axis)?;
    if x.shape.0[axis].as_static() == Some(0) {
        return Err(Error::bad_graph(format!("{name}: x is {x}, axis {axis} has no elements")));
    }
    Ok(vec![Type::tensor(DType::U32, reduce::without(&x.shape, &[axis], keep))])
}

/// The decomposition of both: the lowest index of an element that equals the extreme. Where all
/// are NaN none does.
pub(super) fn first_of(
    name: &str,
    e: &mut dyn Emit,
    operands: &[ValueId],
    extreme: Reduction,
    (axis, keep): (usize, bool),
) -> Result<Option<Vec<ValueId>>> {
    let &[x] = operands else {
        return Err(Error::internal(format!("{name}: arity was checked")));
    };
    let shape = e.ty(x).shape.clone();
    let best = e.reduce(extreme, x, &[axis])?;
    let found = e.compare(Comparison::Eq, x, best)?;
    let index = e.indices(DType::U32, (shape.0[axis].clone(), axis, shape.rank()))?;
    let none = e.number(DType::U32, u32::MAX.into())?;
    let index = e.select(found, index, none)?;
    let first = e.one(Reduce { f: Reduction::Min, axes: vec![axis], keep }, &[index])?;
    let nowhere = e.compare(Comparison::Eq, first, none)?;
    let zero = e.number(DType::U32, 0.0)?;
    Ok(Some(vec![e.select(nowhere, zero, first)?]))
}

impl Operator for ArgMax {
    const NAME: &'static str = "argmax";
    const CLASS: Class = Class::Reduction;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        rule("argmax", self.axis, self.keep, operands)
    }
    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        first_of("argmax", e, operands, Reduction::Max, (self.axis, self.keep))
    }
}
