//! `grouped_matmul` of many rows: pairs of a row and an expert in the order of their experts, multiplied by tiles.
//!
//! A tile is 64 pairs of one expert by 64 columns. Its weights are decoded to halves and multiplied on tensor cores, by
//! rows that are two halves; weights of f32 and bf16 by tiles of TF32. A layer whose experts have few pairs each waits
//! for the decoding of their weights, three instructions or so for each.

use super::grouped_groups;
use super::grouped_matmul::{bank, banks, products, residual};
use super::library::{self, Scratch};
use super::{Argument, Context, Kernel, mismatch};
use rlx_core::Result;
use rlx_core::ir::lir::{Slice, Step};
use rlx_core::ops::{GroupedMatMul, Op};
use rlx_core::types::DType;

/// Rows of a tile.
pub(super) const TILE: u64 = 64;

/// Pairs of a row and an expert in the order of their experts, in scratch memory.
pub(super) struct Groups {
    order: Argument,
    tiles: Argument,
    /// How many tiles there are at most.
    most: u64,
    scratch: Scratch,
    /// The rows of x as halves, and what they were divided by.
    halves: Option<[Argument; 2]>,
    /// Whether all banks are multiplied by products of four warps, which have x in an order of theirs.
    by_groups: bool,
}

impl Groups {
    pub fn of(
        step: &Step,
        cx: &Context<'_>,
        [rows, top_k, experts]: [u64; 3],
    ) -> Result<(Groups, Kernel)> {
        let Op::GroupedMatMul(op) = &step.op else { return Err(mismatch(step)) };
        let pairs = rows * top_k;
        // Each expert's last tile may be part full.
        let most = pairs / TILE + experts;
        let mut scratch = Scratch::default();
        let (order, tiles) = (scratch.take(4 * pairs), scratch.take(12 * most));
        let mut emit = cx.emit(step);
        emit.argument(&step.operands[op.parts().ids])?;
        emit.late_rows();
        emit.arguments.extend([order, tiles]);
        emit.size("PAIRS", pairs)?;
        emit.size("EXPERTS", experts)?;
        emit.size("TOP_K", top_k)?;
        emit.size("TILES", most)?;
        let kernel = emit.kernel("group_rows", include_str!("group_rows.cu"), [1, 1, 1], 512)?;
        let kernel = Kernel { scratch: scratch.bytes(), ..kernel };
        let by_groups = grouped_groups::takes(step, cx, op)?;
        Ok((Groups { order, tiles, most, scratch, halves: None, by_groups }, kernel))
    }
}

/// A bank's products by tiles of pairs, and the kernel that sums a row's up where that is asked for.
pub(super) fn of_tiles(
    step: &Step,
    cx: &Context<'_>,
    op: &GroupedMatMul,
    (i, y): (usize, &Slice),
    groups: &mut Groups,
) -> Result<Vec<Kernel>> {
    let parts = op.parts();
    let x = &step.operands[0];
    let (rows, top_k) = super::matrix(&step.operands[parts.ids])?;
    let [_, n, k] = bank(&step.operands[parts.banks + i])?;
    let mut scratch = groups.scratch;
    let own = match op.epilogue.sums() {
        true => scratch.take(4 * rows * top_k * n),
        false => cx.emit(step).place(y)?,
    };
    let whole = k.is_multiple_of(8) && cx.emit(step).place(x)?.offset.is_multiple_of(16);
    let grid = [n.div_ceil(TILE), groups.most, 1];
    let mut kernels = Vec::new();
    let mut emit = cx.emit(step);
    let halves = whole && are_halves(step, op, i);
    if halves {
        // The rows of x are halves for all banks alike.
        let [of_x, scales] = match groups.halves {
            Some(halves) => halves,
            None => {
                let rows = x.ty.shape.elements()? / k;
                let places = [scratch.take(4 * rows * k), scratch.take(4 * rows)];
                // Both halves of a number stand side by side: the second ones behind the first of a row.
                let from = emit.place(x)?;
                let mut emit = super::Emit::new(cx.plan, None);
                if groups.by_groups {
                    emit.define("ORDERED", "");
                }
                let order = Some((2, 0b10));
                let of = [from, places[0], places[1]];
                kernels.push(library::halves(emit, DType::F32, of, [2, rows, k], order)?);
                *groups = Groups { halves: Some(places), scratch, ..*groups };
                places
            }
        };
        emit.arguments.extend([of_x, scales]);
    } else {
        emit.define("WIDE_ROWS", u8::from(whole));
        emit.argument(x)?;
    }
    products(&mut emit, step, op, i)?;
    emit.arguments.extend([groups.order, groups.tiles, own]);
    let tiles = if groups.by_groups {
        grouped_groups::kernel(emit, step, op, (i, n, groups.most))?
    } else if halves {
        let text = concat!(include_str!("halves_tile.cuh"), include_str!("grouped_halves.cu"));
        emit.kernel("grouped_halves", text, grid, 256)?
    } else {
        let text = concat!(
            include_str!("tf32.cuh"),
            include_str!("tile_sums.cuh"),
            include_str!("tile_fetch.cuh"),
            include_str!("grouped_tile.cu")
        );
        emit.kernel("grouped_tile", text, grid, 256)?
    };
    let tiles = tiles.alone();
    kernels.push(Kernel { scratch: scratch.bytes(), ..tiles });
    if let Some(at) = parts.shares {
        let mut emit = cx.emit(step);
        emit.arguments.push(own);
        emit.argument(&step.operands[at])?;
        let more = residual(&mut emit, step, op)?;
        emit.define("SUM_PARAMETERS", more);
        emit.late_rows();
        emit.argument(y)?;
        emit.size("N", n)?;
        emit.size("TOP_K", top_k)?;
        let grid = [rows, n.div_ceil(256), 1];
        let sum = emit.kernel("grouped_sum", include_str!("grouped_sum.cu"), grid, 256)?;
        kernels.push(sum.by_tokens(cx.live(step), 0, 1, 1));
    }
    Ok(kernels)
}

/// Whether a bank's weights are halves, or are rounded to them: packed ones are, as for the library.
pub(super) fn are_halves(step: &Step, op: &GroupedMatMul, i: usize) -> bool {
    let fits = |dtype: DType| dtype == DType::F16 || dtype.is_block();
    banks(step, op, i).iter().all(|w| fits(w.ty.dtype))
}
