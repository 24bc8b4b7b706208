//! Shares of exponentials along an axis.

use super::{
    Binary, Class, Emit, Operator, Reduction, RowUse, Unary, arity, attributes, float_tensor, rules,
};
use crate::error::{Error, Result};
use crate::types::{Type, ValueId};
use alloc::vec;
use alloc::vec::Vec;

/// `softmax x -> x`: `exp(x[i] - m) / sum of exp(x[j] - m)` along `axis`, `m` its largest element.
/// Floats, the same shape and type. Where all are `-inf` the results are NaN.
#[derive(Clone, Debug, PartialEq)]
pub struct Softmax {
    /// The axis.
    pub axis: usize,
}

attributes! { Softmax { axis } }

impl Operator for Softmax {
    const NAME: &'static str = "softmax";
    const CLASS: Class = Class::Reduction;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("softmax", operands, 1)?;
        float_tensor("softmax", "x", operands[0])?;
        rules::has_axis("softmax", operands[0], self.axis)?;
        Ok(vec![operands[0].clone()])
    }
    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let &[x] = operands else { return Err(Error::internal("softmax: arity was checked")) };
        let dtype = e.ty(x).dtype;
        let x = e.wide(x)?;
        let largest = e.reduce(Reduction::Max, x, &[self.axis])?;
        let below = e.zip(Binary::Sub, x, largest)?;
        let shares = e.map(Unary::Exp, below)?;
        let sum = e.reduce(Reduction::Sum, shares, &[self.axis])?;
        let y = e.zip(Binary::Div, shares, sum)?;
        Ok(Some(vec![e.cast(y, dtype)?]))
    }

    fn row_use(&self, _: usize, operands: &[&Type]) -> RowUse {
        let last = operands.first().is_some_and(|x| x.shape.rank() == self.axis + 1);
        if last { RowUse::Same } else { RowUse::All }
    }
}
