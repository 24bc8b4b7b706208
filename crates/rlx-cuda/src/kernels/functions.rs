//! Scalar functions of every type in CUDA C: those of f32 are `scalar.rs`'s.

use super::scalar;
use rlx_core::ops::{Binary, Comparison, Unary};

/// An expression over `x` of a type that is computed with, f32 or f64.
pub(super) fn unary(f: Unary, computed: &str) -> &'static str {
    if computed == "f64" { double(f) } else { scalar::unary(f) }
}

/// An expression over `x`, an f64.
fn double(f: Unary) -> &'static str {
    match f {
        Unary::Silu => "(x / (1.0 + exp(-x)))",
        // 0.5 x (1 + tanh u) = x / (1 + e^-2u), which has no cancellation.
        Unary::Gelu => "(x / (1.0 + exp(-1.5957691216057308 * x * fma(0.044715 * x, x, 1.0))))",
        Unary::Relu => "fmax(x, 0.0)",
        Unary::Sigmoid => "(1.0 / (1.0 + exp(-x)))",
        Unary::Tanh => "tanh(x)",
        Unary::Exp => "exp(x)",
        Unary::Neg => "(-x)",
        Unary::GeluErf => "(0.5 * x * erfc(-0.70710678118654752 * x))",
        Unary::Log => "log(x)",
        Unary::Sqrt => "sqrt(x)",
        Unary::Rsqrt => "(1.0 / sqrt(x))",
        Unary::Abs => "fabs(x)",
        Unary::Atan => "atan(x)",
        Unary::Recip => "(1.0 / x)",
        Unary::Round => "rint(x)",
        Unary::Floor => "floor(x)",
        Unary::Ceil => "ceil(x)",
        Unary::Sign => "(x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : x)",
        Unary::Softplus => "(fmax(x, 0.0) + log1p(exp(-fabs(x))))",
        Unary::Erf => "erf(x)",
        Unary::Elu => "(x >= 0.0 ? x : expm1(x))",
        Unary::HardSwish => "(x * fmin(fmax(x / 6.0 + 0.5, 0.0), 1.0))",
        Unary::QuickGelu => "(x / (1.0 + exp(-1.702 * x)))",
        Unary::HardSigmoid => "fmin(fmax(x / 6.0 + 0.5, 0.0), 1.0)",
        Unary::Sin => "sin(x)",
        Unary::Cos => "cos(x)",
        Unary::Tan => "tan(x)",
    }
}

/// An expression over `a` and `b` of a type that is computed with; none for powers of integers and for booleans.
pub(super) fn binary(f: Binary, computed: &str) -> Option<&'static str> {
    Some(match (f, computed) {
        (_, "bool") => return None,
        // A power of f32 needs more digits than an f32 has on the way; a remainder is exact.
        (Binary::Pow, "f32") => "f32(pow(f64(a), f64(b)))",
        (Binary::Pow, "f64") => "pow(a, b)",
        (Binary::Mod, "f32") => "fmodf(a, b)",
        (Binary::Mod, "f64") => "fmod(a, b)",
        (Binary::Max, "f64") => "fmax(a, b)",
        (Binary::Min, "f64") => "fmin(a, b)",
        (f, "f32" | "f64") => scalar::binary(f)?,
        (Binary::Add, _) => "sum_of(a, b)",
        (Binary::Sub, _) => "difference_of(a, b)",
        (Binary::Mul, _) => "product_of(a, b)",
        (Binary::Max, _) => "(a > b ? a : b)",
        (Binary::Min, _) => "(a < b ? a : b)",
        (Binary::Div, _) => "quotient_of(a, b)",
        (Binary::Mod, _) => "remainder_of(a, b)",
        (Binary::Pow, _) => return None,
    })
}

/// An expression over `a` and `b` that is true or false.
pub(super) fn comparison(f: Comparison) -> &'static str {
    match f {
        Comparison::Eq => "(a == b)",
        Comparison::Ne => "(a != b)",
        Comparison::Lt => "(a < b)",
        Comparison::Le => "(a <= b)",
        Comparison::Gt => "(a > b)",
        Comparison::Ge => "(a >= b)",
    }
}
