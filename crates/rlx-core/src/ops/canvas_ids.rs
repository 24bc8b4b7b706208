//! The tokens of a canvas, as a view of it: what a pass of block diffusion reads.

use super::{Alias, CANVAS_WORDS, Class, Operator, arity, attributes, canvas};
use crate::error::Result;
use crate::types::{DType, Shape, Type};
use alloc::vec;
use alloc::vec::Vec;

/// `canvas_ids canvas state [16 + B] u32 -> [B] u32`: the tokens behind the canvas's plan, `sample/canvas.rs`.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct CanvasIds;

attributes! { CanvasIds {} }

impl Operator for CanvasIds {
    const NAME: &'static str = "canvas_ids";
    const CLASS: Class = Class::Movement;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity(Self::NAME, operands, 1)?;
        let block = canvas(Self::NAME, operands[0])?;
        Ok(vec![Type::tensor(DType::U32, Shape::of(&[block]))])
    }

    fn alias(&self, _: &[&Type]) -> Alias {
        Alias::View { operand: 0, byte_offset: 4 * CANVAS_WORDS }
    }
}
