//! `softmax` along any axis.

use crate::kernels::elements::indices::around;
use crate::kernels::elements::indices::dims;
use crate::kernels::emit::{Emit, fill};
use crate::kernels::takes::{self, Taken};
use crate::kernels::{Context, Launch, mismatch, word};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::Op;
use rlx_core::target::Target;
use rlx_core::types::Type;

/// A tensor of f32.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["axis"])?;
    let [x] = operands else { return Err("it takes one operand".into()) };
    takes::is_f32(0, x)
}

/// Threads for a run of `n` elements.
pub(super) fn threads(n: u64) -> &'static str {
    if n <= 256 { "64" } else { "256" }
}

pub(super) fn softmax(step: &Step, _: &Context<'_>, emit: &mut Emit<'_>) -> Result<Option<Launch>> {
    let Op::Softmax(op) = &step.op else { return Err(mismatch(step)) };
    let (outer, n, inner) = around(&dims(&step.operands[0].ty)?, op.axis);
    if outer * n * inner == 0 {
        return Ok(None);
    }
    let x = emit.read(&step.operands[0])?;
    let y = emit.write(&step.results[0])?;
    let words = vec![word(n)?, word(inner)?, word(outer * inner)?, x.word(), y.word()];
    let wgsl = fill(
        wgsl!("softmax.wgsl"),
        &[("bindings", &emit.bindings()), ("threads", threads(n)), ("x", &x.var), ("y", &y.var)],
    );
    Ok(Some(Launch { wgsl, entry: "softmax", words, groups: outer * inner }))
}
