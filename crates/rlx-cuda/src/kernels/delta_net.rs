//! `delta_net`: a layer's gated delta net, its matrices in registers while rows are walked.

use super::takes::{self, Taken};
use super::{Context, Kernel, matrix, mismatch, scalar};
use rlx_core::ir::lir::Step;
use rlx_core::ops::{Op, Unary};
use rlx_core::target::Target;
use rlx_core::types::Type;
use rlx_core::{Error, Result};

/// The most rows of a head's matrix: a thread has a quarter of a column in registers.
const MOST: usize = 512;

/// Rows of f32.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["key_heads", "state_size", "eps", "tiled"])?;
    let Op::DeltaNet(op) = op else { return Err("it takes a delta net".into()) };
    takes::are_f32(operands.get(..5).unwrap_or_default())?;
    match op.state_size <= MOST {
        true => Ok(()),
        false => Err(format!("its kernel has matrices of at most {MOST} rows")),
    }
}

pub(super) fn delta_net(step: &Step, cx: &Context<'_>) -> Result<Vec<Kernel>> {
    let Op::DeltaNet(op) = &step.op else { return Err(mismatch(step)) };
    let state = step.operands.get(5).ok_or_else(|| mismatch(step))?;
    let &[heads, n, v] = state.ty.shape.static_dims()?.as_slice() else {
        return Err(Error::internal("delta_net: a state of three axes"));
    };
    let (rows, _) = matrix(&step.operands[0])?;
    if rows == 0 || heads * v == 0 {
        return Ok(Vec::new());
    }
    let mut emit = cx.emit(step);
    for operand in &step.operands {
        emit.argument(operand)?;
    }
    emit.argument(&step.results[0])?;
    emit.apply(scalar::unary(Unary::Softplus));
    emit.size("ROWS", rows)?;
    emit.size("HEADS", heads)?;
    emit.size("KEY_HEADS", op.key_heads as u64)?;
    emit.size("N", n)?;
    emit.size("V", v)?;
    emit.number("EPS", op.eps);
    let key_head = if op.tiled { "(head) % KEY_HEADS" } else { "(head) * KEY_HEADS / HEADS" };
    emit.define("KEY_HEAD(head)", key_head);
    let grid = [v.div_ceil(32), heads, 1];
    Ok(vec![emit.kernel("delta_net", include_str!("delta_net.cu"), grid, 128)?])
}
