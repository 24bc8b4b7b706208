//! `rms_norm`, `rms_norm_add` with the sum that it joins, and `gated_rms_norm` with the gate that it is multiplied by.

use super::library::is_aligned;
use super::takes::{self, Taken};
use super::{Context, Kernel, matrix, mismatch, scalar};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::Op;
use rlx_core::target::Target;
use rlx_core::types::Type;

/// Threads of a block, which is a row, at most, and of a short row: whole warps of both kinds.
const THREADS: u32 = 256;
const FEWEST: u32 = 64;

/// Rows of f32, of any rank.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["eps", "act"])?;
    takes::are_f32(operands)?;
    match operands.first() {
        Some(x) if x.shape.rank() > 0 => Ok(()),
        _ => Err("its kernel takes rows".into()),
    }
}

pub(super) fn rms_norm(step: &Step, cx: &Context<'_>) -> Result<Vec<Kernel>> {
    // What is done with the norm `v`, and the operand that it is done with.
    let (eps, second, act, joined) = match &step.op {
        Op::RmsNorm(op) => (op.eps, "", None, "(v)"),
        // The sum may be where the residual is: an element is read before it is written, by one thread.
        Op::RmsNormAdd(op) => (op.eps, ", const float* second", None, "((u) + (v))"),
        Op::GatedRmsNorm(op) => (op.eps, ", const float* second", Some(op.act), "(apply(u) * (v))"),
        _ => return Err(mismatch(step)),
    };
    let (rows, k) = matrix(&step.operands[0])?;
    if rows == 0 || k == 0 {
        return Ok(Vec::new());
    }
    let mut emit = cx.emit(step);
    for x in &step.operands {
        emit.argument(x)?;
    }
    emit.late_rows();
    emit.argument(&step.results[0])?;
    emit.size("K", k)?;
    // As many as have four elements each.
    let threads = if k <= 4 * u64::from(FEWEST) { FEWEST } else { THREADS };
    emit.size("THREADS", threads.into())?;
    emit.number("EPS", eps);
    if let Some(act) = act {
        emit.apply(scalar::unary(act));
    }
    emit.define("SECOND_PARAMETER", second);
    emit.define("JOINED(v, u)", joined);
    if !second.is_empty() {
        emit.define("HAS_SECOND", "");
    }
    let mut is_wide = k.is_multiple_of(4);
    for x in step.operands.iter().chain(&step.results) {
        is_wide &= is_aligned(x, step, cx)?;
    }
    emit.size("EACH", if is_wide { 4 } else { 1 })?;
    let text = concat!(include_str!("four_floats.cuh"), include_str!("rms_norm.cu"));
    let kernel = emit.kernel("rms_norm", text, [rows, 1, 1], threads)?;
    Ok(vec![kernel.by_tokens(cx.live(step), 0, 1, 1)])
}
