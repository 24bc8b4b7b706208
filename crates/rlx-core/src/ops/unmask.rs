//! Predictions to tokens of a block, on the device (see `sample/canvas.rs`).

use super::{Class, Operator, arity, attributes, canvas, expect};
use crate::error::{Error, Result};
use crate::types::{DType, Shape, Type};
use alloc::vec;
use alloc::vec::Vec;

/// `unmask ids u32 [B], confidence u32 [B], canvas state [16 + B] u32 -> canvas'`.
///
/// Places predictions that are likely enough, or the likeliest of them, where the canvas has masks, and replaces tokens
/// that were placed before if its plan says so. A canvas that is finished stays as it is.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Unmask;

attributes! { Unmask {} }

impl Operator for Unmask {
    const NAME: &'static str = "unmask";
    const CLASS: Class = Class::Reduction;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity(Self::NAME, operands, 3)?;
        let [ids, confidence, onto] = operands else {
            return Err(Error::internal("unmask: arity was checked"));
        };
        let words = Type::tensor(DType::U32, Shape::of(&[canvas(Self::NAME, onto)?]));
        expect(Self::NAME, "ids", ids, &words)?;
        expect(Self::NAME, "confidence", confidence, &words)?;
        Ok(vec![(*onto).clone()])
    }

    fn writes(&self) -> &'static [(usize, usize)] {
        &[(2, 0)]
    }
}
