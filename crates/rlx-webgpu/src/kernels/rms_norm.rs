//! `rms_norm` as a step of its own; before a matmul it is that one's prologue.

use super::emit::{Emit, fill};
use super::takes::{self, Taken};
use super::{Context, Launch, matrix, mismatch, word};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::Op;
use rlx_core::target::Target;
use rlx_core::types::Type;

/// Rows of f32, of any rank.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["eps"])?;
    takes::floats_and_caches(operands)?;
    takes::rows(operands)
}

pub(super) fn rms_norm(
    step: &Step,
    cx: &Context<'_>,
    emit: &mut Emit<'_>,
) -> Result<Option<Launch>> {
    let Op::RmsNorm(op) = &step.op else { return Err(mismatch(step)) };
    let (rows, k) = matrix(&step.operands[0])?;
    if rows == 0 || k == 0 {
        return Ok(None);
    }
    let x = emit.read(&step.operands[0])?;
    let w = emit.read(&step.operands[1])?;
    let y = emit.write(&step.results[0])?;
    let words = vec![word(k)?, word(rows)?, x.word(), w.word(), y.word(), op.eps.to_bits()];
    let (rows_len, skip) = cx.skip_rows(rows, "row", emit);
    let wgsl = fill(
        include_str!("rms_norm.wgsl"),
        &[
            ("bindings", &emit.bindings()),
            ("rows_len", rows_len),
            ("skip", &skip),
            ("x", &x.var),
            ("w", &w.var),
            ("y", &y.var),
        ],
    );
    Ok(Some(Launch { wgsl, entry: "rms_norm", words, groups: rows }))
}
