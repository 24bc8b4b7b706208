//! Functions of all elements along axes.

use super::elementwise::narrowed;
use super::takes::{Taken, are_floats, are_scalars, knows};
use super::{Call, refused};
use crate::tape::{Code, Kind, Reg, Tape};
use rlx_core::Result;
use rlx_core::ops::{Op, Reduction};
use rlx_core::target::Target;
use rlx_core::types::Type;

pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    knows(op, &["f", "axes", "keep", "axis", "exclusive"])?;
    let axis = match op {
        Op::ArgMax(op) => Some(op.axis),
        Op::ArgMin(op) => Some(op.axis),
        _ => None,
    };
    let size = axis.zip(operands.first()).and_then(|(i, x)| x.shape.0.get(i)?.as_static());
    if size == Some(0) {
        return Err("the axis has no elements".into());
    }
    are_scalars(operands)
}

pub(super) fn takes_softmax(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    knows(op, &["axis"])?;
    are_floats(operands)
}

pub(super) fn reduce(c: &mut Call<'_>) -> Result<Vec<Reg>> {
    let Op::Reduce(op) = c.op else { return Err(refused("no reduce".into())) };
    let (kind, dims, out) = (c.kind(0)?, c.dims(0)?, c.out_dims(0)?);
    let axes: Vec<i64> = op.axes.iter().map(|&axis| axis as i64).collect();
    let wide = if kind.is_float() { Kind::F32 } else { kind };
    let x = c.cast(0, wide)?;
    let t = &mut *c.t;
    let count: i64 = op.axes.iter().map(|&axis| dims[axis]).product();
    // What a fold begins with is the value of nothing, and stands for NaN in extremes.
    let start = match (op.f, wide) {
        (f, Kind::F32) => t.number(wide, f.start()),
        (Reduction::Max, kind) => t.integer(kind, least(kind)),
        (Reduction::Min, kind) => t.integer(kind, largest(kind)),
        (Reduction::Prod, kind) => t.integer(kind, 1),
        (_, kind) => t.integer(kind, 0),
    };
    let mut y = if count == 0 {
        t.broadcast(start, &out)
    } else if axes.is_empty() {
        x
    } else {
        let code = match op.f {
            Reduction::Sum | Reduction::Mean => Code::Sum,
            Reduction::Max => Code::Max,
            Reduction::Min => Code::Min,
            Reduction::Prod => Code::Prod,
        };
        let mut x = x;
        if wide.is_float() && matches!(op.f, Reduction::Max | Reduction::Min) {
            let nan = t.is_nan(x);
            x = t.select(nan, start, x);
        }
        let y = t.reduce(code, x, &axes, op.keep);
        // MLX sums short integers in longer ones.
        t.cast(y, wide)
    };
    if op.f == Reduction::Mean {
        let by = t.float(count as f32);
        y = t.div(y, by);
    }
    Ok(vec![if kind == wide { y } else { narrowed(t, y, kind) }])
}

fn least(kind: Kind) -> i64 {
    match kind {
        Kind::I8 => i8::MIN.into(),
        Kind::I16 => i16::MIN.into(),
        Kind::I32 => i32::MIN.into(),
        Kind::I64 => i64::MIN,
        _ => 0,
    }
}

fn largest(kind: Kind) -> i64 {
    match kind {
        Kind::I8 => i8::MAX.into(),
        Kind::I16 => i16::MAX.into(),
        Kind::I32 => i32::MAX.into(),
        Kind::U8 => u8::MAX.into(),
        Kind::U32 => u32::MAX.into(),
        Kind::Bool => 1,
        _ => i64::MAX,
    }
}

pub(super) fn softmax(c: &mut Call<'_>) -> Result<Vec<Reg>> {
    let Op::Softmax(op) = c.op else { return Err(refused("no softmax".into())) };
    let (x, kind, dims) = (c.cast(0, Kind::F32)?, c.kind(0)?, c.dims(0)?);
    let y = if dims.contains(&0) { x } else { c.t.with(Code::Softmax, &[x], &[op.axis as i64]) };
    Ok(vec![narrowed(c.t, y, kind)])
}

pub(super) fn cumsum(c: &mut Call<'_>) -> Result<Vec<Reg>> {
    let Op::CumSum(op) = c.op else { return Err(refused("no cumsum".into())) };
    let kind = c.kind(0)?;
    let wide = if kind.is_float() { Kind::F32 } else { kind };
    let (x, dims) = (c.cast(0, wide)?, c.dims(0)?);
    if dims.contains(&0) {
        return Ok(vec![c.x(0)?]);
    }
    let ints = [op.axis as i64, 0, i64::from(!op.exclusive)];
    let y = c.t.with(Code::CumSum, &[x], &ints);
    Ok(vec![if kind.is_float() { narrowed(c.t, y, kind) } else { c.t.cast(y, kind) }])
}

pub(super) fn arg(c: &mut Call<'_>) -> Result<Vec<Reg>> {
    let (axis, code, away) = match c.op {
        Op::ArgMax(op) => (op.axis, Code::Max, f32::NEG_INFINITY),
        Op::ArgMin(op) => (op.axis, Code::Min, f32::INFINITY),
        _ => return Err(refused("no argmax".into())),
    };
    let (kind, out) = (c.kind(0)?, c.out_dims(0)?);
    let wide = if kind.is_float() { Kind::F32 } else { kind };
    let x = c.cast(0, wide)?;
    let t = &mut *c.t;
    if out.contains(&0) {
        let nothing = t.integer(Kind::U32, 0);
        return Ok(vec![t.broadcast(nothing, &out)]);
    }
    // The first that equals the extreme: a NaN equals nothing.
    let mut numbers = x;
    if wide.is_float() {
        let (nan, away) = (t.is_nan(x), t.float(away));
        numbers = t.select(nan, away, x);
    }
    let best = t.reduce(code, numbers, &[axis as i64], true);
    let is_best = t.eq(x, best);
    let is_best = t.cast(is_best, Kind::I32);
    let at = t.with(Code::ArgMax, &[is_best], &[axis as i64]);
    let at = t.cast(at, Kind::U32);
    Ok(vec![t.reshape(at, &out)])
}

/// Keys of 32 bits, as u64, in the order of the elements: NaN above all numbers, zeros equal.
fn keys(t: &mut Tape, x: Reg, kind: Kind) -> Reg {
    match kind {
        Kind::F32 | Kind::F16 | Kind::Bf16 => {
            let x = if kind == Kind::F32 { x } else { t.cast(x, Kind::F32) };
            let zero = t.float(0.0);
            let is_zero = t.eq(x, zero);
            let x = t.select(is_zero, zero, x);
            let bits = t.bits(x, Kind::U32);
            let (sign, all) = (t.integer(Kind::U32, 1 << 31), t.integer(Kind::U32, 0xffff_ffff));
            let (positive, negative) = (t.bit_or(bits, sign), t.bit_xor(bits, all));
            let below = t.lt(x, zero);
            let key = t.select(below, negative, positive);
            let nan = t.is_nan(x);
            let key = t.select(nan, all, key);
            t.cast(key, Kind::U64)
        }
        Kind::U8 | Kind::U32 | Kind::Bool => t.cast(x, Kind::U64),
        _ => {
            let x = t.cast(x, Kind::I64);
            let half = t.integer(Kind::I64, 1 << 31);
            let x = t.add(x, half);
            t.cast(x, Kind::U64)
        }
    }
}

/// Indices along an axis of `n` in order of the elements, equal ones in their own: i32.
fn order(t: &mut Tape, x: Reg, kind: Kind, [axis, n, rank]: [usize; 3], descending: bool) -> Reg {
    if kind == Kind::I64 {
        // There is no longer integer, and MLX keeps the order of equal elements.
        let all = t.integer(Kind::I64, -1);
        let key = if descending { t.bit_xor(x, all) } else { x };
        let at = t.with(Code::ArgSort, &[key], &[axis as i64]);
        return t.cast(at, Kind::I32);
    }
    let mut key = keys(t, x, kind);
    if descending {
        let all = t.integer(Kind::U64, 0xffff_ffff);
        key = t.sub(all, key);
    }
    let (half, low) = (t.integer(Kind::U64, 32), t.integer(Kind::U64, 0xffff_ffff));
    let mut own = vec![1; rank];
    own[axis] = n as i64;
    let place = t.arange(Kind::U64, n as i64);
    let place = t.reshape(place, &own);
    let key = t.shl(key, half);
    let key = t.bit_or(key, place);
    let sorted = t.with(Code::Sort, &[key], &[axis as i64]);
    let at = t.bit_and(sorted, low);
    t.cast(at, Kind::I32)
}

pub(super) fn takes_order(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    knows(op, &["axis", "descending", "k"])?;
    are_scalars(operands)
}

pub(super) fn sort(c: &mut Call<'_>) -> Result<Vec<Reg>> {
    let Op::Sort(op) = c.op else { return Err(refused("no sort".into())) };
    let (x, kind, dims) = (c.x(0)?, c.kind(0)?, c.dims(0)?);
    if dims.contains(&0) {
        let nothing = c.t.integer(Kind::U32, 0);
        return Ok(vec![x, c.t.broadcast(nothing, &dims)]);
    }
    let sizes = [op.axis, dims[op.axis] as usize, dims.len()];
    let at = order(c.t, x, kind, sizes, op.descending);
    let values = c.t.take_along(x, at, op.axis);
    Ok(vec![values, c.t.cast(at, Kind::U32)])
}

pub(super) fn top_k(c: &mut Call<'_>) -> Result<Vec<Reg>> {
    let Op::TopK(op) = c.op else { return Err(refused("no top_k".into())) };
    let (x, kind, dims, out) = (c.x(0)?, c.kind(0)?, c.dims(0)?, c.out_dims(0)?);
    if out.contains(&0) {
        let nothing = c.t.integer(Kind::U32, 0);
        return Ok(vec![c.t.broadcast(nothing, &out)]);
    }
    let axis = dims.len().saturating_sub(1);
    let at = order(c.t, x, kind, [axis, dims[axis] as usize, dims.len()], true);
    let at = c.t.slice(at, &dims, axis, 0, op.k as i64);
    Ok(vec![c.t.cast(at, Kind::U32)])
}
