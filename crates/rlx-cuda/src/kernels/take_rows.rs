//! `take_rows`: the last real rows, for the head.

use super::takes::{self, Taken};
use super::{Context, Kernel, matrix};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::Op;
use rlx_core::target::Target;
use rlx_core::types::Type;

/// A matrix of f32.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["rows"])?;
    takes::are_f32(operands.get(..1).unwrap_or_default())
}

pub(super) fn take_rows(step: &Step, cx: &Context<'_>) -> Result<Vec<Kernel>> {
    let ((of, k), (rows, _)) = (matrix(&step.operands[0])?, matrix(&step.results[0])?);
    if rows * k == 0 {
        return Ok(Vec::new());
    }
    let mut emit = cx.emit(step);
    for x in step.operands.iter().chain(&step.results) {
        emit.argument(x)?;
    }
    emit.size("OF", of)?;
    emit.size("K", k)?;
    emit.size("ROWS", rows)?;
    Ok(vec![emit.kernel(
        "take_rows",
        include_str!("take_rows.cu"),
        [(rows * k).div_ceil(128), 1, 1],
        128,
    )?])
}
