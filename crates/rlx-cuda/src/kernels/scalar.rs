//! Scalar functions in CUDA C.

use rlx_core::ops::{Binary, Unary};

/// An expression over `x`, an f32.
pub(super) fn unary(f: Unary) -> &'static str {
    match f {
        Unary::Silu => "(x / (1.0f + expf(-x)))",
        // 0.5 x (1 + tanh u) = x / (1 + e^-2u), which has no cancellation.
        Unary::Gelu => "(x / (1.0f + expf(-1.5957691216f * x * fmaf(0.044715f * x, x, 1.0f))))",
        Unary::Relu => "fmaxf(x, 0.0f)",
        Unary::Sigmoid => "(1.0f / (1.0f + expf(-x)))",
        Unary::Tanh => "tanhf(x)",
        Unary::Exp => "expf(x)",
        Unary::Neg => "(-x)",
        Unary::GeluErf => "(0.5f * x * erfcf(-0.70710678f * x))",
        Unary::Log => "logf(x)",
        Unary::Sqrt => "sqrtf(x)",
        Unary::Rsqrt => "(1.0f / sqrtf(x))",
        Unary::Abs => "fabsf(x)",
        Unary::Atan => "atanf(x)",
        Unary::Recip => "(1.0f / x)",
        Unary::Round => "rintf(x)",
        Unary::Floor => "floorf(x)",
        Unary::Ceil => "ceilf(x)",
        Unary::Sign => "(x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x)",
        Unary::Softplus => "(fmaxf(x, 0.0f) + log1pf(expf(-fabsf(x))))",
        Unary::Erf => "erff(x)",
        Unary::Elu => "(x >= 0.0f ? x : expm1f(x))",
        Unary::HardSwish => "(x * fminf(fmaxf(x / 6.0f + 0.5f, 0.0f), 1.0f))",
        Unary::QuickGelu => "(x / (1.0f + expf(-1.702f * x)))",
        Unary::HardSigmoid => "fminf(fmaxf(x / 6.0f + 0.5f, 0.0f), 1.0f)",
        Unary::Sin => "sinf(x)",
        Unary::Cos => "cosf(x)",
        Unary::Tan => "tanf(x)",
    }
}

/// An expression over `a` and `b`, two f32; none for what no test has compared.
pub(super) fn binary(f: Binary) -> Option<&'static str> {
    Some(match f {
        Binary::Add => "(a + b)",
        Binary::Sub => "(a - b)",
        Binary::Mul => "(a * b)",
        Binary::Max => "fmaxf(a, b)",
        Binary::Div => "(a / b)",
        Binary::Min => "fminf(a, b)",
        Binary::Pow | Binary::Mod => return None,
    })
}
