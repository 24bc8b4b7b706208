//! Rows of several experts to one, each by its share.

use super::{Binary, Class, Emit, Operator, Reduce, Reduction, RowUse, arity, attributes, rules};
use crate::error::{Error, Result};
use crate::types::{DType, Kind, Shape, Type, ValueId};
use alloc::vec;
use alloc::vec::Vec;

/// `weighted_sum x [M, k, N], shares [M, k] -> [M, N]`: `y[m, n] = sum_j shares[m, j] x[m, j, n]`, rounded
/// once. Floats; shares have the type of `x` or f32.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct WeightedSum;

attributes! { WeightedSum {} }

impl Operator for WeightedSum {
    const NAME: &'static str = "weighted_sum";
    const CLASS: Class = Class::Reduction;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity(Self::NAME, operands, 2)?;
        let [x, shares] = operands else { return Err(Error::internal("weighted_sum: arity")) };
        rules::float_tensor(Self::NAME, "x", x)?;
        let fits = shares.kind == Kind::Tensor && [DType::F32, x.dtype].contains(&shares.dtype);
        match (x.shape.0.as_slice(), shares.shape.0.as_slice()) {
            ([m, k, n], [rows, each]) if fits && m == rows && k == each => {
                Ok(vec![Type::tensor(x.dtype, Shape(vec![m.clone(), n.clone()]))])
            }
            _ => {
                let named = [("x", *x), ("shares", *shares)];
                let need = "x [M, k, N] and shares [M, k] of its type or f32";
                Err(rules::misfit(Self::NAME, &named, need))
            }
        }
    }

    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let &[x, shares] = operands else { return Err(Error::internal("weighted_sum: arity")) };
        let dtype = e.ty(x).dtype;
        let shares = e.with_ones(shares, &[2])?;
        let x = e.wide(x)?;
        let shares = e.cast(shares, e.ty(x).dtype)?;
        let each = e.zip(Binary::Mul, x, shares)?;
        let sum = e.one(Reduce { f: Reduction::Sum, axes: vec![1], keep: false }, &[each])?;
        Ok(Some(vec![e.cast(sum, dtype)?]))
    }

    fn row_use(&self, _: usize, _: &[&Type]) -> RowUse {
        RowUse::Same
    }
}
