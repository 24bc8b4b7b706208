//! `sample`: logits to a token, by `rlx_core::sample`'s integer arithmetic.

use super::emit::{Emit, Memory};
use super::{Launch, word};
use rlx_core::ir::lir::Step;
use rlx_core::{Error, Result};

pub(super) fn sample(step: &Step, emit: &mut Emit<'_>) -> Result<Option<Launch>> {
    let [logits, params, counts, ctl] = step.operands.as_slice() else {
        return Err(Error::internal("sample has four operands"));
    };
    // The shader declares its bindings itself, in this order.
    let at = emit.read(logits)?;
    let states = [emit.write(ctl)?, emit.read(params)?, emit.write(counts)?];
    if emit.memory.len() != 4
        || emit.memory[0].0 != Memory::Arena
        || states.iter().any(|place| place.byte != 0)
    {
        return Err(Error::internal("sample reads logits of the arena and three whole states"));
    }
    let words = vec![word(logits.bytes / 4)?, at.word(), 0, 0];
    let wgsl = include_str!("sample.wgsl").to_owned();
    Ok(Some(Launch { wgsl, entry: "sample", words, groups: 1 }))
}
