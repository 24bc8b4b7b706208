//! `sample`: logits to a token, by `rlx_core::sample`'s integer arithmetic.

use super::emit::{BindingResource, Emit};
use super::takes::{self, Taken};
use super::{Context, Launch, word};
use rlx_core::ir::lir::Step;
use rlx_core::ops::Op;
use rlx_core::target::Target;
use rlx_core::types::Type;
use rlx_core::{Error, Result};

/// The shader, which declares its bindings itself.
pub const WGSL: &str = wgsl!(text: concat!(
    include_str!("sample.wgsl"),
    "\n",
    include_str!("sample/wide.wgsl"),
    "\n",
    include_str!("sample/weight.wgsl"),
    "\n",
    include_str!("sample/philox.wgsl"),
    "\n",
    include_str!("sample/logits.wgsl"),
    "\n",
    include_str!("sample/cut.wgsl"),
    "\n",
    include_str!("sample/draw.wgsl"),
    "\n",
    include_str!("sample/best.wgsl"),
));

/// Logits of f32.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &[])?;
    takes::floats_and_caches(operands)
}

pub(super) fn sample(step: &Step, _: &Context<'_>, emit: &mut Emit<'_>) -> Result<Option<Launch>> {
    let [logits, params, counts, ctl] = step.operands.as_slice() else {
        return Err(Error::internal("sample has four operands"));
    };
    // In the shader's order.
    let at = emit.read(logits)?;
    let states = [emit.write(ctl)?, emit.read(params)?, emit.write(counts)?];
    if emit.memory.len() != 4
        || !matches!(emit.memory[0].0, BindingResource::Arena(_))
        || states.iter().any(|place| place.byte != 0)
        || at.byte % 16 != 0
    {
        return Err(Error::internal(
            "sample reads logits of the arena, from a multiple of 16 bytes on, and three whole states",
        ));
    }
    let words = vec![word(logits.bytes / 4)?, at.byte / 16, 0, 0];
    Ok(Some(Launch { wgsl: WGSL.to_owned(), entry: "sample", words, groups: 1 }))
}
