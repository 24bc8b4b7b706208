//! Functions of one or two numbers, of any element type.

use super::builder::{Builder, El, V};
use rlx_core::ops::{Binary, Comparison, Unary};
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_PI};

/// `f(x)` of floats, rounded once to the type of `x`.
pub(super) fn unary(b: &mut Builder, f: Unary, x: &V) -> V {
    let wide = b.convert(x, x.el.wide());
    let y = of_wide(b, f, &wide);
    b.convert(&y, x.el)
}

fn of_wide(b: &mut Builder, f: Unary, x: &V) -> V {
    match f {
        Unary::Silu => {
            let share = b.unary("logistic", x);
            b.mul(x, &share)
        }
        Unary::Gelu => {
            let square = b.mul(x, x);
            let cube = b.mul(&square, x);
            let cube = b.with("multiply", &cube, 0.044715);
            let inner = b.add(x, &cube);
            let inner = b.with("multiply", &inner, FRAC_2_PI.sqrt());
            let inner = b.unary("tanh", &inner);
            half_of_one_more(b, &inner, x)
        }
        Unary::Relu => {
            let zero = b.splat(x.el, &x.dims, 0.0);
            extreme(b, "maximum", x, &zero)
        }
        Unary::Sigmoid => b.unary("logistic", x),
        Unary::Tanh => b.unary("tanh", x),
        Unary::Exp => b.unary("exponential", x),
        Unary::Neg => b.unary("negate", x),
        Unary::GeluErf => {
            let inner = b.with("multiply", x, FRAC_1_SQRT_2);
            let inner = b.erf(&inner);
            half_of_one_more(b, &inner, x)
        }
        Unary::Log => b.unary("log", x),
        Unary::Sqrt => b.unary("sqrt", x),
        Unary::Rsqrt => b.unary("rsqrt", x),
        Unary::Abs => b.unary("abs", x),
        Unary::Sin => b.unary("sine", x),
        Unary::Cos => b.unary("cosine", x),
        Unary::Tan => b.unary("tan", x),
        Unary::Atan => {
            let one = b.splat(x.el, &x.dims, 1.0);
            b.binary("atan2", x, &one)
        }
        Unary::Recip => {
            let one = b.splat(x.el, &x.dims, 1.0);
            b.div(&one, x)
        }
        Unary::Round => b.unary("round_nearest_even", x),
        Unary::Floor => b.unary("floor", x),
        Unary::Ceil => b.unary("ceil", x),
        Unary::Sign => b.unary("sign", x),
        Unary::Softplus => {
            let size = b.unary("abs", x);
            let size = b.unary("negate", &size);
            let small = b.unary("exponential", &size);
            let small = b.unary("log_plus_one", &small);
            let zero = b.splat(x.el, &x.dims, 0.0);
            let large = extreme(b, "maximum", x, &zero);
            b.add(&large, &small)
        }
        Unary::Erf => b.erf(x),
        Unary::Elu => {
            let below = b.compare_with("LT", x, 0.0);
            let less = b.unary("exponential_minus_one", x);
            b.select(&below, &less, x)
        }
        Unary::HardSwish => {
            let share = of_wide(b, Unary::HardSigmoid, x);
            b.mul(x, &share)
        }
        Unary::HardSigmoid => {
            let line = b.with("divide", x, 6.0);
            let line = b.with("add", &line, 0.5);
            clamp(b, &line, 0.0, 1.0)
        }
        Unary::QuickGelu => {
            let inner = b.with("multiply", x, 1.702);
            let share = b.unary("logistic", &inner);
            b.mul(x, &share)
        }
    }
}

/// `(1 + y) x / 2`
fn half_of_one_more(b: &mut Builder, y: &V, x: &V) -> V {
    let more = b.with("add", y, 1.0);
    let half = b.with("multiply", &more, 0.5);
    b.mul(&half, x)
}

/// The larger or smaller of two numbers, which is preferred to a NaN.
pub(super) fn extreme(b: &mut Builder, op: &str, x: &V, y: &V) -> V {
    let both = b.binary(op, x, y);
    if !x.el.is_float() {
        return both;
    }
    let (no_x, no_y) = (b.compare("NE", x, x), b.compare("NE", y, y));
    let other = b.select(&no_y, x, &both);
    b.select(&no_x, y, &other)
}

/// `min(max(x, low), high)`; a NaN becomes `low`.
pub(super) fn clamp(b: &mut Builder, x: &V, low: f64, high: f64) -> V {
    let (low, high) = (b.splat(x.el, &x.dims, low), b.splat(x.el, &x.dims, high));
    let up = extreme(b, "maximum", x, &low);
    b.min(&up, &high)
}

/// `f` of two tensors of one shape, rounded once to their type.
pub(super) fn binary(b: &mut Builder, f: Binary, x: &V, y: &V) -> V {
    let wide = if x.el == El::Bool { El::I32 } else { x.el.wide() };
    let (p, q) = (b.convert(x, wide), b.convert(y, wide));
    let z = match f {
        Binary::Add => b.add(&p, &q),
        Binary::Sub => b.sub(&p, &q),
        Binary::Mul => b.mul(&p, &q),
        Binary::Max => extreme(b, "maximum", &p, &q),
        Binary::Div => b.div(&p, &q),
        Binary::Min => extreme(b, "minimum", &p, &q),
        Binary::Pow => with_tiny(b, "power", &p, &q),
        Binary::Mod => with_tiny(b, "remainder", &p, &q),
    };
    if x.el == El::Bool { b.compare_with("NE", &z, 0.0) } else { b.convert(&z, x.el) }
}

/// An operation of two floats that is of usual size where an operand is below the normal numbers. Devices take those
/// for 0; in f64 they are normal.
fn with_tiny(b: &mut Builder, op: &str, x: &V, y: &V) -> V {
    let plain = b.binary(op, x, y);
    if x.el != El::F32 {
        return plain;
    }
    let [(p, tiny_x), (q, tiny_y)] = [x, y].map(|v| exact(b, v));
    let wide = b.binary(op, &p, &q);
    let wide = b.convert(&wide, El::F32);
    let tiny = b.or(&tiny_x, &tiny_y);
    b.select(&tiny, &wide, &plain)
}

/// An f32 as f64, and whether it is below the normal numbers, which are made of their bits.
fn exact(b: &mut Builder, x: &V) -> (V, V) {
    let bits = b.bitcast(x, El::U32);
    let size = b.bits(&bits, 0x7fff_ffff);
    let below = b.compare_with("LT", &size, f64::from(0x0080_0000));
    let some = b.compare_with("GT", &size, 0.0);
    let tiny = b.and(&below, &some);
    let of_bits = b.convert(&size, El::F64);
    let of_bits = b.with("multiply", &of_bits, 2f64.powi(-149));
    let top = b.shift_right(&bits, 31);
    let negative = b.compare_with("NE", &top, 0.0);
    let minus = b.unary("negate", &of_bits);
    let of_bits = b.select(&negative, &minus, &of_bits);
    let wide = b.convert(x, El::F64);
    (b.select(&tiny, &of_bits, &wide), tiny)
}

/// A test of two tensors of one shape.
pub(super) fn compare(b: &mut Builder, f: Comparison, x: &V, y: &V) -> V {
    let how = match f {
        Comparison::Eq => "EQ",
        Comparison::Ne => "NE",
        Comparison::Lt => "LT",
        Comparison::Le => "LE",
        Comparison::Gt => "GT",
        Comparison::Ge => "GE",
    };
    b.compare(how, x, y)
}

/// Another element type: floats are cut off and saturate where they become integers, and a NaN is 0; integers wrap.
pub(super) fn cast(b: &mut Builder, x: &V, to: El) -> V {
    if x.el == to {
        return x.clone();
    }
    if to == El::Bool {
        return b.compare_with("NE", x, 0.0);
    }
    if !x.el.is_float() || to.is_float() {
        return b.convert(x, to);
    }
    let wide = b.convert(x, x.el.wide());
    let (above, below) = match to.is_signed() {
        true => (2f64.powi(to.bits() as i32 - 1), -(2f64.powi(to.bits() as i32 - 1))),
        false => (2f64.powi(to.bits() as i32), 0.0),
    };
    let (too_large, too_small) =
        (b.compare_with("GE", &wide, above), b.compare_with("LE", &wide, below));
    let is_number = b.compare("EQ", &wide, &wide);
    // What lies outside, or nowhere, is replaced, because its conversion is whatever the device makes of it.
    let inside = b.or(&too_large, &too_small);
    let zero = b.splat(wide.el, &wide.dims, 0.0);
    let plain = b.select(&is_number, &wide, &zero);
    let plain = b.select(&inside, &zero, &plain);
    let y = b.convert(&plain, to);
    let (most, least) = (b.splat(to, &x.dims, above - 1.0), b.splat(to, &x.dims, below));
    let y = b.select(&too_large, &most, &y);
    b.select(&too_small, &least, &y)
}
