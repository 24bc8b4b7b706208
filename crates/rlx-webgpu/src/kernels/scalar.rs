//! Scalar functions in WGSL: one table of each kind, and the functions that their expressions call.
//!
//! WGSL lets an implementation assume that no infinity and no NaN is ever made, so none is made on
//! the way to a finite value: arguments of `exp` stay within ±90, squares and cubes are of clamped
//! values. The polynomials interpolate at Chebyshev nodes; in f32 erfc is within 3.4e-7 of itself
//! (but for the rounding of the exponent), erf below 1 within 1.8e-7, atan within 1.2e-7.

use rlx_core::ops::{Binary, Unary};

/// Definitions of the WGSL functions that an expression over `x` calls, empty where it calls none, and the
/// expression. `x` is an f32. Names of definitions end in `_of`; a module that has several functions needs
/// each text once.
///
/// `None` for what WGSL gives too little precision: it promises `sin`, `cos` and `tan` within 2^-11 between
/// -pi and pi and nothing beyond, and a reduction of the argument in f32 may be reordered to nothing. Graphs
/// have kernels that reduce it in integers.
pub fn unary(f: Unary) -> Option<(&'static str, &'static str)> {
    Some(match f {
        Unary::Silu => (SILU, "silu_of(x)"),
        Unary::Gelu => (GELU, "gelu_of(x)"),
        Unary::Relu => ("", "max(x, 0.0)"),
        Unary::Sigmoid => ("", "(1.0 / (1.0 + exp(-max(x, -80.0))))"),
        // Of a large argument it is NaN on some drivers (inf / inf).
        Unary::Tanh => ("", "tanh(clamp(x, -15.0, 15.0))"),
        Unary::Exp => ("", "exp(x)"),
        Unary::Neg => ("", "(-x)"),
        Unary::GeluErf => (GELU_ERF, "gelu_erf_of(x)"),
        Unary::Log => ("", "log(x)"),
        Unary::Sqrt => ("", "sqrt(x)"),
        Unary::Rsqrt => ("", "inverseSqrt(x)"),
        Unary::Abs => ("", "abs(x)"),
        Unary::Atan => (ATAN, "atan_of(x)"),
        Unary::Recip => ("", "(1.0 / x)"),
        Unary::Round => ("", "round(x)"),
        Unary::Floor => ("", "floor(x)"),
        Unary::Ceil => ("", "ceil(x)"),
        Unary::Sign => ("", "sign(x)"),
        Unary::Softplus => (SOFTPLUS, "softplus_of(x)"),
        Unary::Erf => (ERF, "erf_of(x)"),
        Unary::Elu => (ELU, "elu_of(x)"),
        Unary::HardSwish => ("", "(x * clamp(x / 6.0 + 0.5, 0.0, 1.0))"),
        Unary::QuickGelu => (QUICK_GELU, "quick_gelu_of(x)"),
        Unary::HardSigmoid => ("", "clamp(x / 6.0 + 0.5, 0.0, 1.0)"),
        Unary::Sin | Unary::Cos | Unary::Tan => return None,
    })
}

/// An expression over `a` and `b`, two f32.
///
/// `None` for `pow`, which is as far off as its logarithm times `b`, and for `mod`, whose quotient may round up
/// to the next integer and put it a whole `b` off. Graphs have kernels that compute both in integers.
pub fn binary(f: Binary) -> Option<&'static str> {
    Some(match f {
        Binary::Add => "(a + b)",
        Binary::Sub => "(a - b)",
        Binary::Mul => "(a * b)",
        Binary::Max => "max(a, b)",
        Binary::Div => "(a / b)",
        Binary::Min => "min(a, b)",
        Binary::Pow | Binary::Mod => return None,
    })
}

const SILU: &str = "\
fn silu_of(x: f32) -> f32 {
    return select(x / (1.0 + exp(-max(x, -80.0))), 0.0, x < -80.0);
}
";

const QUICK_GELU: &str = "\
fn quick_gelu_of(x: f32) -> f32 {
    return select(x / (1.0 + exp(-1.702 * max(x, -47.0))), 0.0, x < -47.0);
}
";

/// `0.5 x (1 + tanh u) = x / (1 + e^-2u)`, which has no cancellation.
const GELU: &str = "\
fn gelu_of(x: f32) -> f32 {
    let m = clamp(x, -10.0, 10.0);
    let u2 = 1.5957691216 * m * (1.0 + 0.044715 * m * m);
    return select(x / (1.0 + exp(-u2)), 0.0, x < -10.0);
}
";

/// Of what is not negative: `e^(-z^2)` times a polynomial in `1 / (1 + z/2)`.
macro_rules! erfc {
    () => {
        "\
fn erfc_of(z: f32) -> f32 {
    let m = min(z, 9.2);
    let t = 1.0 / (1.0 + 0.5 * m);
    var q = -0.0473616212 * t + 0.224487387;
    q = q * t - 0.354680893;
    q = q * t + 0.113771515;
    q = q * t + 0.0991311255;
    q = q * t + 0.14127366;
    q = q * t + 0.262173576;
    q = q * t + 0.278755318;
    q = q * t + 0.282466797;
    q = q * t - 0.0000168409773;
    return select(exp(-m * m) * q, 0.0, z > 9.2);
}
"
    };
}

const GELU_ERF: &str = concat!(
    erfc!(),
    "\
fn gelu_erf_of(x: f32) -> f32 {
    return max(x, 0.0) - 0.5 * abs(x) * erfc_of(0.70710678 * abs(x));
}
"
);

const ERF: &str = concat!(
    erfc!(),
    "\
fn erf_of(x: f32) -> f32 {
    let s = min(x * x, 1.0);
    var p = 0.0000787587588 * s - 0.000801686428;
    p = p * s + 0.00518908742;
    p = p * s - 0.0268542120;
    p = p * s + 0.112835947;
    p = p * s - 0.376126267;
    p = p * s + 1.12837917;
    return select(sign(x) * (1.0 - erfc_of(abs(x))), x * p, abs(x) < 1.0);
}
"
);

/// `ln(1 + e) = 2 atanh(e / (2 + e))`, whose series needs seven terms up to `e = 1`.
const SOFTPLUS: &str = "\
fn softplus_of(x: f32) -> f32 {
    let e = exp(-min(abs(x), 80.0));
    let s = e / (2.0 + e);
    let s2 = s * s;
    var p = s2 / 13.0 + 1.0 / 11.0;
    p = p * s2 + 1.0 / 9.0;
    p = p * s2 + 1.0 / 7.0;
    p = p * s2 + 0.2;
    p = p * s2 + 1.0 / 3.0;
    p = p * s2 + 1.0;
    return max(x, 0.0) + 2.0 * s * p;
}
";

/// Taylor's series near 0, where `e^x - 1` would cancel.
const ELU: &str = "\
fn elu_of(x: f32) -> f32 {
    let m = clamp(x, -0.5, 0.0);
    var p = m / 8.0 + 1.0;
    p = p * m / 7.0 + 1.0;
    p = p * m / 6.0 + 1.0;
    p = p * m / 5.0 + 1.0;
    p = p * m / 4.0 + 1.0;
    p = p * m / 3.0 + 1.0;
    p = p * m / 2.0 + 1.0;
    let below = select(exp(clamp(x, -80.0, 0.0)) - 1.0, x * p, x > -0.5);
    return select(below, x, x >= 0.0);
}
";

/// WGSL's own may be 4096 units in the last place off. `atan(x) = pi/2 - atan(1/x)` above 1.
const ATAN: &str = "\
fn atan_of(x: f32) -> f32 {
    let a = abs(x);
    let z = select(a, 1.0 / max(a, 1.0), a > 1.0);
    let s = z * z;
    var p = -0.00170116997 * s + 0.0104876489;
    p = p * s - 0.030351864;
    p = p * s + 0.0570895552;
    p = p * s - 0.0834972492;
    p = p * s + 0.109323415;
    p = p * s - 0.142600161;
    p = p * s + 0.199980753;
    p = p * s - 0.333332763;
    p = p * s + 0.999999997;
    let near = z * p;
    let y = select(near, 1.57079633 - near, a > 1.0);
    return select(y, -y, x < 0.0);
}
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_but_five_functions_have_wgsl() {
        let missing = |f: &(Unary, &'static str)| unary(f.0).is_none().then_some(f.1);
        let missing: Vec<&str> = Unary::ALL.iter().filter_map(missing).collect();
        assert_eq!(missing, ["sin", "cos", "tan"]);
        let missing = |f: &(Binary, &'static str)| binary(f.0).is_none().then_some(f.1);
        let missing: Vec<&str> = Binary::ALL.iter().filter_map(missing).collect();
        assert_eq!(missing, ["pow", "mod"]);
    }

    #[test]
    fn an_expression_calls_only_what_its_text_defines() {
        for (f, name) in Unary::ALL {
            let Some((helpers, text)) = unary(f) else { continue };
            for call in text.split_inclusive("_of(").filter(|part| part.ends_with("_of(")) {
                let word = call.rsplit(|c: char| !(c.is_alphanumeric() || "_(".contains(c))).next();
                let definition = format!("fn {}", word.unwrap_or_default());
                assert!(helpers.contains(&definition), "{name} calls what is not there: {text}");
            }
            assert_eq!(helpers.is_empty(), !text.contains("_of("), "{name}");
        }
    }
}
