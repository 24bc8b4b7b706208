//! Matrix products of two tensors, batch by batch [ONNX MatMul].

use super::{Class, Emit, MatMul, Operator, arity, attributes, broadcast, rules};
use crate::error::{Error, Result};
use crate::types::{Shape, Type, ValueId};
use alloc::vec;
use alloc::vec::Vec;

/// `batch_matmul a [.., M, K], b [.., K, N] -> [.., M, N]`: `y = a b` of the last two axes. The
/// axes before them broadcast as NumPy's do. Both are tensors of one float type, the result's.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct BatchMatMul {
    /// `b` is `[.., N, K]`, rows of it are columns of the product.
    pub transpose_b: bool,
}

attributes! { BatchMatMul { transpose_b } }

impl Operator for BatchMatMul {
    const NAME: &'static str = "batch_matmul";
    const CLASS: Class = Class::Compute;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        const NAME: &str = BatchMatMul::NAME;
        arity(NAME, operands, 2)?;
        let [a, b] = operands else { return Err(Error::internal("batch_matmul: arity")) };
        let named = [("a", *a), ("b", *b)];
        let dtype = rules::same_floats(NAME, &named)?;
        let ([a_batch @ .., m, k], [b_batch @ .., b0, b1]) =
            (a.shape.0.as_slice(), b.shape.0.as_slice())
        else {
            return Err(rules::misfit(NAME, &named, "at least two axes each"));
        };
        let (b_k, n) = if self.transpose_b { (b1, b0) } else { (b0, b1) };
        let batch = broadcast::sizes(&[a_batch, b_batch]).ok().filter(|_| k == b_k);
        let Some(mut dims) = batch else {
            let need = if self.transpose_b {
                "[.., M, K] and [.., N, K] with batch axes that broadcast"
            } else {
                "[.., M, K] and [.., K, N] with batch axes that broadcast"
            };
            return Err(rules::misfit(NAME, &named, need));
        };
        dims.extend([m.clone(), n.clone()]);
        Ok(vec![Type::tensor(dtype, Shape(dims))])
    }

    /// A `b` that is one matrix is a weight.
    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let [a, b] = *operands else { return Err(Error::internal("batch_matmul: arity")) };
        if e.ty(b).shape.rank() != 2 {
            return Ok(None);
        }
        let w = if self.transpose_b { b } else { e.transpose(b, &[1, 0])? };
        Ok(Some(vec![e.one(MatMul::plain(), &[a, w])?]))
    }
}
