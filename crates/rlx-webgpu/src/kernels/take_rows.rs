//! `take_rows`: the last real rows, for the head.

use super::emit::{Emit, fill};
use super::takes::{self, Taken};
use super::{Context, Launch, matrix, word};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::Op;
use rlx_core::target::Target;
use rlx_core::types::Type;

/// A matrix of f32.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["rows"])?;
    takes::floats_and_caches(operands)?;
    takes::matrix(operands)
}

pub(super) fn take_rows(
    step: &Step,
    _: &Context<'_>,
    emit: &mut Emit<'_>,
) -> Result<Option<Launch>> {
    let (x_rows, k) = matrix(&step.operands[0])?;
    let (rows, _) = matrix(&step.results[0])?;
    if rows * k == 0 {
        return Ok(None);
    }
    let x = emit.read(&step.operands[0])?;
    let ctl = emit.read(&step.operands[1])?;
    let y = emit.write(&step.results[0])?;
    let words = vec![word(k)?, word(rows)?, x.word(), y.word(), ctl.word(), word(x_rows)?];
    let wgsl = fill(
        wgsl!("take_rows.wgsl"),
        &[("bindings", &emit.bindings()), ("x", &x.var), ("ctl", &ctl.var), ("y", &y.var)],
    );
    Ok(Some(Launch { wgsl, entry: "take_rows", words, groups: (rows * k).div_ceil(64) }))
}
