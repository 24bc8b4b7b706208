//! `group_norm`: over runs of channels with all their places.

use super::standardise::Standardise;
use crate::kernels::elements::indices::dims;
use crate::kernels::emit::Emit;
use crate::kernels::takes::{self, Taken};
use crate::kernels::{Context, Launch, mismatch};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::Op;
use rlx_core::target::Target;
use rlx_core::types::Type;

/// Tensors of f32.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["groups", "eps"])?;
    operands.iter().enumerate().try_for_each(|(i, ty)| takes::is_f32(i, ty))
}

pub(super) fn group_norm(
    step: &Step,
    _: &Context<'_>,
    emit: &mut Emit<'_>,
) -> Result<Option<Launch>> {
    let Op::GroupNorm(op) = &step.op else { return Err(mismatch(step)) };
    let [x, scale, bias] = step.operands.as_slice() else { return Err(mismatch(step)) };
    let sizes = dims(&x.ty)?;
    let [batch, channels, places @ ..] = sizes.as_slice() else { return Err(mismatch(step)) };
    let (places, own) = (places.iter().product::<u64>(), channels / op.groups.max(1));
    Standardise {
        entry: "group_norm",
        shapes: "scale, bias f32[C]; a run is C / groups channels with all their places",
        runs: batch * op.groups,
        n: own * places,
        eps: op.eps,
        x,
        y: &step.results[0],
        scale,
        bias: Some(bias),
        channel: "run % step.groups * step.channels + e / step.places",
        groups: [op.groups, own, places],
        fours: places.is_multiple_of(4),
    }
    .launch(emit)
}
