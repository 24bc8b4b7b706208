//! Products of one row whose weights come as a stream: what a block multiplies next is on its way to shared memory
//! while it multiplies, on cards with bulk copies.
//!
//! A row of `K` and `N` columns take `2 N K` operations and move the weights' bytes once. A processor of an H200 needs
//! some 36 KiB on their way at any time for the memory's 4.3 TB/s; its one block has up to [`RING`] of them, asked for
//! from before the kernel waits for the one before it.

use super::{Context, Emit, Kernel};
use crate::driver::cuda::texts::BULK_COPIES;
use rlx_core::Result;
use rlx_core::ir::lir::{Slice, Space, Step};
use rlx_core::ops::{Epilogue, MatMul};

/// Lanes that share a column at most, and threads of a block where a column has fewer.
const LANES: u64 = 512;
const THREADS: u64 = 256;
/// Steps of a lane at most: it keeps 32 elements of x for each.
const STEPS: u64 = 2;
/// Columns of a stage that a group of lanes may have.
const EACH: [u64; 4] = [8, 4, 2, 1];
/// Bytes of a stage that has several columns of a group of lanes, and of all stages of a block. Half of a processor's
/// shared memory would do, but a kernel that starts while another one runs is placed where there is room: two of its
/// blocks would then be on one processor, and none on the next.
const STAGE: u64 = 72 << 10;
pub(crate) const RING: u64 = 200 << 10;
/// Stages of a ring at most.
pub(super) const SLOTS: u64 = 8;
/// What a stage costs beside its columns, in columns of each group of lanes.
const TURN: u64 = 2;
/// Processors of a card for which stages are chosen: texts are the same for all.
pub(super) const PROCESSORS: u64 = 132;

/// A matrix of which a stage has some rows.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    /// Bytes of a row.
    pub bytes: u64,
    /// How many there are.
    pub count: u64,
}

impl Rows {
    /// Whether stages of so many rows are whole steps of 16 bytes, the last one too.
    fn are_whole(self, stage: u64) -> bool {
        let whole = |rows: u64| (rows * self.bytes).is_multiple_of(16);
        whole(stage) && whole(self.count % stage)
    }
}

/// What a stage has.
#[derive(Clone, Copy)]
pub(super) enum Stage {
    /// Rows of one of the matrices.
    One,
    /// The same rows of all matrices, for each of so many experts.
    All { times: u64 },
    /// The same rows of so many experts, one for each group of lanes.
    Experts(u64),
}

/// How a block's threads and stages are shared out.
pub(super) struct Ring {
    lanes: u64,
    steps: u64,
    groups: u64,
    /// Columns of a stage that a group of lanes has.
    each: u64,
    /// Columns of a stage.
    pub columns: u64,
    /// Bytes of a stage.
    slot: u64,
    slots: u64,
}

impl Ring {
    /// For rows of `k` elements. `None` where they do not come in steps of bulk copies.
    pub fn of(k: u64, matrices: &[Rows], stage: Stage) -> Option<Ring> {
        if k == 0 || !k.is_multiple_of(32) || matrices.iter().any(|m| m.bytes == 0) {
            return None;
        }
        let blocks = k / 32;
        let steps = blocks.div_ceil(LANES);
        let lanes = blocks.div_ceil(steps).next_multiple_of(32);
        let own = (THREADS / lanes).max(1);
        let bytes = matrices.iter().map(|m| m.bytes);
        // Groups of lanes, how many of them have columns of their own, and bytes of such a column.
        let (groups, of_columns, column) = match stage {
            Stage::One => (own, own, bytes.max()?),
            Stage::All { .. } => (own, own, bytes.sum()),
            Stage::Experts(n) => (n, 1, bytes.sum()),
        };
        let columns = |each: u64| of_columns * each;
        let stages = |each: u64| {
            let mut of = matrices.iter().map(|m| m.count.div_ceil(columns(each)));
            match stage {
                Stage::One => of.sum(),
                Stage::All { times } => of.next().unwrap_or(0) * times,
                Stage::Experts(_) => of.next().unwrap_or(0),
            }
        };
        // What the block with the most stages has to do.
        let busiest = |each: &u64| {
            let turns = stages(*each).div_ceil(PROCESSORS);
            turns.saturating_mul(columns(*each) + TURN * of_columns)
        };
        let slot = |each: u64| groups * each * column;
        let slots = |each: u64| RING.checked_div(slot(each)).unwrap_or(0).min(SLOTS);
        let fits = |each: &u64| {
            let whole = matrices.iter().all(|m| m.are_whole(columns(*each)));
            whole && slots(*each) >= 2 && (*each == 1 || slot(*each) <= STAGE || column % 16 != 0)
        };
        let each = EACH.into_iter().filter(fits).min_by_key(busiest)?;
        let fits = steps <= STEPS && groups * lanes <= 1024;
        fits.then(|| Ring {
            lanes,
            steps,
            groups,
            each,
            columns: columns(each),
            slot: slot(each),
            slots: slots(each),
        })
    }

    /// The ring of a matmul's step of `m` rows, on a card with bulk copies.
    pub fn of_matmul(
        step: &Step,
        op: &MatMul,
        cx: &Context<'_>,
        [m, k]: [u64; 2],
    ) -> Result<Option<Ring>> {
        if !cx.card.bulk_copies || m != 1 || !are_aligned(&step.operands, step, cx)? {
            return Ok(None);
        }
        let first = op.parts().weights;
        let own = &step.operands[first..first + op.segments];
        let Some(matrices) = weights(own, k)? else { return Ok(None) };
        let is_glu = matches!(op.epilogue, Epilogue::Glu(_));
        // Products of several packed weights are short, and faster without a ring: their blocks then share processors
        // with those of the kernels before and behind, which have one.
        let is_packed = own.iter().any(|w| w.ty.dtype.is_block());
        if is_packed && !is_glu && op.segments > 1 {
            return Ok(None);
        }
        Ok(Ring::of(k, &matrices, if is_glu { Stage::All { times: 1 } } else { Stage::One }))
    }

    /// Threads of a block.
    pub fn threads(&self) -> u64 {
        self.groups * self.lanes
    }

    /// A kernel of so many stages.
    pub fn kernel(
        &self,
        mut emit: Emit<'_>,
        (entry, text): (&'static str, &str),
        stages: u64,
        cx: &Context<'_>,
    ) -> Result<Kernel> {
        let shared = self.slot * self.slots;
        emit.line(BULK_COPIES);
        for (name, n) in [
            ("LANES", self.lanes),
            ("STEPS", self.steps),
            ("THREADS", self.threads()),
            ("EACH", self.each),
            ("COLUMNS", self.columns),
            ("SLOT_BYTES", self.slot),
            ("SLOTS", self.slots),
            ("SHARED", shared),
            ("STAGES", stages),
        ] {
            emit.size(name, n)?;
        }
        let parts = concat!(
            include_str!("warp_sums.cuh"),
            include_str!("wide.cuh"),
            include_str!("bulk.cuh"),
            include_str!("stream.cuh")
        );
        let blocks = stages.min(cx.card.processors.into()).max(1);
        let text = [parts, text].concat();
        let kernel = emit.kernel(entry, &text, [blocks, 1, 1], self.threads() as u32)?;
        Ok(Kernel { shared: shared as u32, ..kernel })
    }
}

/// The bytes of a row of `k` elements, and how many rows there are, of each weight that has rows. `None` where one of
/// them is a result of a step: bytes are asked for before the kernel waits for the one that makes them.
pub(super) fn weights(own: &[Slice], k: u64) -> Result<Option<Vec<Rows>>> {
    let mut matrices = Vec::new();
    for w in own {
        let bytes = w.ty.dtype.row_bytes(k).filter(|_| w.space == Space::Weight);
        let Some(bytes) = bytes else { return Ok(None) };
        let (count, _) = super::matrix(w)?;
        if count > 0 {
            matrices.push(Rows { bytes, count });
        }
    }
    Ok(Some(matrices))
}

/// Whether all of a step's operands begin at whole 16 bytes.
pub(super) fn are_aligned(operands: &[Slice], step: &Step, cx: &Context<'_>) -> Result<bool> {
    let emit = cx.emit(step);
    for operand in operands {
        if !emit.place(operand)?.offset.is_multiple_of(16) {
            return Ok(false);
        }
    }
    Ok(true)
}
