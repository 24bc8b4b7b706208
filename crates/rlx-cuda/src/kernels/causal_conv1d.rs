//! `causal_conv1d`: a convolution along the rows of each channel, which goes on from step to step.

use super::takes::{self, Taken};
use super::{Context, Kernel, matrix, mismatch, scalar, word};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::Op;
use rlx_core::target::Target;
use rlx_core::types::Type;

/// Rows of a thread: the first block's alone read the state, if there are no more taps than this.
const BLOCK: u64 = 64;

/// Rows of f32, few taps.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["act", "gated"])?;
    let [x, w, ..] = operands else { return Err("it takes four operands".into()) };
    takes::are_f32(&[x, w])?;
    match w.shape.last().as_static() {
        Some(taps) if taps <= BLOCK => Ok(()),
        taps => Err(format!("its kernel has at most {BLOCK} taps, not {taps:?}")),
    }
}

pub(super) fn causal_conv1d(step: &Step, cx: &Context<'_>) -> Result<Vec<Kernel>> {
    let Op::CausalConv1d(op) = &step.op else { return Err(mismatch(step)) };
    let [x, w, state, ctl] = step.operands.as_slice() else { return Err(mismatch(step)) };
    let ((rows, _), (channels, taps)) = (matrix(x)?, matrix(w)?);
    if rows == 0 || channels == 0 {
        return Ok(Vec::new());
    }
    let mut emit = cx.emit(step);
    for operand in [x, w, state, ctl, &step.results[0]] {
        emit.argument(operand)?;
    }
    emit.apply(op.act.map_or("x", scalar::unary));
    emit.size("ROWS", rows)?;
    emit.size("CHANNELS", channels)?;
    emit.size("TAPS", taps)?;
    emit.size("BLOCK", BLOCK)?;
    // The preprocessor compares it.
    emit.define("PARTS", word(if op.gated { 3 } else { 1 })?);
    let grid = [channels.div_ceil(128), rows.div_ceil(BLOCK), 1];
    Ok(vec![emit.kernel("causal_conv1d", include_str!("causal_conv1d.cu"), grid, 128)?])
}
