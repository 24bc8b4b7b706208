//! The same elements under another shape: a view, no step.

use super::{Alias, Class, Operator, RowUse, arity, attributes, rules};
use crate::error::{Error, Result};
use crate::types::{Binding, Kind, Shape, Type};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// `reshape x -> x`: sizes whose product is the same, symbols included; packed rows stay whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Reshape {
    /// The new sizes.
    pub dims: Shape,
}

attributes! { Reshape { dims } }

impl Operator for Reshape {
    const NAME: &'static str = "reshape";
    const CLASS: Class = Class::Movement;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("reshape", operands, 1)?;
        let (x, shape) = (operands[0], self.dims.clone());
        let rows_whole = !x.dtype.is_block() || shape.last() == x.shape.last();
        let same = rules::product(&shape.0)? == rules::product(&x.shape.0)?;
        if x.kind == Kind::State || !same || !rows_whole {
            return Err(Error::bad_graph(format!("reshape: x is {x}, it has no shape {shape}")));
        }
        Ok(vec![Type { kind: x.kind, dtype: x.dtype, shape }])
    }

    fn alias(&self, _: &[&Type]) -> Alias {
        Alias::View { operand: 0, byte_offset: 0 }
    }

    fn bind(&mut self, binding: &Binding) -> Result<()> {
        self.dims = self.dims.bind(binding)?;
        Ok(())
    }

    fn row_use(&self, _: usize, _: &[&Type]) -> RowUse {
        RowUse::Same
    }
}
