//! Where the smallest element stands.

use super::{Attrs, Class, Emit, Operator, Reduction, argmax};
use crate::error::Result;
use crate::types::{Type, ValueId};
use alloc::vec::Vec;

/// `argmin x -> u32`: the lowest index of the smallest element along `axis`, which goes, or stays
/// with size 1. Floats or integers. A NaN is never the smallest; where all are NaN the index is 0.
#[derive(Clone, Debug, PartialEq)]
pub struct ArgMin {
    /// The axis.
    pub axis: usize,
    /// Whether the axis stays, with size 1.
    pub keep: bool,
}

impl Operator for ArgMin {
    const NAME: &'static str = "argmin";
    const CLASS: Class = Class::Reduction;

    fn attrs(&self) -> Attrs {
        Attrs::none().axis("axis", self.axis).when("keep", self.keep)
    }

    fn from_attrs(attrs: &Attrs) -> Result<Self> {
        attrs.only(&["axis", "keep"])?;
        Ok(ArgMin { axis: attrs.get_axis("axis")?, keep: attrs.flag("keep")? })
    }

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        argmax::rule("argmin", self.axis, self.keep, operands)
    }
    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        argmax::first_of("argmin", e, operands, Reduction::Min, (self.axis, self.keep))
    }
}
