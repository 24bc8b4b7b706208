//! Logits of several positions to a token for each, on the device, in integers (see `sample/predict.rs`).

use super::{Class, Operator, PARAMS_WORDS, arity, attributes, canvas, matrix};
use crate::error::{Error, Result};
use crate::types::{DType, Dim, Kind, Shape, Type};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// `predict logits [B, V], params state [32..] u32, canvas state [16 + B] u32 -> ids u32 [B], confidence u32 [B]`.
///
/// For each position of a block a token and its probability in units of 2^-31. It is not the canvas's mask where
/// the position has that already (`sample/canvas.rs`). Of the
/// parameters temperature, min-p and the seed count. Logits are of any float type; f64 ones are rounded to f32 first.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Predict;

attributes! { Predict {} }

impl Operator for Predict {
    const NAME: &'static str = "predict";
    const CLASS: Class = Class::Reduction;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity(Self::NAME, operands, 3)?;
        let [logits, params, onto] = operands else {
            return Err(Error::internal("predict: arity was checked"));
        };
        let (rows, _) = matrix(Self::NAME, "logits", logits)?;
        let block = canvas(Self::NAME, onto)?;
        if logits.kind != Kind::Tensor || !logits.dtype.is_float() || rows != Dim::from(block) {
            return Err(Error::bad_graph(format!(
                "predict: logits is {logits}, expected floats of the canvas's {block} positions"
            )));
        }
        let is_long = |n: &Dim| n.as_static().is_some_and(|n| n >= PARAMS_WORDS);
        let is_one = matches!(params.shape.0.as_slice(), [n] if is_long(n));
        if params.kind != Kind::State || params.dtype != DType::U32 || !is_one {
            return Err(Error::bad_graph(format!(
                "predict: params is {params}, expected a state of {PARAMS_WORDS} words of u32 or more"
            )));
        }
        let words = Type::tensor(DType::U32, Shape::of(&[block]));
        Ok(vec![words.clone(), words])
    }
}
