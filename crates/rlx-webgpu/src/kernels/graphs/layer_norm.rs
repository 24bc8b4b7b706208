//! `layer_norm`: over the last axis.

use super::standardise::Standardise;
use crate::kernels::emit::Emit;
use crate::kernels::takes::{self, Taken};
use crate::kernels::{Context, Launch, matrix, mismatch};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::Op;
use rlx_core::target::Target;
use rlx_core::types::Type;

/// Tensors of f32.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["eps", "bias"])?;
    operands.iter().enumerate().try_for_each(|(i, ty)| takes::is_f32(i, ty))
}

pub(super) fn layer_norm(
    step: &Step,
    _: &Context<'_>,
    emit: &mut Emit<'_>,
) -> Result<Option<Launch>> {
    let Op::LayerNorm(op) = &step.op else { return Err(mismatch(step)) };
    let [x, scale, bias @ ..] = step.operands.as_slice() else { return Err(mismatch(step)) };
    let (runs, n) = matrix(x)?;
    Standardise {
        entry: "layer_norm",
        shapes: "scale, bias f32[n]",
        runs,
        n,
        eps: op.eps,
        x,
        y: &step.results[0],
        scale,
        bias: bias.first(),
        channel: "e",
        groups: [0; 3],
        fours: false,
    }
    .launch(emit)
}
