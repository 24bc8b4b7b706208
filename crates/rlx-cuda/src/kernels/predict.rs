//! `predict`: a token for each row of logits and its probability, by `rlx_core::sample`'s integer arithmetic.

use super::elements::stored;
use super::takes::{self, Taken};
use super::{Context, Kernel, matrix, mismatch, unsupported};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::Op;
use rlx_core::sample::{PLAIN_SCALE, canvas};
use rlx_core::target::Target;
use rlx_core::types::Type;

/// Threads of a block.
const THREADS: u32 = 1024;

/// Logits of any scalar float type.
pub(super) fn takes(op: &Op, _: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &[])
}

pub(super) fn predict(step: &Step, cx: &Context<'_>) -> Result<Vec<Kernel>> {
    let logits = &step.operands[0];
    let (rows, vocab) = matrix(logits)?;
    if !matches!(step.op, Op::Predict(_)) {
        return Err(mismatch(step));
    }
    if rows == 0 {
        return Ok(Vec::new());
    }
    let mut emit = cx.emit(step);
    for slice in step.operands.iter().chain(&step.results) {
        emit.argument(slice)?;
    }
    let none = || unsupported(format!("predictions of {}", logits.ty.dtype));
    emit.define("TYPE", stored(logits.ty.dtype).ok_or_else(none)?);
    emit.size("ROWS", rows)?;
    emit.size("VOCAB", vocab)?;
    emit.size("THREADS", THREADS.into())?;
    emit.number("PLAIN_SCALE", PLAIN_SCALE);
    emit.define("CANVAS_MASK", canvas::MASK);
    emit.define("CANVAS_PASS", canvas::PASS);
    emit.define("CANVAS_START", canvas::START);
    emit.define("CANVAS_IDS", canvas::IDS);
    emit.elements();
    let parts = [include_str!("philox.cuh"), include_str!("draws.cuh"), include_str!("predict.cu")];
    Ok(vec![emit.kernel("predict", &parts.concat(), [rows, 1, 1], THREADS)?])
}
