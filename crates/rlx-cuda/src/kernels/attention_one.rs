//! `attention` of one row: a launch of blocks that have parts of its positions, the last of which joins them.

use super::attention::describe;
use super::{Argument, Context, Kernel, Memory, matrix, mismatch};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::Attention;

/// About so many blocks keep every processor of a card busy.
const BLOCKS: u64 = 256;
/// Most splits of a head's positions: the last block reads the parts of all of them.
const SPLITS: u64 = 64;
/// Numbers of a position that a lane reads at once: 16 bytes of f16.
const AT_ONCE: u64 = 8;
/// Numbers of queries, of sums, and of keys in flight, of each of which a lane has at most so many in registers.
const REGISTERS: u64 = 32;
/// Lanes of the narrowest warp.
const WARP: u64 = 32;

pub(super) fn attention(step: &Step, op: &Attention, cx: &Context<'_>) -> Result<Vec<Kernel>> {
    let (_, width) = matrix(&step.operands[0])?;
    let head = op.head_dim as u64;
    let kv = step.operands[1].ty.shape.static_dims()?.first().copied();
    let kv = kv.filter(|kv| *kv > 0 && head > 0).ok_or_else(|| mismatch(step))?;
    let group = width / head / kv;
    let lanes = head.div_ceil(AT_ONCE).next_power_of_two().min(WARP);
    let per = head.div_ceil(lanes);
    let queries = (1..=group).rev().find(|n| group.is_multiple_of(*n) && n * per <= REGISTERS);
    let queries = queries.unwrap_or(1);
    let shares = group / queries.max(1);
    let splits = (BLOCKS / (kv * shares).max(1)).clamp(1, SPLITS);
    let mut emit = cx.emit(step);
    for x in step.operands.iter().chain(&step.results) {
        emit.argument(x)?;
    }
    let place = |memory| Argument { memory, offset: 0 };
    emit.arguments.extend([place(Memory::Scratch), place(Memory::Counts)]);
    describe(&mut emit, step, op)?;
    emit.size("HEADS", width / head)?;
    emit.size("QUERIES", queries)?;
    emit.size("SHARES", shares)?;
    emit.size("SPLITS", splits)?;
    emit.size("LANES", lanes)?;
    emit.define("PER", per);
    emit.size("AHEAD", (REGISTERS / per).clamp(1, 4))?;
    let parts = [
        include_str!("cache_cells.cuh"),
        include_str!("attention_row.cuh"),
        include_str!("attention_one.cu"),
    ];
    let kernel = emit.kernel("attention_one", &parts.concat(), [splits, kv * shares, 1], 128)?;
    let scratch = 4 * kv * shares * splits * queries * (head + 2);
    Ok(vec![Kernel { scratch, counts: 4 * kv * shares, ..kernel }])
}
