//! `attention_split` and `attention_join`: one row's attention over parts of its positions, and the row they make.

use super::attention::describe;
use super::kv_write::is_cache;
use super::takes::{self, Taken};
use super::{Context, Kernel, matrix, mismatch};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::{AttentionJoin, Op};
use rlx_core::target::{Splits, Target};
use rlx_core::types::Type;

/// So many blocks keep every processor of a card busy, and a split of the fewest positions gives each warp 16 of them.
/// A lane holds at most 32 numbers of a group's queries in registers, and as many of its sums.
pub(crate) const SPLITS: Splits = Splits {
    parts: 512,
    least: 64,
    spare: 1,
    capacity: 128,
    multiple: 1,
    group: 8,
    width: 1024,
    rows: None,
};

/// One row of f32, caches of floats or of `q8_0`.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    let known = ["head_dim", "scale", "window", "softcap", "block", "ring", "splits", "least"];
    takes::knows(op, &known)?;
    let [q, keys, values, _] = operands else { return Err("it takes four operands".into()) };
    takes::is_f32(0, q)?;
    is_cache(keys)?;
    is_cache(values)?;
    match q.shape.0.first().and_then(|rows| rows.as_static()) {
        Some(1) => Ok(()),
        _ => Err("its kernel splits one row".into()),
    }
}

pub(super) fn split(step: &Step, cx: &Context<'_>) -> Result<Vec<Kernel>> {
    let Op::AttentionSplit(op) = &step.op else { return Err(mismatch(step)) };
    let (_, width) = matrix(&step.operands[0])?;
    let (kv, splits) =
        (step.operands[1].ty.shape.static_dims()?.first().copied(), op.splits as u64);
    let kv = kv.filter(|kv| *kv > 0).ok_or_else(|| mismatch(step))?;
    let mut emit = cx.emit(step);
    for x in step.operands.iter().chain(&step.results) {
        emit.argument(x)?;
    }
    describe(&mut emit, step, &op.whole)?;
    emit.size("GROUP", width / kv / (op.whole.head_dim as u64).max(1))?;
    emit.size("SPLITS", splits)?;
    emit.size("LEAST", op.least as u64)?;
    let text = concat!(include_str!("cache_cells.cuh"), include_str!("attention_split.cu"));
    Ok(vec![emit.kernel("attention_split", text, [splits, kv, 1], 128)?])
}

/// What `split` makes.
pub(super) fn takes_join(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["splits", "sinks"])?;
    takes::are_f32(operands.get(..2).unwrap_or_default())?;
    match AttentionJoin::several(operands) {
        None => Ok(()),
        Some(_) => Err("its kernel joins one row".into()),
    }
}

pub(super) fn join(step: &Step, cx: &Context<'_>) -> Result<Vec<Kernel>> {
    let Op::AttentionJoin(op) = &step.op else { return Err(mismatch(step)) };
    let (rows, columns) = matrix(&step.operands[0])?;
    let (_, pairs) = matrix(&step.operands[1])?;
    let (group, splits) = (pairs / 2, op.splits as u64);
    let heads = rows / splits.max(1) * group;
    if heads * columns == 0 {
        return Ok(Vec::new());
    }
    let mut emit = cx.emit(step);
    for x in step.operands.iter().chain(&step.results) {
        emit.argument(x)?;
    }
    emit.define("SINKS_PARAMETER", if op.sinks { ", const float* __restrict__ sinks" } else { "" });
    if op.sinks {
        emit.define("SINKS", "");
    }
    emit.size("HEAD", columns / group)?;
    emit.size("GROUP", group)?;
    emit.size("SPLITS", splits)?;
    Ok(vec![emit.kernel(
        "attention_join",
        include_str!("attention_join.cu"),
        [heads, 1, 1],
        128,
    )?])
}
