//! A scalar function of two tensors, element by element.

use super::{Alias, Attrs, Binary, Class, Operator, arity};
use crate::error::{Error, Result};
use crate::types::{DType, Kind, Type};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// `zip a f32, b f32 -> f32`: `b` has the shape of `a`, or of its last axis and is repeated.
#[derive(Clone, Debug, PartialEq)]
pub struct Zip {
    /// The function.
    pub f: Binary,
}

impl Operator for Zip {
    const NAME: &'static str = "zip";
    const CLASS: Class = Class::Elementwise;

    fn attrs(&self) -> Attrs {
        Attrs::none().name("f", self.f.name())
    }

    fn from_attrs(attrs: &Attrs) -> Result<Self> {
        attrs.only(&["f"])?;
        let name = attrs.get_name("f")?;
        Binary::from_name(name)
            .map(|f| Zip { f })
            .ok_or_else(|| Error::bad_graph(format!("zip: unknown function {name}")))
    }

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("zip", operands, 2)?;
        let [a, b] = operands else { return Err(Error::internal("zip: arity was checked")) };
        let row = b.shape.rank() == 1 && b.shape.last() == a.shape.last();
        let tensors = [a, b].iter().all(|t| t.dtype == DType::F32 && t.kind == Kind::Tensor);
        if !tensors || (a.shape != b.shape && !row) {
            return Err(Error::bad_graph(format!(
                "zip: a is {a}, b is {b}; expected tensors of f32 of one shape, or b as long as a's last axis"
            )));
        }
        Ok(vec![(*a).clone()])
    }

    fn alias(&self, _: &[&Type]) -> Alias {
        Alias::Elementwise { operand: 0 }
    }
}
