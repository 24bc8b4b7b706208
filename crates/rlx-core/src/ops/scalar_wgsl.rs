//! WGSL functions that the expressions of scalar functions call.
//!
//! WGSL lets an implementation assume that no infinity and no NaN is ever made, so none is made on
//! the way to a finite value: arguments of `exp` stay within ±90, squares and cubes are of clamped
//! values. The polynomials interpolate at Chebyshev nodes; in f32 erfc is within 3.4e-7 of itself
//! (but for the rounding of the exponent), erf below 1 within 1.8e-7, atan within 1.2e-7.

use super::Unary;

impl Unary {
    /// Definitions of the WGSL functions that [`wgsl`](Unary::wgsl) calls, empty where it calls
    /// none. Names end in `_of`; a module that has several functions needs each text once.
    pub fn wgsl_helpers(self) -> &'static str {
        match self {
            Self::Silu => SILU,
            Self::Gelu => GELU,
            Self::GeluErf => GELU_ERF,
            Self::Softplus => SOFTPLUS,
            Self::Erf => ERF,
            Self::Elu => ELU,
            Self::Atan => ATAN,
            _ => "",
        }
    }
}

const SILU: &str = "\
fn silu_of(x: f32) -> f32 {
    return select(x / (1.0 + exp(-max(x, -80.0))), 0.0, x < -80.0);
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
