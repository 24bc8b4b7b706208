//! `sample`: logits to a token, by `rlx_core::sample`'s integer arithmetic.

use super::takes::{self, Taken};
use super::{Context, Kernel, mismatch};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::Op;
use rlx_core::target::Target;
use rlx_core::types::Type;

/// Logits of f32.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &[])?;
    takes::are_f32(operands.get(..1).unwrap_or_default())
}

pub(super) fn sample(step: &Step, cx: &Context<'_>) -> Result<Vec<Kernel>> {
    let [logits, params, counts, ctl] = step.operands.as_slice() else {
        return Err(mismatch(step));
    };
    let mut emit = cx.emit(step);
    for x in [logits, params, counts, ctl] {
        emit.argument(x)?;
    }
    emit.size("VOCAB", logits.bytes / 4)?;
    emit.size("THREADS", 1024)?;
    let parts = [include_str!("philox.cuh"), include_str!("draws.cuh"), include_str!("sample.cu")];
    Ok(vec![emit.kernel("sample", &parts.concat(), [1, 1, 1], 1024)?])
}
