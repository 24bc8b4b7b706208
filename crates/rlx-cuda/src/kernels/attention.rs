//! `attention`: rows of queries over a cache.

use super::kv_write::is_cache;
use super::takes::{self, Taken};
use super::{
    Context, Emit, Kernel, attention_one, cache_type, matrix, mismatch, unsupported, word,
};
use crate::driver::cuda::texts::{BULK_COPIES, WARPGROUPS};
use crate::target::ROCM;
use rlx_core::ir::lir::Step;
use rlx_core::ops::{Attention, Op};
use rlx_core::target::Target;
use rlx_core::types::{DType, Type};
use rlx_core::{Error, Result};

/// Defines what every kernel of attention is told of the operator and its caches.
pub(super) fn describe(emit: &mut Emit<'_>, step: &Step, op: &Attention) -> Result<()> {
    let &[kv, capacity, head] = step.operands[1].ty.shape.static_dims()?.as_slice() else {
        return Err(Error::internal("attention: a cache of three axes"));
    };
    let cache = cache_type(step.operands[1].ty.dtype, head);
    let (number, row_bytes) = cache.ok_or_else(|| unsupported("a cache".into()))?;
    emit.define("CACHE_TYPE", number);
    emit.size("ROW_BYTES", row_bytes)?;
    emit.size("KV", kv)?;
    emit.size("CAPACITY", capacity)?;
    emit.size("HEAD", head)?;
    emit.number("SCALE", op.scale);
    emit.size("WINDOW", op.window.unwrap_or(u64::from(u32::MAX)).min(u32::MAX.into()))?;
    // A block of one position is causal; one of more than there can be hides nothing.
    emit.size("BLOCK", op.block.unwrap_or(1).min(1 << 30))?;
    if let Some(cap) = op.softcap {
        emit.number("SOFTCAP", cap);
    }
    if op.ring {
        emit.define("RING", "");
    }
    if op.sinks {
        emit.define("SINKS", "");
    }
    Ok(())
}

/// The widest head: each lane of a warp has its share in registers.
const WIDEST: usize = 640;

/// Rows of f32, caches of floats or of `q8_0`.
pub(super) fn takes(op: &Op, operands: &[&Type], target: &Target) -> Taken {
    takes::knows(
        op,
        &["head_dim", "scale", "window", "softcap", "sinks", "block", "ring", "half"],
    )?;
    let Op::Attention(op) = op else { return Err("it takes attention".into()) };
    let [q, keys, values, _, sinks @ ..] = operands else {
        return Err("it takes four operands".into());
    };
    takes::is_f32(0, q)?;
    takes::are_f32(sinks)?;
    is_cache(keys)?;
    is_cache(values)?;
    if op.half && (target.name == ROCM || !has_tiles(q, keys, op.head_dim as u64)) {
        let kernel = "its kernel rounds queries to 11 bits";
        return Err(format!(
            "{kernel} on NVIDIA's cards alone, with {FEWEST} rows or more, caches of f16, and heads of whole 16 up to 128"
        ));
    }
    match op.head_dim <= WIDEST {
        true => Ok(()),
        false => Err(format!("its kernel takes heads up to {WIDEST}, not {}", op.head_dim)),
    }
}

/// Rows of a block on tensor cores, and the fewest rows that are worth them.
const TILE: u64 = 64;
const FEWEST: u64 = 16;
/// Rows of a block of two times four warps.
const ROWS_OF_GROUPS: u64 = 128;

/// Whether queries are read by tiles: caches of f16, and heads that tensor cores have in whole steps and a thread in
/// its registers. Rows whose number is not known yet are several.
fn has_tiles(q: &Type, cache: &Type, head: u64) -> bool {
    let rows = q.shape.rows().ok().map(|rows| rows.as_static().unwrap_or(u64::MAX));
    let several = rows.is_some_and(|rows| rows >= FEWEST);
    several && cache.dtype == DType::F16 && head.is_multiple_of(16) && head <= 128
}

/// Halves of a query and of a weight.
fn parts_of(op: &Attention) -> u64 {
    if op.half { 1 } else { 2 }
}

/// By products of four warps, which have heads in panels of 64.
fn by_groups(
    mut emit: Emit<'_>,
    op: &Attention,
    rows: u64,
    [head, heads]: [u64; 2],
) -> Result<Kernel> {
    // What a thread has registers for.
    let tile = if head == 128 && op.half { 128 } else { 64 };
    // Two tiles of keys and two of values.
    let shared = 4 * tile * head * 2;
    emit.line(BULK_COPIES);
    emit.line(WARPGROUPS);
    emit.size("WIDTH", head)?;
    for (name, n) in [("THREADS", 256), ("TILE", tile), ("PARTS", parts_of(op)), ("SHARED", shared)]
    {
        emit.size(name, n)?;
    }
    let text = concat!(
        include_str!("cache_cells.cuh"),
        include_str!("attention_row.cuh"),
        include_str!("four_lanes.cuh"),
        include_str!("halves_tile.cuh"),
        include_str!("bulk.cuh"),
        include_str!("warpgroup.cuh"),
        include_str!("attention_queries.cuh"),
        include_str!("group_attention.cuh"),
        include_str!("attention_groups.cu")
    );
    let grid = [rows.div_ceil(ROWS_OF_GROUPS), heads, 1];
    let kernel = emit.kernel("attention_groups", text, grid, 256)?;
    Ok(Kernel { shared: word(shared)?, ..kernel })
}

pub(super) fn attention(step: &Step, cx: &Context<'_>) -> Result<Vec<Kernel>> {
    let Op::Attention(op) = &step.op else { return Err(mismatch(step)) };
    let (rows, width) = matrix(&step.operands[0])?;
    let head = op.head_dim as u64;
    if rows * width == 0 {
        return Ok(Vec::new());
    }
    if rows == 1 {
        return attention_one::attention(step, op, cx);
    }
    let mut emit = cx.emit(step);
    for x in step.operands.iter().chain(&step.results) {
        emit.argument(x)?;
    }
    describe(&mut emit, step, op)?;
    emit.size("ROWS", rows)?;
    emit.size("HEADS", width / head)?;
    let heads = width / head;
    let tiles = has_tiles(&step.operands[0].ty, &step.operands[1].ty, head);
    if cx.card.warpgroups && tiles && head.is_multiple_of(64) {
        let kernel = by_groups(emit, op, rows, [head, heads])?;
        return Ok(vec![kernel.by_tokens(cx.tokens(), 0, 1, ROWS_OF_GROUPS)]);
    }
    let (name, text, of_a_block) = if tiles {
        emit.size("PARTS", parts_of(op))?;
        let text = concat!(
            include_str!("four_lanes.cuh"),
            include_str!("halves_tile.cuh"),
            include_str!("attention_queries.cuh"),
            include_str!("attention_tile_amd.cuh"),
            include_str!("attention_tile.cu")
        );
        ("attention_tile", text, TILE)
    } else {
        ("attention", include_str!("attention.cu"), 1)
    };
    let grid = [rows.div_ceil(of_a_block), heads, 1];
    let parts = [include_str!("cache_cells.cuh"), include_str!("attention_row.cuh"), text];
    emit.size("THREADS", 128)?;
    let kernel = emit.kernel(name, &parts.concat(), grid, 128)?;
    Ok(vec![kernel.by_tokens(cx.tokens(), 0, 1, of_a_block)])
}
