//! A scalar function of every element.

use super::view::scalar_bytes;
use super::{View, arity};
use crate::error::Result;
use crate::ops::Map;
use alloc::vec;
use alloc::vec::Vec;

pub(super) fn run(op: &Map, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
    let [x] = operands else { return Err(arity("map")) };
    let y: Vec<f64> = x.f64s()?.iter().map(|&v| op.f.eval(v)).collect();
    Ok(vec![scalar_bytes(x.ty.dtype, &y)?])
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use crate::ops::{Map, Unary};

    type Formula = fn(f64) -> f64;

    #[test]
    fn every_function_has_its_formula() {
        let x = [-3.0f32, -0.5, 0.0, 0.25, 2.0];
        let formulas: [(Unary, Formula); 7] = [
            (Unary::Silu, |x| x / (1.0 + (-x).exp())),
            (Unary::Gelu, |x| {
                0.5 * x
                    * (1.0
                        + ((2.0 / core::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3)))
                            .tanh())
            }),
            (Unary::Relu, |x| if x > 0.0 { x } else { 0.0 }),
            (Unary::Sigmoid, |x| x.exp() / (1.0 + x.exp())),
            (Unary::Tanh, f64::tanh),
            (Unary::Exp, f64::exp),
            (Unary::Neg, |x| 0.0 - x),
        ];
        for (f, formula) in formulas {
            let y = run1(Map { f }, &[&f32s(&[5], &x)]);
            close(&y, &x.map(|v| formula(f64::from(v))));
        }
    }
}
