//! The id that was sampled last, as a view of the control block: a decode program's input, and
//! the four bytes a step reads back.

use super::{Alias, Class, Operator, arity, attributes, control};
use crate::error::Result;
use crate::types::{DType, Shape, Type};
use alloc::vec;
use alloc::vec::Vec;

/// `token ctl -> [1] u32`.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Token;

attributes! { Token {} }

impl Token {
    /// Word of the control block that holds the id.
    pub const WORD: u64 = 2;
}

impl Operator for Token {
    const NAME: &'static str = "token";
    const CLASS: Class = Class::Movement;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("token", operands, 1)?;
        control("token", operands[0])?;
        Ok(vec![Type::tensor(DType::U32, Shape::of(&[1]))])
    }

    fn alias(&self, _: &[&Type]) -> Alias {
        Alias::View { operand: 0, byte_offset: 4 * Self::WORD }
    }

    fn control(&self, _: usize) -> Option<usize> {
        Some(0)
    }
}
