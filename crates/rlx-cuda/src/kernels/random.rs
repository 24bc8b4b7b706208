//! `random_uniform` and `random_normal`: numbers of the words of Philox4x32-10, which are the same everywhere.

use super::numbers::Numbers;
use super::takes::{self, Taken};
use super::{Context, Kernel, mismatch};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::Op;
use rlx_core::target::Target;
use rlx_core::types::Type;

/// A key of four words.
pub(super) fn takes(op: &Op, _: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["dims"])
}

pub(super) fn random(step: &Step, cx: &Context<'_>) -> Result<Vec<Kernel>> {
    let made = match &step.op {
        Op::RandomUniform(_) => "uniform(words)",
        Op::RandomNormal(_) => "normal(words)",
        _ => return Err(mismatch(step)),
    };
    let (key, y) = (&step.operands[0], &step.results[0]);
    let n = y.ty.shape.elements()?;
    if n == 0 {
        return Ok(Vec::new());
    }
    let (mut emit, mut numbers) = (cx.emit(step), Numbers::default());
    emit.argument(key)?;
    emit.argument(y)?;
    emit.define("COUNT", numbers.size(n)?);
    emit.define("MADE", made);
    // A thread's numbers are stored at once where they stand at a multiple of their bytes.
    emit.define("IS_ALIGNED", emit.arguments[1].offset.is_multiple_of(16));
    emit.numbers(&numbers);
    emit.line(include_str!("philox.cuh"));
    let blocks = n.div_ceil(4).div_ceil(256);
    Ok(vec![emit.kernel("random", include_str!("random.cu"), [blocks, 1, 1], 256)?])
}
