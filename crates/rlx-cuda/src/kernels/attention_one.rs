//! `attention` of one row: a launch of blocks that have parts of its positions, the last of which joins them.

use super::attention::describe;
use super::{Argument, Context, Emit, Kernel, Memory, THREADS, matrix, mismatch, rope};
use rlx_core::Result;
use rlx_core::ir::lir::{Slice, Step};
use rlx_core::ops::{Attention, Op};

/// About so many blocks keep every processor of a card busy.
const BLOCKS: u64 = 256;
/// Most splits of a head's positions: the last block reads the parts of all of them.
const SPLITS: u64 = 64;
/// A block reads at least so many steps of positions: for fewer, joining the parts of several blocks costs more than it
/// saves.
const STEPS: u64 = 2;
/// Numbers of a position that a lane reads at once: 16 bytes of f16.
const AT_ONCE: u64 = 8;
/// Numbers of queries and of sums that a lane has in registers, at most so many of each.
const REGISTERS: u64 = 8;
/// Numbers of keys in flight, and of values.
const KEYS: u64 = 32;
/// Lanes of the narrowest warp.
const WARP: u64 = 32;

pub(super) fn attention(step: &Step, op: &Attention, cx: &Context<'_>) -> Result<Vec<Kernel>> {
    let mut emit = cx.emit(step);
    for x in step.operands.iter().chain(&step.results) {
        emit.argument(x)?;
    }
    Ok(vec![kernel(emit, step, op, "")?])
}

/// The same, and in the same launch the rotation and the writes of the step before it. `None` where the two steps are
/// others, or the first one's operands and results lie where blocks would meet.
pub(super) fn rope_attention(
    [first, second]: [&Step; 2],
    cx: &Context<'_>,
) -> Result<Option<Vec<Kernel>>> {
    let (Op::RopeKvWrite(rope), Op::Attention(op)) = (&first.op, &second.op) else {
        return Ok(None);
    };
    let [q, k, v, table, keys, values, ctl] = first.operands.as_slice() else { return Ok(None) };
    let [turned, ..] = first.results.as_slice() else { return Ok(None) };
    let [queries, of_keys, of_values, of_ctl, sinks @ ..] = second.operands.as_slice() else {
        return Ok(None);
    };
    let [y] = second.results.as_slice() else { return Ok(None) };
    let is_same = [(turned, queries), (keys, of_keys), (values, of_values), (ctl, of_ctl)]
        .iter()
        .all(|(a, b)| is_at(a, b));
    // A block is alone with its heads, and reads all that it needs of them before it writes.
    let meets = |a: &Slice, b: &Slice| overlap(a, b) && !is_at(a, b);
    let apart = !overlap(y, k) && !overlap(y, v) && !overlap(turned, k) && !overlap(turned, v);
    let apart = apart && !meets(y, q) && !meets(turned, q) && !overlap(y, turned);
    let one = matrix(q)?.0 == 1 && rope.head_dim == op.head_dim && rope.ring == op.ring;
    if !is_same || !apart || !one {
        return Ok(None);
    }
    let mut emit = cx.emit(second);
    for x in [q, k, v, table, keys, values, ctl].into_iter().chain(sinks).chain([turned, y]) {
        emit.argument(x)?;
    }
    emit.define("ROPE", "");
    rope::describe(&mut emit, table, op.head_dim as u64, rope.style)?;
    let texts = concat!(include_str!("rotation.cuh"), include_str!("cache_store.cuh"));
    Ok(Some(vec![kernel(emit, second, op, texts)?]))
}

/// Whether two slices are one place.
fn is_at(a: &Slice, b: &Slice) -> bool {
    (a.space, a.index, a.offset, a.bytes) == (b.space, b.index, b.offset, b.bytes)
}

/// Whether two slices have a byte in common.
fn overlap(a: &Slice, b: &Slice) -> bool {
    let same = (a.space, a.index) == (b.space, b.index);
    same && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes
}

/// The kernel, behind whose arguments come scratch memory and counts.
fn kernel(mut emit: Emit<'_>, step: &Step, op: &Attention, texts: &str) -> Result<Kernel> {
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
    let place = |memory| Argument { memory, offset: 0 };
    emit.arguments.extend([place(Memory::Scratch), place(Memory::Counts)]);
    describe(&mut emit, step, op)?;
    emit.size("HEADS", width / head)?;
    emit.size("QUERIES", queries)?;
    emit.size("SHARES", shares)?;
    emit.size("SPLITS", splits)?;
    emit.size("LANES", lanes)?;
    emit.size("THREADS", THREADS)?;
    emit.size("STEPS", STEPS)?;
    emit.define("PER", per);
    emit.size("AHEAD", (KEYS / per).clamp(1, 4))?;
    let parts = [
        include_str!("cache_cells.cuh"),
        include_str!("attention_row.cuh"),
        texts,
        include_str!("attention_one.cu"),
    ];
    let grid = [splits, kv * shares, 1];
    let kernel = emit.kernel("attention_one", &parts.concat(), grid, THREADS as u32)?;
    let scratch = 4 * kv * shares * splits * queries * (head + 2);
    Ok(Kernel { scratch, counts: 4 * kv * shares, ..kernel })
}
