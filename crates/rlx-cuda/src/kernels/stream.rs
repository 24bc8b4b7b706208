//! A product of one row whose weights come as a stream: what a block multiplies next is on its way to shared memory while
//! it multiplies, on cards with bulk copies.
//!
//! A row of `K` and `N` columns take `2 N K` operations and move the weights' bytes once. A processor of an H200 needs
//! some 36 KiB on their way at any time for the memory's 4.3 TB/s; a block has up to [`RING`] of them, asked for from
//! before the kernel waits for the one before it.

use super::{Context, Emit, Kernel};
use rlx_core::Result;
use rlx_core::ir::lir::{Slice, Space, Step};
use rlx_core::ops::{Epilogue, MatMul};

/// Lanes that share a column at most, and threads of a block where a column has fewer.
const LANES: u64 = 512;
const THREADS: u64 = 256;
/// Steps of a lane at most: it keeps 32 elements of x for each.
const STEPS: u64 = 2;
/// Bytes of a stage that has several columns of a group of lanes, and of all stages of a block.
const STAGE: u64 = 36 << 10;
const RING: u64 = 100 << 10;
/// Stages of a ring at most.
const SLOTS: u64 = 8;
/// Blocks of a processor.
const BLOCKS: u64 = 2;
/// Processors of a card for which stages are chosen: texts are the same for all.
const PROCESSORS: u64 = 132;

/// How a block's threads and stages are shared out.
pub(super) struct Stream {
    lanes: u64,
    steps: u64,
    groups: u64,
    /// Columns of a stage that a group of lanes has.
    each: u64,
    /// Bytes of a stage.
    slot: u64,
    slots: u64,
}

impl Stream {
    /// `None` where the card has no such copies, or rows do not come in steps of them.
    pub fn of(
        step: &Step,
        op: &MatMul,
        cx: &Context<'_>,
        [m, k]: [u64; 2],
    ) -> Result<Option<Stream>> {
        if !cx.card.bulk_copies || m != 1 || k == 0 || !k.is_multiple_of(32) {
            return Ok(None);
        }
        let emit = cx.emit(step);
        for operand in &step.operands {
            if !emit.place(operand)?.offset.is_multiple_of(16) {
                return Ok(None);
            }
        }
        let first = op.parts().weights;
        let weights = &step.operands[first..first + op.segments];
        // What is on its way before the kernel waits has to be there already.
        let row = |w: &Slice| {
            let bytes = w.ty.dtype.row_bytes(k).filter(|b| b.is_multiple_of(16));
            bytes.filter(|_| w.space == Space::Weight)
        };
        let Some(rows) = weights.iter().map(row).collect::<Option<Vec<u64>>>() else {
            return Ok(None);
        };
        let is_glu = matches!(op.epilogue, Epilogue::Glu(_));
        // Bytes of a column of the widest weight.
        let column =
            if is_glu { rows.iter().sum() } else { rows.iter().copied().max().unwrap_or(0) };
        let blocks = k / 32;
        let steps = blocks.div_ceil(LANES);
        let lanes = blocks.div_ceil(steps).next_multiple_of(32);
        let groups = (THREADS / lanes).max(1);
        let ns: Vec<u64> =
            step.results.iter().map(|y| y.ty.shape.last().as_static().unwrap_or(0)).collect();
        // Columns of the block that has most of them.
        let busiest = |each: u64| {
            let stages: u64 = ns.iter().map(|n| n.div_ceil(groups * each)).sum();
            stages.div_ceil(PROCESSORS * BLOCKS) * each
        };
        let fits = |each: &u64| *each == 1 || groups * each * column <= STAGE;
        let each =
            [4, 2, 1].into_iter().filter(fits).min_by_key(|each| busiest(*each)).unwrap_or(1);
        let slot = groups * each * column;
        let slots = RING.checked_div(slot).unwrap_or(0).min(SLOTS);
        let fits = steps <= STEPS && slots >= 2;
        Ok(fits.then_some(Stream { lanes, steps, groups, each, slot, slots }))
    }

    /// Columns of a stage.
    pub fn columns(&self) -> u64 {
        self.groups * self.each
    }

    /// Threads of a block.
    pub fn threads(&self) -> u64 {
        self.groups * self.lanes
    }

    /// The kernel of so many stages, of which the segments are defined.
    pub fn kernel(&self, mut emit: Emit<'_>, stages: u64, cx: &Context<'_>) -> Result<Kernel> {
        let shared = self.slot * self.slots;
        for (name, n) in [
            ("LANES", self.lanes),
            ("STEPS", self.steps),
            ("THREADS", self.threads()),
            ("EACH", self.each),
            ("SLOT_BYTES", self.slot),
            ("SLOTS", self.slots),
            ("SHARED", shared),
            ("STAGES", stages),
        ] {
            emit.size(name, n)?;
        }
        let text = concat!(
            include_str!("segment.cuh"),
            include_str!("warp_sums.cuh"),
            include_str!("wide.cuh"),
            include_str!("bulk.cuh"),
            include_str!("matmul_stream.cu")
        );
        let blocks = stages.min(u64::from(cx.card.processors) * BLOCKS).max(1);
        let kernel = emit.kernel("matmul_stream", text, [blocks, 1, 1], self.threads() as u32)?;
        Ok(Kernel { shared: shared as u32, ..kernel })
    }
}
