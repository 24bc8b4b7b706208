//! A scalar function of every element.

use super::{
    Alias, Binary, Clamp, Class, Comparison, Emit, Operator, RowUse, Unary, arity, attributes,
    float_tensor,
};
use crate::error::{Error, Result};
use crate::math;
use crate::types::{DType, Type, ValueId};
use alloc::vec;
use alloc::vec::Vec;

/// `map x -> x`: `y[i] = f(x[i])` of floats, the same shape and type.
#[derive(Clone, Debug, PartialEq)]
pub struct Map {
    /// The function.
    pub f: Unary,
}

attributes! { Map { f } }

/// A composed function, written with those that are not.
fn compose(f: Unary, e: &mut dyn Emit, x: ValueId) -> Result<ValueId> {
    use Binary::{Add, Div, Max, Mul, Sub};
    Ok(match f {
        Unary::Silu => {
            let share = e.map(Unary::Sigmoid, x)?;
            e.zip(Mul, x, share)?
        }
        Unary::Gelu => {
            let square = e.zip(Mul, x, x)?;
            let cubic = e.zip_number(Mul, square, 0.044715)?;
            let cubic = e.zip_number(Add, cubic, 1.0)?;
            let inner = e.zip(Mul, cubic, x)?;
            let inner = e.zip_number(Mul, inner, math::sqrt(2.0 / core::f64::consts::PI))?;
            let tanh = e.map(Unary::Tanh, inner)?;
            half_of_one_more(e, tanh, x)?
        }
        Unary::GeluErf => {
            let inner = e.zip_number(Mul, x, core::f64::consts::FRAC_1_SQRT_2)?;
            let erf = compose(Unary::Erf, e, inner)?;
            half_of_one_more(e, erf, x)?
        }
        // sign(x) (1 - (a1 t + .. + a5 t^5) exp(-x^2)), t = 1 / (1 + p |x|), within 1.5e-7
        // [Abramowitz and Stegun 7.1.26].
        Unary::Erf => {
            const A: [f64; 5] = [1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592];
            let size = e.map(Unary::Abs, x)?;
            let t = e.zip_number(Mul, size, 0.3275911)?;
            let t = e.zip_number(Add, t, 1.0)?;
            let t = e.map(Unary::Recip, t)?;
            let mut sum = e.zip_number(Mul, t, A[0])?;
            for a in &A[1..] {
                let next = e.zip_number(Add, sum, *a)?;
                sum = e.zip(Mul, next, t)?;
            }
            let square = e.zip(Mul, x, x)?;
            let square = e.map(Unary::Neg, square)?;
            let bell = e.map(Unary::Exp, square)?;
            let tail = e.zip(Mul, sum, bell)?;
            let tail = e.map(Unary::Neg, tail)?;
            let erf = e.zip_number(Add, tail, 1.0)?;
            let sign = e.map(Unary::Sign, x)?;
            e.zip(Mul, sign, erf)?
        }
        Unary::Softplus => {
            let size = e.map(Unary::Abs, x)?;
            let size = e.map(Unary::Neg, size)?;
            let small = e.map(Unary::Exp, size)?;
            let small = e.zip_number(Add, small, 1.0)?;
            let small = e.map(Unary::Log, small)?;
            let large = e.zip_number(Max, x, 0.0)?;
            e.zip(Add, large, small)?
        }
        Unary::Elu => {
            let zero = e.like(x, 0.0)?;
            let below = e.compare(Comparison::Lt, x, zero)?;
            let exp = e.map(Unary::Exp, x)?;
            let exp = e.zip_number(Sub, exp, 1.0)?;
            e.select(below, exp, x)?
        }
        Unary::HardSwish => {
            let share = compose(Unary::HardSigmoid, e, x)?;
            e.zip(Mul, x, share)?
        }
        Unary::QuickGelu => {
            let inner = e.zip_number(Mul, x, 1.702)?;
            let share = e.map(Unary::Sigmoid, inner)?;
            e.zip(Mul, x, share)?
        }
        Unary::HardSigmoid => {
            let line = e.zip_number(Div, x, 6.0)?;
            let line = e.zip_number(Add, line, 0.5)?;
            e.one(Clamp { min: 0.0, max: 1.0 }, &[line])?
        }
        f => e.map(f, x)?,
    })
}

/// `(1 + y) x / 2`
fn half_of_one_more(e: &mut dyn Emit, y: ValueId, x: ValueId) -> Result<ValueId> {
    let more = e.zip_number(Binary::Add, y, 1.0)?;
    let half = e.zip_number(Binary::Mul, more, 0.5)?;
    e.zip(Binary::Mul, half, x)
}

impl Operator for Map {
    const NAME: &'static str = "map";
    const CLASS: Class = Class::Elementwise;

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        arity("map", operands, 1)?;
        float_tensor("map", "x", operands[0])?;
        Ok(vec![operands[0].clone()])
    }

    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let &[x] = operands else { return Err(Error::internal("map: arity was checked")) };
        let dtype = e.ty(x).dtype;
        // Their series is good for an f32.
        let series = matches!(self.f, Unary::Erf | Unary::GeluErf);
        if !self.f.is_composed() || (series && dtype == DType::F64) {
            return Ok(None);
        }
        let x = e.wide(x)?;
        let y = compose(self.f, e, x)?;
        Ok(Some(vec![e.cast(y, dtype)?]))
    }

    fn alias(&self, _: &[&Type]) -> Alias {
        Alias::Elementwise { operand: 0 }
    }

    fn row_use(&self, _: usize, _: &[&Type]) -> RowUse {
        RowUse::Same
    }
}
