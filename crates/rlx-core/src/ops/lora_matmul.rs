//! A product with a low-rank addition to its weight (arXiv:2106.09685).

use super::{Binary, Class, Emit, MatMul, Operator, arity, attributes, matrix, rules};
use crate::error::{Error, Result};
use crate::types::{Shape, Type, ValueId};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// `lora_matmul x [.., K], w [N, K], a [R, K], b [N, R] -> [.., N]`:
/// `y = x W^T + scale (x A^T) B^T`. `w` is of any float or packed type, `a` and `b` of any float
/// type; the result has the type of `x`.
#[derive(Clone, Debug, PartialEq)]
pub struct LoraMatMul {
    /// Multiplies the addition, `alpha / R` of the adapter.
    pub scale: f32,
}

attributes! { LoraMatMul { scale } }

impl Operator for LoraMatMul {
    const NAME: &'static str = "lora_matmul";
    const CLASS: Class = Class::Compute;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        const NAME: &str = LoraMatMul::NAME;
        arity(NAME, operands, 4)?;
        let [x, w, a, b] = operands else { return Err(Error::internal("lora_matmul: arity")) };
        super::float_tensor(NAME, "x", x)?;
        super::float_tensor(NAME, "a", a)?;
        super::float_tensor(NAME, "b", b)?;
        let ((n, k), (r, a_k), (b_n, b_r)) =
            (matrix(NAME, "w", w)?, matrix(NAME, "a", a)?, matrix(NAME, "b", b)?);
        let fits = rules::is_weight(w)
            && x.shape.rank() > 0
            && [&x.shape.last(), &a_k] == [&k, &k]
            && b_n == n
            && b_r == r;
        if !fits {
            let need = format!(
                "w [N, K], a [R, K] and b [N, R] to match x's last axis {}",
                x.shape.last()
            );
            return Err(rules::misfit(NAME, &[("x", x), ("w", w), ("a", a), ("b", b)], &need));
        }
        let mut dims = x.shape.0.clone();
        dims.pop();
        dims.push(n);
        Ok(vec![Type::tensor(x.dtype, Shape(dims))])
    }

    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let [x, w, a, b] = *operands else { return Err(Error::internal("lora_matmul: arity")) };
        let y = e.one(MatMul::plain(), &[x, w])?;
        let narrow = e.one(MatMul::plain(), &[x, a])?;
        let narrow = e.zip_number(Binary::Mul, narrow, self.scale.into())?;
        let low = e.one(MatMul::plain(), &[narrow, b])?;
        Ok(Some(vec![e.zip(Binary::Add, y, low)?]))
    }
}
