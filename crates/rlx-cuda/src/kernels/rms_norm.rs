//! `rms_norm`, and `rms_norm_add` with the sum that it joins.

use super::takes::{self, Taken};
use super::{Context, Kernel, matrix, mismatch};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::Op;
use rlx_core::target::Target;
use rlx_core::types::Type;

/// Threads of a block, which is a row.
const THREADS: u32 = 256;

/// Rows of f32, of any rank.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["eps"])?;
    takes::are_f32(operands)?;
    match operands.first() {
        Some(x) if x.shape.rank() > 0 => Ok(()),
        _ => Err("its kernel takes rows".into()),
    }
}

pub(super) fn rms_norm(step: &Step, cx: &Context<'_>) -> Result<Vec<Kernel>> {
    let (eps, adds) = match &step.op {
        Op::RmsNorm(op) => (op.eps, false),
        Op::RmsNormAdd(op) => (op.eps, true),
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
    emit.size("THREADS", THREADS.into())?;
    emit.number("EPS", eps);
    // The sum may be where the residual is: an element is read before it is written, by one thread.
    emit.define("SECOND_PARAMETER", if adds { ", const float* residual" } else { "" });
    emit.define("JOINED(v)", if adds { "(residual[size_t(row) * K + c] + (v))" } else { "(v)" });
    Ok(vec![emit.kernel("rms_norm", include_str!("rms_norm.cu"), [rows, 1, 1], THREADS)?])
}
