//! Scalar functions of arrays. Those of one number are computed in f32.

use super::takes::{Taken, are_floats, are_scalars, knows};
use super::{Call, refused};
use crate::tape::{Code, Kind, Reg, Tape};
use rlx_core::Result;
use rlx_core::ops::{Binary, Op, Unary};
use rlx_core::target::Target;
use rlx_core::types::Type;

pub(super) fn takes_map(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    knows(op, &["f"])?;
    are_floats(operands)
}

pub(super) fn takes_zip(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    knows(op, &["f"])?;
    are_scalars(operands)
}

pub(super) fn map(c: &mut Call<'_>) -> Result<Vec<Reg>> {
    let Op::Map(op) = c.op else { return Err(refused("no map".into())) };
    let (kind, x) = (c.out_kind(0)?, c.x(0)?);
    Ok(vec![unary_of(c.t, op.f, x, kind)])
}

pub(super) fn zip(c: &mut Call<'_>) -> Result<Vec<Reg>> {
    let Op::Zip(op) = c.op else { return Err(refused("no zip".into())) };
    let (kind, a, b) = (c.out_kind(0)?, c.x(0)?, c.x(1)?);
    Ok(vec![binary(c.t, op.f, [a, b], kind)])
}

/// A function of floats of any width, which is rounded once.
pub(super) fn unary_of(t: &mut Tape, f: Unary, x: Reg, kind: Kind) -> Reg {
    if kind == Kind::F32 {
        return unary(t, f, x);
    }
    let wide = t.cast(x, Kind::F32);
    let y = unary(t, f, wide);
    t.cast(y, kind)
}

/// A function of f32.
pub(super) fn unary(t: &mut Tape, f: Unary, x: Reg) -> Reg {
    let code = match f {
        Unary::Sigmoid => Code::Sigmoid,
        Unary::Tanh => Code::Tanh,
        Unary::Exp => Code::Exp,
        Unary::Neg => Code::Negative,
        Unary::Log => Code::Log,
        Unary::Sqrt => Code::Sqrt,
        Unary::Rsqrt => Code::Rsqrt,
        Unary::Abs => Code::Abs,
        Unary::Sin => Code::Sin,
        Unary::Cos => Code::Cos,
        Unary::Tan => Code::Tan,
        Unary::Atan => Code::Arctan,
        Unary::Recip => Code::Reciprocal,
        Unary::Round => Code::Round,
        Unary::Floor => Code::Floor,
        Unary::Ceil => Code::Ceil,
        Unary::Erf => Code::Erf,
        _ => return composed(t, f, x),
    };
    t.op(code, &[x])
}

fn composed(t: &mut Tape, f: Unary, x: Reg) -> Reg {
    match f {
        Unary::Silu => {
            let share = t.op(Code::Sigmoid, &[x]);
            t.mul(x, share)
        }
        Unary::QuickGelu => {
            let by = t.float(1.702);
            let inner = t.mul(x, by);
            let share = t.op(Code::Sigmoid, &[inner]);
            t.mul(x, share)
        }
        Unary::Gelu => {
            // sqrt(2 / pi) x (1 + 0.044715 x^2)
            let (a, one) = (t.float(0.044715), t.float(1.0));
            let square = t.mul(x, x);
            let cubic = t.mul(square, a);
            let cubic = t.add(cubic, one);
            let inner = t.mul(cubic, x);
            let root = t.float((2.0 / std::f64::consts::PI).sqrt() as f32);
            let inner = t.mul(inner, root);
            let tanh = t.op(Code::Tanh, &[inner]);
            half_of_one_more(t, tanh, x)
        }
        Unary::GeluErf => {
            let root = t.float(std::f32::consts::FRAC_1_SQRT_2);
            let inner = t.mul(x, root);
            let erf = t.op(Code::Erf, &[inner]);
            half_of_one_more(t, erf, x)
        }
        Unary::Relu => {
            let zero = t.float(0.0);
            larger(t, [x, zero], Kind::F32)
        }
        Unary::Sign => {
            // A zero keeps its sign, and NaN stays.
            let (zero, one, less) = (t.float(0.0), t.float(1.0), t.float(-1.0));
            let (above, below) = (t.gt(x, zero), t.lt(x, zero));
            let y = t.select(below, less, x);
            t.select(above, one, y)
        }
        Unary::Softplus => {
            let size = t.op(Code::Abs, &[x]);
            let size = t.neg(size);
            let small = t.exp(size);
            let small = t.op(Code::Log1p, &[small]);
            let zero = t.float(0.0);
            let large = larger(t, [x, zero], Kind::F32);
            t.add(large, small)
        }
        Unary::Elu => {
            let (zero, below) = (t.float(0.0), t.op(Code::Expm1, &[x]));
            let is_below = t.lt(x, zero);
            t.select(is_below, below, x)
        }
        Unary::HardSigmoid => {
            let (six, half) = (t.float(6.0), t.float(0.5));
            let y = t.div(x, six);
            let y = t.add(y, half);
            let (zero, one) = (t.float(0.0), t.float(1.0));
            let y = larger(t, [y, zero], Kind::F32);
            t.minimum(y, one)
        }
        Unary::HardSwish => {
            let share = composed(t, Unary::HardSigmoid, x);
            t.mul(x, share)
        }
        _ => unary(t, f, x),
    }
}

/// `0.5 x (1 + y)`
fn half_of_one_more(t: &mut Tape, y: Reg, x: Reg) -> Reg {
    let (one, half) = (t.float(1.0), t.float(0.5));
    let share = t.add(y, one);
    let share = t.mul(share, half);
    t.mul(x, share)
}

/// The larger of two numbers; of a number and a NaN the number.
pub(super) fn larger(t: &mut Tape, x: [Reg; 2], kind: Kind) -> Reg {
    extreme(t, Code::Maximum, x, kind)
}

/// The smaller of two numbers; of a number and a NaN the number.
pub(super) fn smaller(t: &mut Tape, x: [Reg; 2], kind: Kind) -> Reg {
    extreme(t, Code::Minimum, x, kind)
}

fn extreme(t: &mut Tape, code: Code, [a, b]: [Reg; 2], kind: Kind) -> Reg {
    if !kind.is_float() {
        return t.op(code, &[a, b]);
    }
    // MLX's own have NaN where one is NaN.
    let (no_a, no_b) = (t.is_nan(a), t.is_nan(b));
    let y = t.op(code, &[a, b]);
    let y = t.select(no_b, a, y);
    t.select(no_a, b, y)
}

/// A function of two numbers of one type.
pub(super) fn binary(t: &mut Tape, f: Binary, [a, b]: [Reg; 2], kind: Kind) -> Reg {
    if matches!(f, Binary::Div | Binary::Mod) && !kind.is_float() {
        return divided(t, f, [a, b], kind);
    }
    // Halves are computed wide and rounded once.
    if matches!(kind, Kind::F16 | Kind::Bf16) {
        let (a, b) = (t.cast(a, Kind::F32), t.cast(b, Kind::F32));
        let y = binary(t, f, [a, b], Kind::F32);
        return t.cast(y, kind);
    }
    match f {
        Binary::Add => t.add(a, b),
        Binary::Sub => t.sub(a, b),
        Binary::Mul => t.mul(a, b),
        Binary::Div => t.div(a, b),
        Binary::Pow => t.op(Code::Power, &[a, b]),
        Binary::Mod => float_remainder(t, a, b),
        Binary::Max => larger(t, [a, b], kind),
        Binary::Min => smaller(t, [a, b], kind),
    }
}

/// The remainder with the sign of `a`. MLX's has the sign of `b`.
fn float_remainder(t: &mut Tape, a: Reg, b: Reg) -> Reg {
    let (size_a, size_b) = (t.op(Code::Abs, &[a]), t.op(Code::Abs, &[b]));
    // Of numbers of one sign both remainders are the same.
    let y = t.remainder(size_a, size_b);
    // What is less than an infinity is its own remainder.
    let small = t.lt(size_a, size_b);
    let y = t.select(small, size_a, y);
    let (bits_y, bits_a) = (t.bits(y, Kind::U32), t.bits(a, Kind::U32));
    let sign = t.integer(Kind::U32, 1 << 31);
    let sign = t.bit_and(bits_a, sign);
    let y = t.bit_or(bits_y, sign);
    t.bits(y, Kind::F32)
}

/// Division of integers towards 0, and its remainder; by 0 it is whatever a division by 1 is.
fn divided(t: &mut Tape, f: Binary, [a, b]: [Reg; 2], kind: Kind) -> Reg {
    let (zero, one) = (t.integer(kind, 0), t.integer(kind, 1));
    let by_zero = t.eq(b, zero);
    let b = t.select(by_zero, one, b);
    if matches!(kind, Kind::U8 | Kind::U32) {
        let code = if f == Binary::Div { Code::FloorDiv } else { Code::Remainder };
        return t.op(code, &[a, b]);
    }
    // The least number over -1 is not a number of the type: the processor stops there, so it is negated instead.
    let less = t.integer(kind, -1);
    let by_less = t.eq(b, less);
    let safe = t.select(by_less, one, b);
    let floor = t.op(Code::Remainder, &[a, safe]);
    // MLX's remainder has the sign of `b`.
    let (is_rest, below_rest, below_a) = (t.ne(floor, zero), t.lt(floor, zero), t.lt(a, zero));
    let other = t.ne(below_rest, below_a);
    let other = t.and(other, is_rest);
    let moved = t.sub(floor, safe);
    let rest = t.select(other, moved, floor);
    let rest = t.select(by_less, zero, rest);
    if f == Binary::Mod {
        return rest;
    }
    let whole = t.sub(a, rest);
    let quotient = t.op(Code::FloorDiv, &[whole, safe]);
    let negated = t.sub(zero, a);
    t.select(by_less, negated, quotient)
}
