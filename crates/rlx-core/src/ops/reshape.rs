//! The same elements under another shape: a view, no step.

use super::{Alias, Attr, Attrs, Class, Operator, arity};
use crate::error::{Error, Result};
use crate::types::{Kind, Shape, Type};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// `reshape x -> x`, static sizes with the same number of elements; packed rows stay whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Reshape {
    /// The new sizes.
    pub dims: Vec<u64>,
}

impl Operator for Reshape {
    const NAME: &'static str = "reshape";
    const CLASS: Class = Class::Movement;

    fn attrs(&self) -> Attrs {
        let dims = self.dims.iter().map(|&n| Attr::Int(n as i64)).collect();
        Attrs::none().with("dims", Attr::List(dims))
    }

    fn from_attrs(attrs: &Attrs) -> Result<Self> {
        attrs.only(&["dims"])?;
        let dims = attrs.opt_ints("dims")?;
        Ok(Reshape { dims: dims.ok_or_else(|| Error::bad_graph("reshape: dims is missing"))? })
    }

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("reshape", operands, 1)?;
        let x = operands[0];
        let shape = Shape::of(&self.dims);
        let rows_whole = !x.dtype.is_block() || shape.last() == x.shape.last();
        if x.kind == Kind::State || shape.elements()? != x.shape.elements()? || !rows_whole {
            return Err(Error::bad_graph(format!("reshape: x is {x}, it has no shape {shape}")));
        }
        Ok(vec![Type { kind: x.kind, dtype: x.dtype, shape }])
    }

    fn alias(&self, _: &[&Type]) -> Alias {
        Alias::View { operand: 0, byte_offset: 0 }
    }
}
