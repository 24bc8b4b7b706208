//! `sample`: logits to a token, by `rlx_core::sample`'s integer arithmetic.

use super::takes::{self, Taken};
use super::{Argument, Context, Kernel, Memory, mismatch};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::Op;
use rlx_core::target::Target;
use rlx_core::types::Type;

/// Threads of a block, which look for the best of so many logits at once, and blocks at most.
const THREADS: u64 = 1024;
const OF_BLOCK: u64 = 8 * THREADS;
const BLOCKS: u64 = 128;

/// Logits of f32.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &[])?;
    takes::are_f32(operands.get(..1).unwrap_or_default())
}

pub(super) fn sample(step: &Step, cx: &Context<'_>) -> Result<Vec<Kernel>> {
    let [logits, params, counts, ctl] = step.operands.as_slice() else {
        return Err(mismatch(step));
    };
    let mut emit = cx.emit(step);
    for x in [logits, params, counts, ctl] {
        emit.argument(x)?;
    }
    let place = |memory| Argument { memory, offset: 0 };
    emit.arguments.extend([place(Memory::Scratch), place(Memory::Counts)]);
    let vocab = logits.bytes / 4;
    let blocks = vocab.div_ceil(OF_BLOCK).clamp(1, BLOCKS);
    emit.size("VOCAB", vocab)?;
    emit.size("THREADS", THREADS)?;
    emit.size("BLOCKS", blocks)?;
    let parts = [include_str!("philox.cuh"), include_str!("draws.cuh"), include_str!("sample.cu")];
    let kernel = emit.kernel("sample", &parts.concat(), [blocks, 1, 1], THREADS as u32)?;
    Ok(vec![Kernel { scratch: 8 * blocks, counts: 4, ..kernel }])
}
