//! `weighted_sum`: what experts gave the rows of a prompt.

use super::emit::{Emit, fill};
use super::takes::{self, Taken};
use super::{Context, Launch, matrix, word};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::Op;
use rlx_core::target::Target;
use rlx_core::types::Type;

/// Tensors of f32.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &[])?;
    takes::floats_and_caches(operands)
}

pub(super) fn weighted_sum(
    step: &Step,
    cx: &Context<'_>,
    emit: &mut Emit<'_>,
) -> Result<Option<Launch>> {
    let (rows, top_k) = matrix(&step.operands[1])?;
    let (_, n) = matrix(&step.results[0])?;
    if rows * n == 0 {
        return Ok(None);
    }
    let (x, shares) = (emit.read(&step.operands[0])?, emit.read(&step.operands[1])?);
    let y = emit.write(&step.results[0])?;
    let places = [x.word(), shares.word(), y.word(), 0, 0];
    let mut words = vec![word(rows)?, word(top_k)?, word(n)?];
    words.extend(places);
    let rows_there = match cx.counted(rows, emit) {
        Some(ctl) => format!("min(step.rows, {ctl}[1])"),
        None => "step.rows".into(),
    };
    let wgsl = fill(
        wgsl!("weighted_sum.wgsl"),
        &[
            ("bindings", &emit.bindings()),
            ("rows", &rows_there),
            ("x", &x.var),
            ("shares", &shares.var),
            ("y", &y.var),
        ],
    );
    Ok(Some(Launch { wgsl, entry: "weighted_sum", words, groups: (rows * n).div_ceil(64) }))
}
