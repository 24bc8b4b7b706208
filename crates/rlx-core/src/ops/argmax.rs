//! Where the largest element stands.

use super::{Attrs, Class, Operator, arity, reduce, rules};
use crate::error::{Error, Result};
use crate::types::{DType, Type};
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

impl Operator for ArgMax {
    const NAME: &'static str = "argmax";
    const CLASS: Class = Class::Reduction;

    fn attrs(&self) -> Attrs {
        Attrs::none().axis("axis", self.axis).when("keep", self.keep)
    }

    fn from_attrs(attrs: &Attrs) -> Result<Self> {
        attrs.only(&["axis", "keep"])?;
        Ok(ArgMax { axis: attrs.get_axis("axis")?, keep: attrs.flag("keep")? })
    }

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        rule("argmax", self.axis, self.keep, operands)
    }
}
