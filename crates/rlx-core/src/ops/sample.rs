//! Logits to a token, on the device, in integers (see `sample/`).

use super::{Class, Operator, PARAMS_WORDS, arity, attributes, control, expect};
use crate::error::{Error, Result};
use crate::types::{DType, Dim, DimOp, Kind, Shape, Type};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// `sample logits [1, V], params state [32 + ceil(V / 32)] u32, counts state [V] u32, ctl -> counts', ctl'`.
///
/// Chooses an id, counts it, and advances the control block; a control block that is done stays
/// as it is. Behind the parameters is a bit for each token, read where the parameters say so: whether it may be chosen.
/// Logits are of any float type; f64 ones are rounded to f32 first.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Sample;

attributes! { Sample {} }

impl Operator for Sample {
    const NAME: &'static str = "sample";
    const CLASS: Class = Class::Reduction;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("sample", operands, 4)?;
        let [logits, params, counts, ctl] = operands else {
            return Err(Error::internal("sample: arity was checked"));
        };
        let vocab = logits.shape.last();
        // A symbol is checked when it is bound.
        let one_row =
            logits.shape.rank() == 2 && logits.shape.0[0].as_static().is_none_or(|rows| rows == 1);
        let floats = logits.kind == Kind::Tensor && logits.dtype.is_float();
        if !floats || !one_row {
            return Err(Error::bad_graph(format!(
                "sample: logits is {logits}, expected floats [1, V]"
            )));
        }
        let mask = vocab.apply(DimOp::CeilDiv, &Dim::from(32u64))?;
        let words = Shape(vec![Dim::from(PARAMS_WORDS).add(&mask)?]);
        expect("sample", "params", params, &Type::state(DType::U32, words))?;
        expect("sample", "counts", counts, &Type::state(DType::U32, Shape(vec![vocab])))?;
        control("sample", ctl)?;
        Ok(vec![(*counts).clone(), (*ctl).clone()])
    }

    fn writes(&self) -> &'static [(usize, usize)] {
        &[(2, 0), (3, 1)]
    }

    fn control(&self, _: usize) -> Option<usize> {
        Some(3)
    }
}
