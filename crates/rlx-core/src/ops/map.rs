//! A scalar function of every element.

use super::{
    Alias, Attrs, Binary, Clamp, Class, Comparison, Emit, Operator, Unary, arity, float_tensor,
    parts,
};
use crate::error::{Error, Result};
use crate::math;
use crate::types::{DType, Type, ValueId};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// `map x -> x`: `y[i] = f(x[i])` of floats, the same shape and type.
#[derive(Clone, Debug, PartialEq)]
pub struct Map {
    /// The function.
    pub f: Unary,
}

/// A composed function, written with those that are not.
fn compose(f: Unary, e: &mut dyn Emit, x: ValueId) -> Result<ValueId> {
    use Binary::{Add, Div, Max, Mul, Sub};
    Ok(match f {
        Unary::Silu => {
            let share = parts::map(e, Unary::Sigmoid, x)?;
            parts::zip(e, Mul, x, share)?
        }
        Unary::Gelu => {
            let square = parts::zip(e, Mul, x, x)?;
            let cubic = parts::with(e, Mul, square, 0.044715)?;
            let cubic = parts::with(e, Add, cubic, 1.0)?;
            let inner = parts::zip(e, Mul, cubic, x)?;
            let inner = parts::with(e, Mul, inner, math::sqrt(2.0 / core::f64::consts::PI))?;
            let tanh = parts::map(e, Unary::Tanh, inner)?;
            half_of_one_more(e, tanh, x)?
        }
        Unary::GeluErf => {
            let inner = parts::with(e, Mul, x, core::f64::consts::FRAC_1_SQRT_2)?;
            let erf = compose(Unary::Erf, e, inner)?;
            half_of_one_more(e, erf, x)?
        }
        // sign(x) (1 - (a1 t + .. + a5 t^5) exp(-x^2)), t = 1 / (1 + p |x|), within 1.5e-7
        // [Abramowitz and Stegun 7.1.26].
        Unary::Erf => {
            const A: [f64; 5] = [1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592];
            let size = parts::map(e, Unary::Abs, x)?;
            let t = parts::with(e, Mul, size, 0.3275911)?;
            let t = parts::with(e, Add, t, 1.0)?;
            let t = parts::map(e, Unary::Recip, t)?;
            let mut sum = parts::with(e, Mul, t, A[0])?;
            for a in &A[1..] {
                let next = parts::with(e, Add, sum, *a)?;
                sum = parts::zip(e, Mul, next, t)?;
            }
            let square = parts::zip(e, Mul, x, x)?;
            let square = parts::map(e, Unary::Neg, square)?;
            let bell = parts::map(e, Unary::Exp, square)?;
            let tail = parts::zip(e, Mul, sum, bell)?;
            let tail = parts::map(e, Unary::Neg, tail)?;
            let erf = parts::with(e, Add, tail, 1.0)?;
            let sign = parts::map(e, Unary::Sign, x)?;
            parts::zip(e, Mul, sign, erf)?
        }
        Unary::Softplus => {
            let size = parts::map(e, Unary::Abs, x)?;
            let size = parts::map(e, Unary::Neg, size)?;
            let small = parts::map(e, Unary::Exp, size)?;
            let small = parts::with(e, Add, small, 1.0)?;
            let small = parts::map(e, Unary::Log, small)?;
            let large = parts::with(e, Max, x, 0.0)?;
            parts::zip(e, Add, large, small)?
        }
        Unary::Elu => {
            let zero = parts::like(e, x, 0.0)?;
            let below = parts::compare(e, Comparison::Lt, x, zero)?;
            let exp = parts::map(e, Unary::Exp, x)?;
            let exp = parts::with(e, Sub, exp, 1.0)?;
            parts::select(e, below, exp, x)?
        }
        Unary::HardSwish => {
            let share = compose(Unary::HardSigmoid, e, x)?;
            parts::zip(e, Mul, x, share)?
        }
        Unary::HardSigmoid => {
            let line = parts::with(e, Div, x, 6.0)?;
            let line = parts::with(e, Add, line, 0.5)?;
            e.one(Clamp { min: 0.0, max: 1.0 }, &[line])?
        }
        f => parts::map(e, f, x)?,
    })
}

/// `(1 + y) x / 2`
fn half_of_one_more(e: &mut dyn Emit, y: ValueId, x: ValueId) -> Result<ValueId> {
    let more = parts::with(e, Binary::Add, y, 1.0)?;
    let half = parts::with(e, Binary::Mul, more, 0.5)?;
    parts::zip(e, Binary::Mul, half, x)
}

impl Operator for Map {
    const NAME: &'static str = "map";
    const CLASS: Class = Class::Elementwise;

    fn attrs(&self) -> Attrs {
        Attrs::none().name("f", self.f.name())
    }

    fn from_attrs(attrs: &Attrs) -> Result<Self> {
        attrs.only(&["f"])?;
        let name = attrs.get_name("f")?;
        Unary::from_name(name)
            .map(|f| Map { f })
            .ok_or_else(|| Error::bad_graph(format!("map: unknown function {name}")))
    }

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
        let x = parts::wide(e, x)?;
        let y = compose(self.f, e, x)?;
        Ok(Some(vec![parts::cast(e, y, dtype)?]))
    }

    fn alias(&self, _: &[&Type]) -> Alias {
        Alias::Elementwise { operand: 0 }
    }
}
