//! Scalar functions in WGSL: the decoder's table, and what only graphs ask for.

use crate::kernels::scalar;
use rlx_core::ops::{Binary, Comparison, Unary};

/// Functions that an expression over `x` calls, and the expression. Of `sin`, `cos` and `tan`, of which WGSL's
/// own promise little, the quarter turns are counted in integers, however large `x` is.
pub(super) fn unary(f: Unary) -> Option<(&'static str, &'static str)> {
    let turn = wgsl!(text: concat!(include_str!("wide_product.wgsl"), include_str!("turn.wgsl")));
    match f {
        Unary::Sin => Some((turn, "sin_of(x)")),
        Unary::Cos => Some((turn, "cos_of(x)")),
        Unary::Tan => Some((turn, "tan_of(x)")),
        _ => scalar::unary(f),
    }
}

/// The same over `a` and `b`. `pow` and `mod` compute in integers: `pow` is within 2e-7 of its value, `mod` is
/// exact.
pub(super) fn binary(f: Binary) -> Option<(&'static str, &'static str)> {
    let power = wgsl!(text: concat!(include_str!("wide_product.wgsl"), include_str!("power.wgsl")));
    match f {
        Binary::Pow => Some((power, "pow_of(a, b)")),
        Binary::Mod => Some((wgsl!("remainder.wgsl"), "mod_of(a, b)")),
        _ => scalar::binary(f).map(|text| ("", text)),
    }
}

/// An expression of type bool over `a` and `b`.
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
