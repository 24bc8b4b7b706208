//! Norms over the last axis, and over groups of channels.

use super::elementwise::narrowed;
use super::takes::{Taken, are_floats, knows};
use super::{Call, refused};
use crate::tape::{Code, Kind, Reg, Tape};
use rlx_core::Result;
use rlx_core::ops::Op;
use rlx_core::target::Target;
use rlx_core::types::Type;

pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    knows(op, &["eps", "bias", "groups"])?;
    are_floats(operands)
}

/// `x` over its root mean square, times `w`.
pub(super) fn root_mean_square(t: &mut Tape, x: Reg, w: Reg, eps: f32) -> Reg {
    t.call(Code::RmsNorm, &[x, w], &[], &[eps.into()])
}

pub(super) fn rms_norm(c: &mut Call<'_>) -> Result<Vec<Reg>> {
    let Op::RmsNorm(op) = c.op else { return Err(refused("no rms_norm".into())) };
    let (x, w, kind) = (c.cast(0, Kind::F32)?, c.cast(1, Kind::F32)?, c.kind(0)?);
    if c.dims(0)?.contains(&0) {
        return Ok(vec![c.x(0)?]);
    }
    let y = root_mean_square(c.t, x, w, op.eps);
    Ok(vec![narrowed(c.t, y, kind)])
}

pub(super) fn rms_norm_add(c: &mut Call<'_>) -> Result<Vec<Reg>> {
    let Op::RmsNormAdd(op) = c.op else { return Err(refused("no rms_norm_add".into())) };
    let (x, w, kind) = (c.cast(0, Kind::F32)?, c.cast(1, Kind::F32)?, c.kind(0)?);
    let residual = c.cast(2, Kind::F32)?;
    if c.dims(0)?.contains(&0) {
        return Ok(vec![c.x(0)?]);
    }
    let y = root_mean_square(c.t, x, w, op.eps);
    // The norm is rounded before the sum.
    let (y, wide) = (narrowed(c.t, y, kind), Kind::F32);
    let y = if kind == wide { y } else { c.t.cast(y, wide) };
    let y = c.t.add(residual, y);
    Ok(vec![narrowed(c.t, y, kind)])
}

/// `x` less its mean and over its deviation, along the last axis, which has elements.
fn normalised(t: &mut Tape, x: Reg, rank: usize, [n, eps]: [f64; 2]) -> Reg {
    let axis = [rank as i64 - 1];
    let (by, eps) = (t.number(Kind::F32, n), t.number(Kind::F32, eps));
    let mean = t.reduce(Code::Sum, x, &axis, true);
    let mean = t.div(mean, by);
    let off = t.sub(x, mean);
    let square = t.mul(off, off);
    let variance = t.reduce(Code::Sum, square, &axis, true);
    let variance = t.div(variance, by);
    let variance = t.add(variance, eps);
    let inverse = t.op(Code::Rsqrt, &[variance]);
    t.mul(off, inverse)
}

pub(super) fn layer_norm(c: &mut Call<'_>) -> Result<Vec<Reg>> {
    let Op::LayerNorm(op) = c.op else { return Err(refused("no layer_norm".into())) };
    let (x, kind, dims) = (c.cast(0, Kind::F32)?, c.kind(0)?, c.dims(0)?);
    let scale = c.cast(1, Kind::F32)?;
    if dims.contains(&0) {
        return Ok(vec![c.x(0)?]);
    }
    let n = *dims.last().unwrap_or(&1) as f64;
    let y = normalised(c.t, x, dims.len(), [n, op.eps.into()]);
    let mut y = c.t.mul(y, scale);
    if op.bias {
        let bias = c.cast(2, Kind::F32)?;
        y = c.t.add(y, bias);
    }
    Ok(vec![narrowed(c.t, y, kind)])
}

pub(super) fn group_norm(c: &mut Call<'_>) -> Result<Vec<Reg>> {
    let Op::GroupNorm(op) = c.op else { return Err(refused("no group_norm".into())) };
    let (x, kind, dims) = (c.cast(0, Kind::F32)?, c.kind(0)?, c.dims(0)?);
    let (scale, bias) = (c.cast(1, Kind::F32)?, c.cast(2, Kind::F32)?);
    if dims.contains(&0) {
        return Ok(vec![c.x(0)?]);
    }
    let groups = op.groups as i64;
    let run = dims[1..].iter().product::<i64>() / groups;
    let t = &mut *c.t;
    let runs = t.reshape(x, &[dims[0], groups, run]);
    let y = normalised(t, runs, 3, [run as f64, op.eps.into()]);
    let y = t.reshape(y, &dims);
    let mut own = vec![1; dims.len()];
    own[1] = dims[1];
    let (scale, bias) = (t.reshape(scale, &own), t.reshape(bias, &own));
    let y = t.mul(y, scale);
    let y = t.add(y, bias);
    Ok(vec![narrowed(t, y, kind)])
}
