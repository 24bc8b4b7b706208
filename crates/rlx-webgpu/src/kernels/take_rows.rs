//! `take_rows`: the last real rows, for the head.

use super::emit::{Emit, fill};
use super::{Launch, matrix, word};
use rlx_core::Result;
use rlx_core::ir::lir::Step;

pub(super) fn take_rows(step: &Step, emit: &mut Emit<'_>) -> Result<Option<Launch>> {
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
        include_str!("take_rows.wgsl"),
        &[("bindings", &emit.bindings()), ("x", &x.var), ("ctl", &ctl.var), ("y", &y.var)],
    );
    Ok(Some(Launch { wgsl, entry: "take_rows", words, groups: (rows * k).div_ceil(64) }))
}
