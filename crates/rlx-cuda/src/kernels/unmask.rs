//! `unmask`: predictions to tokens of a canvas, by `rlx_core::sample::canvas`.

use super::takes::{self, Taken};
use super::{Context, Kernel, mismatch};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::{CANVAS_WORDS, Op};
use rlx_core::sample::canvas;
use rlx_core::target::Target;
use rlx_core::types::Type;

/// Threads of the block.
const THREADS: u64 = 256;

/// Positions of a block: 32 for each thread.
const MOST: u64 = 32 * THREADS;

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

pub(super) fn unmask(step: &Step, cx: &Context<'_>) -> Result<Vec<Kernel>> {
    let [_, _, onto] = step.operands.as_slice() else { return Err(mismatch(step)) };
    let mut emit = cx.emit(step);
    for slice in &step.operands {
        emit.argument(slice)?;
    }
    emit.size("BLOCK", onto.ty.shape.elements()?.saturating_sub(CANVAS_WORDS))?;
    emit.size("THREADS", THREADS)?;
    for (name, word) in [
        ("MASK", canvas::MASK),
        ("PROMPT", canvas::PROMPT),
        ("STEPS", canvas::STEPS),
        ("THRESHOLD", canvas::THRESHOLD),
        ("EDITING", canvas::EDITING),
        ("POST", canvas::POST),
        ("PASS", canvas::PASS),
        ("AFTER", canvas::AFTER),
        ("FINISHED", canvas::FINISHED),
        ("FIXED", canvas::FIXED),
        ("EDITED", canvas::EDITED),
        ("SPREAD", canvas::SPREAD),
        ("IDS", canvas::IDS),
    ] {
        emit.define(name, word);
    }
    emit.size("NO_EDITING", canvas::NO_EDITING.into())?;
    Ok(vec![emit.kernel("unmask", include_str!("unmask.cu"), [1, 1, 1], THREADS as u32)?])
}
