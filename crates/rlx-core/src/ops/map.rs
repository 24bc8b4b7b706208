//! A scalar function of every element.

use super::{Alias, Attrs, Class, Operator, Unary, arity, float_tensor};
use crate::error::{Error, Result};
use crate::types::Type;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// `map x -> x`: `y[i] = f(x[i])` of floats, the same shape and type.
#[derive(Clone, Debug, PartialEq)]
pub struct Map {
    /// The function.
    pub f: Unary,
}

impl Operator for Map {
    const NAME: &'static str = "map";
    const CLASS: Class = Class::Elementwise;

    fn attrs(&self) -> Attrs {
        Attrs::none().name("f", self.f.name())
    }

    fn from_attrs(attrs: &Attrs) -> Result<Self> {
        attrs.only(&["f"])?;
        let name = attrs.get_name("f")?;
        Unary::from_name(name)
            .map(|f| Map { f })
            .ok_or_else(|| Error::bad_graph(format!("map: unknown function {name}")))
    }

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("map", operands, 1)?;
        float_tensor("map", "x", operands[0])?;
        Ok(vec![operands[0].clone()])
    }

    fn alias(&self, _: &[&Type]) -> Alias {
        Alias::Elementwise { operand: 0 }
    }
}
