//! A state's present version as a tensor: a view, no step.

use super::{Alias, Class, Operator, arity, attributes};
use crate::error::{Error, Result};
use crate::types::{Kind, Type};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// `state_read state -> tensor`, the same bytes: whoever reads it stands before the state's next
/// write.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct StateRead;

attributes! { StateRead {} }

impl Operator for StateRead {
    const NAME: &'static str = "state_read";
    const CLASS: Class = Class::Movement;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("state_read", operands, 1)?;
        let x = operands[0];
        if x.kind != Kind::State {
            return Err(Error::bad_graph(format!("state_read: state is {x}, expected a state")));
        }
        Ok(vec![Type::tensor(x.dtype, x.shape.clone())])
    }

    fn alias(&self, _: &[&Type]) -> Alias {
        Alias::View { operand: 0, byte_offset: 0 }
    }
}
