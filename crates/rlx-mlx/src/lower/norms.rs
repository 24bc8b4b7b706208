//! Norms over the last axis.

use super::takes::{Taken, are_f32, knows};
use super::{Call, refused};
use crate::tape::{Code, Reg, Tape};
use rlx_core::Result;
use rlx_core::ops::Op;
use rlx_core::target::Target;
use rlx_core::types::Type;

pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    knows(op, &["eps"])?;
    are_f32(operands)
}

/// `x` over its root mean square, times `w`.
pub(super) fn root_mean_square(t: &mut Tape, x: Reg, w: Reg, eps: f32) -> Reg {
    t.call(Code::RmsNorm, &[x, w], &[], &[eps.into()])
}

pub(super) fn rms_norm(c: &mut Call<'_>) -> Result<Vec<Reg>> {
    let Op::RmsNorm(op) = c.op else { return Err(refused("no rms_norm".into())) };
    let (x, w) = (c.x(0)?, c.x(1)?);
    Ok(vec![root_mean_square(c.t, x, w, op.eps)])
}

pub(super) fn rms_norm_add(c: &mut Call<'_>) -> Result<Vec<Reg>> {
    let Op::RmsNormAdd(op) = c.op else { return Err(refused("no rms_norm_add".into())) };
    let (x, w, residual) = (c.x(0)?, c.x(1)?, c.x(2)?);
    let y = root_mean_square(c.t, x, w, op.eps);
    Ok(vec![c.t.add(residual, y)])
}
