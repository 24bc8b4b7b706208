//! Elements in other places.

use super::takes::{Taken, are_scalars, knows};
use super::{Call, refused};
use crate::tape::{Code, Kind, Reg};
use rlx_core::ops::{Op, PadMode};
use rlx_core::target::Target;
use rlx_core::types::Type;
use rlx_core::{Error, Result};

pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    let known: &[&str] = match op {
        Op::Slice(_) => &["axis", "start", "len", "step"],
        Op::Concat(_) => &["axis"],
        Op::Transpose(_) => &["perm"],
        Op::Expand(_) => &["dims"],
        Op::Reverse(_) => &["axes"],
        Op::Roll(_) => &["shifts", "axes"],
        Op::Pad(_) => &["low", "high", "mode", "value"],
        Op::Iota(_) => &["type", "dims", "axis"],
        Op::Constant(_) => return Ok(()),
        _ => return Err("it has no kernel".into()),
    };
    knows(op, known)?;
    if let Op::Iota(op) = op {
        return match Kind::of(op.dtype) {
            Some(Kind::F64) | None => Err(format!("its kernel computes with no {}", op.dtype)),
            Some(_) => Ok(()),
        };
    }
    are_scalars(operands)
}

pub(super) fn slice(c: &mut Call<'_>) -> Result<Vec<Reg>> {
    let Op::Slice(op) = c.op else { return Err(refused("no slice".into())) };
    let (x, dims) = (c.x(0)?, c.dims(0)?);
    let known = op.start.as_static().zip(op.len.as_static());
    let (start, len) = known.ok_or_else(|| Error::internal("a slice is unbound"))?;
    let (start, len) = (start as i64, len as i64);
    let rank = dims.len();
    // The first and the last element in ascending order; a step backwards is a slice that is turned round.
    let span =
        op.step.checked_mul((len - 1).max(0)).ok_or_else(|| refused("a long slice".into()))?;
    let (first, last) = if op.step < 0 { (start + span, start) } else { (start, start + span) };
    let stop = if len == 0 { first } else { last + 1 };
    let mut ints = vec![0; 1 + 3 * rank];
    ints[0] = rank as i64;
    ints[1 + op.axis] = first;
    ints[1 + rank..1 + 2 * rank].copy_from_slice(&dims);
    ints[1 + rank + op.axis] = stop;
    ints[1 + 2 * rank..].fill(1);
    // A step of more than 31 bits takes one element, whatever it is.
    ints[1 + 2 * rank + op.axis] = op.step.unsigned_abs().min(i32::MAX as u64) as i64;
    let y = c.t.with(Code::Slice, &[x], &ints);
    let turns = op.step < 0 && len > 1;
    Ok(vec![if turns { c.t.with(Code::Flip, &[y], &[op.axis as i64]) } else { y }])
}

pub(super) fn concat(c: &mut Call<'_>) -> Result<Vec<Reg>> {
    let Op::Concat(op) = c.op else { return Err(refused("no concat".into())) };
    let all = (0..c.count()).map(|i| c.x(i)).collect::<Result<Vec<Reg>>>()?;
    Ok(vec![if let [one] = all[..] { one } else { c.t.concat(&all, op.axis) }])
}

pub(super) fn transpose(c: &mut Call<'_>) -> Result<Vec<Reg>> {
    let Op::Transpose(op) = c.op else { return Err(refused("no transpose".into())) };
    let x = c.x(0)?;
    let perm: Vec<i64> = op.perm.iter().map(|&axis| axis as i64).collect();
    Ok(vec![if perm.is_empty() { x } else { c.t.transpose(x, &perm) }])
}

pub(super) fn expand(c: &mut Call<'_>) -> Result<Vec<Reg>> {
    let (x, dims) = (c.x(0)?, c.out_dims(0)?);
    Ok(vec![c.t.broadcast(x, &dims)])
}

pub(super) fn reverse(c: &mut Call<'_>) -> Result<Vec<Reg>> {
    let Op::Reverse(op) = c.op else { return Err(refused("no reverse".into())) };
    let x = c.x(0)?;
    let axes: Vec<i64> = op.axes.iter().map(|&axis| axis as i64).collect();
    Ok(vec![if axes.is_empty() { x } else { c.t.with(Code::Flip, &[x], &axes) }])
}

pub(super) fn roll(c: &mut Call<'_>) -> Result<Vec<Reg>> {
    let Op::Roll(op) = c.op else { return Err(refused("no roll".into())) };
    let (mut x, dims) = (c.x(0)?, c.dims(0)?);
    for (&axis, shift) in op.axes.iter().zip(&op.shifts) {
        let n = dims[axis];
        if n > 0 && shift.rem_euclid(n) != 0 {
            x = c.t.with(Code::Roll, &[x], &[shift.rem_euclid(n), axis as i64]);
        }
    }
    Ok(vec![x])
}

/// Elements of an axis whose indices a tape has one by one, at most.
const LONGEST: i64 = 1 << 24;

/// The index on an axis of `n` that index `i` repeats.
fn repeats(mode: PadMode, i: i64, n: i64) -> i64 {
    match mode {
        _ if (0..n).contains(&i) => i,
        PadMode::Reflect if i < 0 => -i,
        PadMode::Reflect => 2 * (n - 1) - i,
        PadMode::Circular => i.rem_euclid(n.max(1)),
        PadMode::Replicate | PadMode::Constant(_) => i.clamp(0, (n - 1).max(0)),
    }
}

pub(super) fn pad(c: &mut Call<'_>) -> Result<Vec<Reg>> {
    let Op::Pad(op) = c.op else { return Err(refused("no pad".into())) };
    let (mut x, dims, kind, out) = (c.x(0)?, c.dims(0)?, c.kind(0)?, c.out_dims(0)?);
    let low: Vec<i64> = op.low.iter().map(|&n| n as i64).collect();
    if let PadMode::Constant(value) = op.mode {
        let value = match kind {
            Kind::Bool => c.t.integer(kind, i64::from(value != 0.0)),
            kind if kind.is_float() => c.t.number(kind, value.into()),
            kind => c.t.integer(kind, value as i64),
        };
        let high: Vec<i64> = (0..dims.len()).map(|i| out[i] - dims[i] - low[i]).collect();
        let ints = [&[dims.len() as i64], low.as_slice(), &high].concat();
        return Ok(vec![c.t.with(Code::Pad, &[x, value], &ints)]);
    }
    for axis in 0..dims.len() {
        if out[axis] == dims[axis] {
            continue;
        }
        if out[axis] > LONGEST {
            return Err(refused(format!("an axis of {} that repeats", out[axis])));
        }
        let from: Vec<i64> =
            (0..out[axis]).map(|i| repeats(op.mode, i - low[axis], dims[axis])).collect();
        let from = c.t.integers(Kind::I32, &from);
        x = c.t.take(x, from, axis);
    }
    Ok(vec![x])
}

pub(super) fn iota(c: &mut Call<'_>) -> Result<Vec<Reg>> {
    let Op::Iota(op) = c.op else { return Err(refused("no iota".into())) };
    let (dims, kind) = (c.out_dims(0)?, c.out_kind(0)?);
    let mut own = vec![1; dims.len()];
    own[op.axis] = dims[op.axis];
    let y = c.t.arange(Kind::I32, dims[op.axis]);
    let y = c.t.cast(y, kind);
    let y = c.t.reshape(y, &own);
    Ok(vec![c.t.broadcast(y, &dims)])
}

/// A tensor that the graph holds: few numbers, by their bits.
pub(super) fn constant(c: &mut Call<'_>) -> Result<Vec<Reg>> {
    let Op::Constant(op) = c.op else { return Err(refused("no constant".into())) };
    let (dims, kind) = (c.out_dims(0)?, c.out_kind(0)?);
    let data: &[u8] = &op.data;
    let (list, bits): (Vec<i64>, Kind) = match kind {
        Kind::F64 | Kind::I64 | Kind::U64 => {
            (data.as_chunks().0.iter().map(|b| i64::from_le_bytes(*b)).collect(), Kind::I64)
        }
        Kind::F32 | Kind::I32 | Kind::U32 => {
            let word = |b: &[u8; 4]| i64::from(u32::from_le_bytes(*b));
            (data.as_chunks().0.iter().map(word).collect(), Kind::U32)
        }
        Kind::F16 | Kind::Bf16 | Kind::I16 => {
            let word = |b: &[u8; 2]| i64::from(i16::from_le_bytes(*b));
            (data.as_chunks().0.iter().map(word).collect(), Kind::I16)
        }
        Kind::I8 | Kind::U8 => (data.iter().map(|b| i64::from(*b)).collect(), Kind::U8),
        Kind::Bool => (data.iter().map(|b| i64::from(*b != 0)).collect(), Kind::Bool),
    };
    let y = c.t.integers(bits, &list);
    let y = if bits == kind { y } else { c.t.bits(y, kind) };
    Ok(vec![c.t.reshape(y, &dims)])
}
