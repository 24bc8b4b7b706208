//! Tests, choices, casts and bounds, element by element, and chains of such operators.

use super::functions::{binary, larger, smaller, unary_of};
use super::takes::{Taken, are_floats, are_scalars, knows};
use super::{Call, refused};
use crate::tape::{Code, Kind, Reg, Tape};
use rlx_core::Result;
use rlx_core::ops::{Comparison, Op, StepFn, StepOperand};
use rlx_core::target::Target;
use rlx_core::types::{DType, Type};

pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    knows(op, &["f"])?;
    are_scalars(operands)
}

pub(super) fn takes_clamp(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    knows(op, &["min", "max"])?;
    are_floats(operands)
}

pub(super) fn takes_cast(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    knows(op, &["to"])?;
    are_scalars(operands)?;
    let (Op::Cast(op), [x]) = (op, operands) else { return Err("it is no cast".into()) };
    if x.dtype == DType::I64 && op.to == DType::BF16 {
        return Err("its kernel rounds no i64 to bf16".into());
    }
    match Kind::of(op.to) {
        Some(Kind::F64) | None => Err(format!("its kernel computes with no {}", op.to)),
        Some(_) => Ok(()),
    }
}

pub(super) fn takes_region(op: &Op, operands: &[&Type], target: &Target) -> Taken {
    knows(op, &["steps"])?;
    are_scalars(operands)?;
    let Op::Region(region) = op else { return Err("it is no chain".into()) };
    let types = region.types(operands).map_err(|_| "its steps do not fit".to_string())?;
    for step in &region.steps {
        let of = |x: &StepOperand| match *x {
            StepOperand::Input(i) => operands[i],
            StepOperand::Step(i) => &types[i],
        };
        let from: Vec<&Type> = step.operands.iter().map(of).collect();
        target.claims(&step.f.op(), &from)?;
    }
    Ok(())
}

pub(super) fn compare(c: &mut Call<'_>) -> Result<Vec<Reg>> {
    let Op::Compare(op) = c.op else { return Err(refused("no compare".into())) };
    let (a, b) = (c.x(0)?, c.x(1)?);
    Ok(vec![c.t.op(test(op.f), &[a, b])])
}

fn test(f: Comparison) -> Code {
    match f {
        Comparison::Eq => Code::Eq,
        Comparison::Ne => Code::Ne,
        Comparison::Lt => Code::Lt,
        Comparison::Le => Code::Le,
        Comparison::Gt => Code::Gt,
        Comparison::Ge => Code::Ge,
    }
}

pub(super) fn select(c: &mut Call<'_>) -> Result<Vec<Reg>> {
    let (condition, yes, no) = (c.x(0)?, c.x(1)?, c.x(2)?);
    Ok(vec![c.t.select(condition, yes, no)])
}

pub(super) fn clamp(c: &mut Call<'_>) -> Result<Vec<Reg>> {
    let Op::Clamp(op) = c.op else { return Err(refused("no clamp".into())) };
    let (x, kind) = (c.cast(0, Kind::F32)?, c.kind(0)?);
    let y = clamped(c.t, x, [op.min, op.max]);
    Ok(vec![narrowed(c.t, y, kind)])
}

fn clamped(t: &mut Tape, x: Reg, [min, max]: [f32; 2]) -> Reg {
    let (low, high) = (t.float(min), t.float(max));
    let y = larger(t, [x, low], Kind::F32);
    smaller(t, [y, high], Kind::F32)
}

/// f32 in the type of a result.
pub(super) fn narrowed(t: &mut Tape, y: Reg, kind: Kind) -> Reg {
    if kind == Kind::F32 { y } else { t.cast(y, kind) }
}

pub(super) fn cast(c: &mut Call<'_>) -> Result<Vec<Reg>> {
    let (x, from, to) = (c.x(0)?, c.kind(0)?, c.out_kind(0)?);
    Ok(vec![converted(c.t, x, from, to)])
}

/// Numbers in another type: cut off towards 0, saturated, wrapped or rounded once.
fn converted(t: &mut Tape, x: Reg, from: Kind, to: Kind) -> Reg {
    if from == to {
        return x;
    }
    if to == Kind::Bool {
        let zero = t.number(from, 0.0);
        return t.ne(x, zero);
    }
    if from.is_float() && !to.is_float() {
        return whole(t, x, from, to);
    }
    if matches!(from, Kind::I32 | Kind::U32) && to == Kind::Bf16 {
        return rounded_to_bf16(t, x, from);
    }
    t.cast(x, to)
}

/// Floats as integers: what is too large saturates, NaN is 0.
fn whole(t: &mut Tape, x: Reg, from: Kind, to: Kind) -> Reg {
    let x = if from == Kind::F32 { x } else { t.cast(x, Kind::F32) };
    // The least number and the first one above the largest, which are floats, and the largest.
    let (least, above, largest): (f64, f64, i64) = match to {
        Kind::U8 => (0.0, 256.0, 255),
        Kind::U32 => (0.0, 4_294_967_296.0, u32::MAX.into()),
        Kind::I8 => (-128.0, 128.0, 127),
        Kind::I16 => (-32_768.0, 32_768.0, 32_767),
        Kind::I32 => (-2_147_483_648.0, 2_147_483_648.0, i32::MAX.into()),
        _ => (-9_223_372_036_854_775_808.0, 9_223_372_036_854_775_808.0, i64::MAX),
    };
    let (zero, low, high) = (t.float(0.0), t.number(Kind::F32, least), t.number(Kind::F32, above));
    let (is_low, is_high, nan) = (t.lt(x, low), t.ge(x, high), t.is_nan(x));
    let outside = t.or(is_low, is_high);
    let outside = t.or(outside, nan);
    let inside = t.select(outside, zero, x);
    let y = t.cast(inside, to);
    let (bottom, top) = (t.integer(to, least as i64), t.integer(to, largest));
    let y = t.select(is_low, bottom, y);
    t.select(is_high, top, y)
}

/// Integers of 32 bits by way of f32, which has 24: of larger ones the last 8 bits become one that says whether any was
/// set, so that they round once.
fn rounded_to_bf16(t: &mut Tape, x: Reg, from: Kind) -> Reg {
    let (low, high, one) =
        (t.integer(from, 0xff), t.integer(from, !0xff_i64), t.integer(from, 0x100));
    let zero = t.integer(from, 0);
    let rest = t.bit_and(x, low);
    let is_rest = t.ne(rest, zero);
    let odd = t.select(is_rest, one, zero);
    let most = t.bit_and(x, high);
    let most = t.bit_or(most, odd);
    let (limit, below) = (t.integer(from, 1 << 24), t.integer(from, -(1 << 24)));
    let mut large = t.ge(x, limit);
    if from == Kind::I32 {
        let under = t.le(x, below);
        large = t.or(large, under);
    }
    let y = t.select(large, most, x);
    let y = t.cast(y, Kind::F32);
    t.cast(y, Kind::Bf16)
}

pub(super) fn region(c: &mut Call<'_>) -> Result<Vec<Reg>> {
    let Op::Region(region) = c.op else { return Err(refused("no chain".into())) };
    let types = region.types(&c.types)?;
    let mut made: Vec<Reg> = Vec::with_capacity(region.steps.len());
    for (step, ty) in region.steps.iter().zip(&types) {
        let mut operands = Vec::with_capacity(step.operands.len());
        let mut from = None;
        for x in &step.operands {
            let (reg, ty) = match *x {
                StepOperand::Input(i) => (c.x(i)?, c.types[i]),
                StepOperand::Step(i) => (made[i], &types[i]),
            };
            from = from.or(Kind::of(ty.dtype));
            operands.push(reg);
        }
        let unknown = || refused("a chain of types that MLX has not".into());
        let (from, to) = from.zip(Kind::of(ty.dtype)).ok_or_else(unknown)?;
        let t = &mut *c.t;
        made.push(match (step.f, operands.as_slice()) {
            (StepFn::Map(f), &[x]) => unary_of(t, f, x, to),
            (StepFn::Zip(f), &[a, b]) => binary(t, f, [a, b], to),
            (StepFn::Compare(f), &[a, b]) => t.op(test(f), &[a, b]),
            (StepFn::Select, &[condition, yes, no]) => t.select(condition, yes, no),
            (StepFn::Clamp(min, max), &[x]) => {
                let x = if from == Kind::F32 { x } else { t.cast(x, Kind::F32) };
                let y = clamped(t, x, [min, max]);
                narrowed(t, y, to)
            }
            (StepFn::Cast(_), &[x]) => converted(t, x, from, to),
            _ => return Err(refused("a chain's step has other operands".into())),
        });
    }
    Ok(made.pop().into_iter().collect())
}
