//! `rope`: pairs of a head's dimensions turn.

use super::takes::{self, Taken};
use super::{Context, Kernel, matrix, mismatch};
use rlx_core::ir::lir::Step;
use rlx_core::ops::{Op, RopeStyle};
use rlx_core::target::Target;
use rlx_core::types::Type;
use rlx_core::{Error, Result};

/// Rows of f32.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["style", "head_dim"])?;
    takes::are_f32(operands.get(..2).unwrap_or_default())
}

pub(super) fn rope(step: &Step, cx: &Context<'_>) -> Result<Vec<Kernel>> {
    let Op::Rope(op) = &step.op else { return Err(mismatch(step)) };
    let ((rows, width), head) = (matrix(&step.operands[0])?, op.head_dim as u64);
    let &[table, half, _] = step.operands[1].ty.shape.static_dims()?.as_slice() else {
        return Err(Error::internal("rope: a table of three axes"));
    };
    if rows * width == 0 {
        return Ok(Vec::new());
    }
    let mut emit = cx.emit(step);
    for x in step.operands.iter().chain(&step.results) {
        emit.argument(x)?;
    }
    // With L low rows there are more than L / 4 and at most L high rows, so that the sum tells L.
    let low = table.div_ceil(2).next_power_of_two();
    emit.size("LOW", low)?;
    emit.size("HIGH", table - low)?;
    emit.size("HALF", half)?;
    emit.size("HEAD", head)?;
    emit.size("ROWS", rows)?;
    emit.size("WIDTH", width)?;
    if op.style == RopeStyle::Adjacent {
        emit.define("ADJACENT", "");
    }
    let threads = rows * (width / head) * (head - half);
    Ok(vec![emit.kernel("rope", include_str!("rope.cu"), [threads.div_ceil(128), 1, 1], 128)?])
}
