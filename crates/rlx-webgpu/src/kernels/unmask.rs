//! `unmask`: predictions to tokens of a canvas, by `rlx_core::sample::canvas`.

use super::emit::{Emit, fill};
use super::takes::{self, Taken};
use super::{Context, Launch, mismatch, word};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::{CANVAS_WORDS, Op};
use rlx_core::target::Target;
use rlx_core::types::Type;

/// Positions of a block: 32 for each thread.
const MOST: u64 = 32 * 256;

/// Words, of which there is one type.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &[])?;
    match operands.first().and_then(|ids| ids.shape.last().as_static()) {
        Some(n) if n > MOST => {
            Err(format!("its kernel has blocks of at most {MOST} positions, not {n}"))
        }
        _ => Ok(()),
    }
}

pub(super) fn unmask(step: &Step, _: &Context<'_>, emit: &mut Emit<'_>) -> Result<Option<Launch>> {
    let [ids, confidence, onto] = step.operands.as_slice() else { return Err(mismatch(step)) };
    let block = onto.ty.shape.elements()?.saturating_sub(CANVAS_WORDS);
    let (ids, confidence) = (emit.read(ids)?, emit.read(confidence)?);
    let onto = emit.write(onto)?;
    let words = vec![word(block)?, ids.word(), confidence.word(), onto.word()];
    let wgsl = fill(
        wgsl!("unmask.wgsl"),
        &[
            ("bindings", &emit.bindings()),
            ("ids", &ids.var),
            ("confidence", &confidence.var),
            ("canvas", &onto.var),
        ],
    );
    Ok(Some(Launch { wgsl, entry: "unmask", words, groups: 1 }))
}
