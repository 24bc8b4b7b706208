//! A scalar function of every element.

use crate::error::Result;
use crate::ops::Map;
use crate::reference::view::scalar_bytes;
use crate::reference::{Run, View, arity};
use alloc::vec;
use alloc::vec::Vec;

impl Run for Map {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [x] = operands else { return Err(arity("map")) };
        let y: Vec<f64> = x.f64s()?.iter().map(|&v| self.f.eval(v)).collect();
        Ok(vec![scalar_bytes(x.ty.dtype, &y)?])
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::{Map, Unary};
    use crate::reference::testing::*;
    use crate::reference::type_rules::*;
    use crate::types::DType;

    type Formula = fn(f64) -> f64;

    /// erf by its power series, which converges everywhere.
    fn erf(x: f64) -> f64 {
        let (mut term, mut sum) = (x, x);
        for n in 1..100 {
            term *= -x * x / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        sum * 2.0 / core::f64::consts::PI.sqrt()
    }

    const FORMULAS: [(Unary, Formula); 27] = [
        (Unary::Silu, |x| x / (1.0 + (-x).exp())),
        (Unary::Gelu, |x| {
            0.5 * x
                * (1.0 + ((2.0 / core::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh())
        }),
        (Unary::Relu, |x| if x > 0.0 { x } else { 0.0 }),
        (Unary::Sigmoid, |x| x.exp() / (1.0 + x.exp())),
        (Unary::Tanh, f64::tanh),
        (Unary::Exp, f64::exp),
        (Unary::Neg, |x| 0.0 - x),
        (Unary::GeluErf, |x| 0.5 * x * (1.0 + erf(x / 2f64.sqrt()))),
        (Unary::Log, f64::ln),
        (Unary::Sqrt, f64::sqrt),
        (Unary::Rsqrt, |x| x.powf(-0.5)),
        (Unary::Abs, f64::abs),
        (Unary::Sin, f64::sin),
        (Unary::Cos, f64::cos),
        (Unary::Tan, f64::tan),
        (Unary::Atan, f64::atan),
        (Unary::Recip, f64::recip),
        (Unary::Round, f64::round_ties_even),
        (Unary::Floor, f64::floor),
        (Unary::Ceil, f64::ceil),
        (Unary::Sign, |x| if x > 0.0 { 1.0 } else { -f64::from(x < 0.0) }),
        (Unary::Softplus, |x| (1.0 + x.exp()).ln()),
        (Unary::Erf, erf),
        (Unary::Elu, |x| if x > 0.0 { x } else { x.exp() - 1.0 }),
        (Unary::HardSwish, |x| x * (x + 3.0).clamp(0.0, 6.0) / 6.0),
        (Unary::QuickGelu, |x| x / (1.0 + (-1.702 * x).exp())),
        (Unary::HardSigmoid, |x| (x + 3.0).clamp(0.0, 6.0) / 6.0),
    ];

    #[test]
    fn every_function_has_its_formula() {
        for (f, formula) in FORMULAS {
            let positive = matches!(f, Unary::Log | Unary::Sqrt | Unary::Rsqrt);
            let x = [-3.5f32, -0.5, 0.0, 0.25, 2.5];
            let x = if positive { x.map(|x| x.abs() + 0.5) } else { x };
            let x = if f == Unary::Recip { x.map(|x| x + 0.125) } else { x };
            let y = run1(Map { f }, &[&f32s(&[5], &x)]);
            close(&y, &x.map(|v| formula(f64::from(v))));
        }
    }

    #[test]
    fn halves_of_round_go_to_the_even_integer() {
        let x = f32s(&[6], &[0.5, 1.5, 2.5, -0.5, -1.5, 2.4]);
        assert_eq!(run1(Map { f: Unary::Round }, &[&x]), [0.0, 2.0, 2.0, 0.0, -2.0, 2.0]);
    }

    #[test]
    fn ends_of_functions_are_what_they_tend_to() {
        let y = |f, x| run1(Map { f }, &[&f32s(&[1], &[x])])[0];
        assert_eq!(y(Unary::Softplus, 1000.0), 1000.0);
        assert_eq!(y(Unary::Softplus, f32::NEG_INFINITY), 0.0);
        assert_eq!(y(Unary::Erf, f32::INFINITY), 1.0);
        assert_eq!(y(Unary::Elu, f32::NEG_INFINITY), -1.0);
        assert_eq!(y(Unary::HardSwish, -1e30), 0.0);
        assert_eq!(y(Unary::Log, 0.0), f32::NEG_INFINITY);
        assert_eq!(y(Unary::Recip, -0.0), f32::NEG_INFINITY);
        assert!(y(Unary::Sign, -0.0).is_sign_negative() && y(Unary::Neg, 0.0).is_sign_negative());
        for f in [Unary::Sqrt, Unary::Log] {
            assert!(y(f, -1.0).is_nan());
        }
        for (f, _) in Unary::ALL {
            let number = matches!(f, Unary::Relu | Unary::HardSigmoid);
            assert_eq!(y(f, f32::NAN).is_nan(), !number, "{}", f.name());
        }
    }

    #[test]
    fn all_floats_have_maps_and_halves_round_once() {
        assert_eq!(gives(Map { f: Unary::Exp }, &["SEQx0xbf16"]), ["tensor<SEQx0xbf16>"]);
        let y = |dtype, x| run_f64s(Map { f: Unary::Exp }, &[&numbers(dtype, &[1], &[x])])[0];
        assert!((y(DType::F64, 1.0) - core::f64::consts::E).abs() < 1e-15);
        assert_eq!(y(DType::F16, 1.0), 2.71875);
        assert_eq!(y(DType::BF16, 1.0), 2.71875);
        assert_eq!(y(DType::F16, 12.0), f64::INFINITY);
        assert_eq!(
            refuses(Map { f: Unary::Exp }, &["2xi32"]),
            "map: x is tensor<2xi32>, expected a tensor of floats"
        );
    }

    #[test]
    fn composed_functions_have_parts() {
        let x: alloc::vec::Vec<f32> = (-60..=60).map(|i| i as f32 * 0.1).collect();
        for (f, _) in Unary::ALL.into_iter().filter(|row| row.0.is_composed()) {
            decomposes(Map { f }, &[&f32s(&[11, 11], &x)], 1e-6);
            decomposes(Map { f }, &[&floats(DType::F16, &[121], &x)], 1e-3);
            decomposes(Map { f }, &[&floats(DType::BF16, &[121], &x)], 8e-3);
        }
        let x = numbers(DType::F64, &[3], &[-1.0, 0.5, 2.0]);
        decomposes(Map { f: Unary::Softplus }, &[&x], 1e-15);
    }

    #[test]
    fn names_are_those_of_the_table() {
        for (f, name) in Unary::ALL {
            assert_eq!(text(Map { f }, &["2xf32"]), alloc::format!("map {{f = {name}}}"));
        }
    }
}
