//! Scalar functions as data: one table that the reference, the CPU and the WGSL emitter read.

use crate::math;

/// A function of one f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unary {
    /// `x / (1 + exp(-x))`
    Silu,
    /// `0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))`, arXiv:1606.08415
    Gelu,
    /// `max(x, 0)`
    Relu,
    /// `1 / (1 + exp(-x))`
    Sigmoid,
    /// `tanh(x)`
    Tanh,
    /// `exp(x)`
    Exp,
    /// `-x`
    Neg,
}

/// A function of two f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Binary {
    /// `a + b`
    Add,
    /// `a - b`
    Sub,
    /// `a * b`
    Mul,
    /// `max(a, b)`
    Max,
}

impl Unary {
    /// Every function, with its name in text IR and its WGSL over `x`.
    ///
    /// Tanh of a large argument is NaN on some drivers (inf / inf), so WGSL clamps it first.
    pub const ALL: [(Unary, &'static str, &'static str); 7] = [
        (Unary::Silu, "silu", "(x / (1.0 + exp(-x)))"),
        (
            Unary::Gelu,
            "gelu",
            "(0.5 * x * (1.0 + tanh(clamp(0.7978845608 * (x + 0.044715 * x * x * x), -15.0, 15.0))))",
        ),
        (Unary::Relu, "relu", "max(x, 0.0)"),
        (Unary::Sigmoid, "sigmoid", "(1.0 / (1.0 + exp(-x)))"),
        (Unary::Tanh, "tanh", "tanh(clamp(x, -15.0, 15.0))"),
        (Unary::Exp, "exp", "exp(x)"),
        (Unary::Neg, "neg", "(-x)"),
    ];

    /// The name in text IR.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// A WGSL expression over `x`.
    pub fn wgsl(self) -> &'static str {
        Self::ALL[self as usize].2
    }

    /// The function of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|r| r.1 == name).map(|r| r.0)
    }

    /// The value in f64, the reference's precision.
    pub fn eval(self, x: f64) -> f64 {
        match self {
            Self::Silu => x / (1.0 + math::exp(-x)),
            Self::Gelu => {
                let inner = math::sqrt(2.0 / core::f64::consts::PI) * (x + 0.044715 * x * x * x);
                0.5 * x * (1.0 + math::tanh(inner))
            }
            Self::Relu => x.max(0.0),
            Self::Sigmoid => 1.0 / (1.0 + math::exp(-x)),
            Self::Tanh => math::tanh(x),
            Self::Exp => math::exp(x),
            Self::Neg => -x,
        }
    }
}

impl Binary {
    /// Every function, with its name in text IR and its WGSL over `a` and `b`.
    pub const ALL: [(Binary, &'static str, &'static str); 4] = [
        (Binary::Add, "add", "(a + b)"),
        (Binary::Sub, "sub", "(a - b)"),
        (Binary::Mul, "mul", "(a * b)"),
        (Binary::Max, "max", "max(a, b)"),
    ];

    /// The name in text IR.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// A WGSL expression over `a` and `b`.
    pub fn wgsl(self) -> &'static str {
        Self::ALL[self as usize].2
    }

    /// The function of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|r| r.1 == name).map(|r| r.0)
    }

    /// The value in f64.
    pub fn eval(self, a: f64, b: f64) -> f64 {
        match self {
            Self::Add => a + b,
            Self::Sub => a - b,
            Self::Mul => a * b,
            Self::Max => a.max(b),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_indexed_by_discriminant() {
        for (i, row) in Unary::ALL.iter().enumerate() {
            assert_eq!(row.0 as usize, i);
        }
        for (i, row) in Binary::ALL.iter().enumerate() {
            assert_eq!(row.0 as usize, i);
        }
    }

    #[test]
    fn gelu_and_silu_have_their_published_values() {
        assert!((Unary::Gelu.eval(1.0) - 0.841_192).abs() < 1e-6);
        assert!((Unary::Silu.eval(1.0) - 0.731_058_6).abs() < 1e-6);
    }
}
