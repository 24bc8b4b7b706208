//! Products of one row with packed weights by integers on tensor cores, on cards with bulk copies.
//!
//! Weights come as a stream (`stream.rs`). A lane of a kernel without tensor cores has three instructions for a weight,
//! and waits for them longer than for memory. Here x is four digits of 8 bits for each number, in registers: a weight
//! costs a third of an instruction to become a byte, and tensor cores multiply 512 bytes by digits at once. Where
//! neither k nor the rows of a stage are shared out well, the plain stream is as fast
//! (docs/decisions/2026-11-27-cuda.md).

use super::stream::{PROCESSORS, RING, Rows, SLOTS, are_aligned, weights};
use super::{Context, Emit, Kernel, planes};
use crate::driver::cuda::texts::BULK_COPIES;
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::{Epilogue, MatMul};
use rlx_core::types::{BlockFormat, DType};

/// Warps that share k, and registers of a lane that they have for x at most.
const WARPS: [(u64, u64); 2] = [(16, 24), (8, 84)];
/// Rows of a stage: as many as tensor cores take, or twice that.
const ROWS: [u64; 2] = [32, 16];
/// Shared memory of a block, so that no processor has two.
const ALONE: u64 = 118 << 10;
/// Stages of a block beyond which weights of 8 bits come no faster than without tensor cores: they wait for memory.
const BYTES_TURNS: u64 = 4;

/// How a type's elements become bytes (`Whole` in `digits.cuh`).
struct Whole {
    /// Elements that share a scale.
    block: u64,
    /// Whether 256 elements have a head, which a warp reads once.
    heads: bool,
    /// Registers of a lane for x, for four blocks.
    registers: u64,
    /// Bytes that a lane reads at once.
    at_once: u64,
}

/// Of rows of `k`; `None` for a type that has no such form.
fn whole(dtype: DType, k: u64) -> Option<Whole> {
    let planes = planes::decoder(dtype, k).is_some();
    match dtype {
        DType::Block(BlockFormat::Q4K | BlockFormat::Q5K) => {
            Some(Whole { block: 32, heads: true, registers: 6, at_once: 8 })
        }
        DType::Block(BlockFormat::Q6K) if planes => {
            Some(Whole { block: 16, heads: false, registers: 3, at_once: 4 })
        }
        DType::Block(BlockFormat::Q8_0) if planes => {
            Some(Whole { block: 32, heads: false, registers: 5, at_once: 8 })
        }
        _ => None,
    }
}

/// How a product is shared out.
pub(super) struct Digits {
    /// Warps that share k.
    warps: u64,
    /// Rows of a stage.
    pub rows: u64,
    /// Bytes of a stage.
    slot: u64,
    /// Stages of the ring.
    slots: u64,
    threads: u64,
}

impl Digits {
    /// For a matmul's step of `m` rows of `k`; `None` where a kernel without tensor cores is as fast, or the card has
    /// no bulk copies.
    pub fn of_matmul(
        step: &Step,
        op: &MatMul,
        cx: &Context<'_>,
        [m, k]: [u64; 2],
    ) -> Result<Option<Digits>> {
        if !cx.card.bulk_copies || m != 1 || !are_aligned(&step.operands, step, cx)? {
            return Ok(None);
        }
        let first = op.parts().weights;
        let own = &step.operands[first..first + op.segments];
        let is_glu = matches!(op.epilogue, Epilogue::Glu(_));
        // Both weights are multiplied with the same digits of x.
        if is_glu && own.iter().any(|w| w.ty.dtype != own[0].ty.dtype) {
            return Ok(None);
        }
        let types: Option<Vec<Whole>> = own.iter().map(|w| whole(w.ty.dtype, k)).collect();
        Ok(match (types, weights(own, k)?) {
            (Some(types), Some(rows)) if types.len() == rows.len() => {
                let bytes = own.iter().all(|w| w.ty.dtype == DType::Block(BlockFormat::Q8_0));
                let weights: Vec<_> = types.into_iter().zip(rows).collect();
                Digits::of(k, &weights, [is_glu, op.norm.is_some(), bytes])
            }
            _ => None,
        })
    }

    /// For weights whose rows have `k` elements.
    fn of(k: u64, weights: &[(Whole, Rows)], [is_glu, normed, bytes]: [bool; 3]) -> Option<Digits> {
        let quads = |whole: &Whole| k / (4 * whole.block);
        let whole_quads = |(whole, rows): &(Whole, Rows)| {
            k > 0 && k.is_multiple_of(4 * whole.block) && rows.bytes.is_multiple_of(16)
        };
        if !weights.iter().all(whole_quads) {
            return None;
        }
        let (warps, _) = WARPS.into_iter().find(|&(warps, most)| {
            weights.iter().all(|(whole, _)| {
                let each = quads(whole) / warps;
                // A run of 256 has one head: a warp reads both quads of it.
                let heads = !whole.heads || each.is_multiple_of(2);
                // Short blocks have more instructions for x, and gain nothing where a lane has much of it.
                let most = if whole.block == 16 { WARPS[0].1 } else { most };
                quads(whole).is_multiple_of(warps) && heads && each * whole.registers <= most
            })
        })?;
        let times = if is_glu { 2 } else { 1 };
        let row = |(whole, rows): &(Whole, Rows)| {
            rows.bytes + (128 + 4 * whole.at_once - rows.bytes % 128) % 128
        };
        let slot = |rows: u64| weights.iter().map(row).max().unwrap_or(0) * rows * times;
        let turns = |rows: u64| {
            let stages = weights.iter().map(|(_, w)| w.count.div_ceil(rows));
            stages.sum::<u64>().div_ceil(times).div_ceil(PROCESSORS)
        };
        let slots = |rows: u64| RING.checked_div(slot(rows)).unwrap_or(0).min(SLOTS);
        // A ring of one stage has nothing on its way while a block multiplies: two such waits are short, more are not.
        let fits = |rows: &u64| slots(*rows) >= turns(*rows).div_ceil(2).clamp(1, 2);
        let rows = ROWS.into_iter().filter(fits).min_by_key(|rows| turns(*rows) * rows)?;
        if turns(rows) == 0 || (bytes && turns(rows) > BYTES_TURNS) {
            return None;
        }
        let threads = (warps + u64::from(normed)) * 32;
        Some(Digits { warps, rows, slot: slot(rows), slots: slots(rows), threads })
    }

    /// Threads of a block.
    pub fn threads(&self) -> u64 {
        self.threads
    }

    /// A kernel of so many stages.
    pub fn kernel(&self, mut emit: Emit<'_>, stages: u64, cx: &Context<'_>) -> Result<Kernel> {
        let shared = (self.slot * self.slots).max(ALONE);
        emit.line(BULK_COPIES);
        for (name, n) in [
            ("WARPS", self.warps),
            ("THREADS", self.threads),
            ("ROWS", self.rows),
            ("SLOT_BYTES", self.slot),
            ("SLOTS", self.slots),
            ("SHARED", shared),
            ("STAGES", stages),
        ] {
            emit.size(name, n)?;
        }
        let text = concat!(
            include_str!("segment.cuh"),
            include_str!("bulk.cuh"),
            include_str!("digits.cuh"),
            include_str!("matmul_digits.cu")
        );
        let blocks = stages.min(cx.card.processors.into()).max(1);
        let kernel = emit.kernel("matmul_digits", text, [blocks, 1, 1], self.threads as u32)?;
        Ok(Kernel { shared: shared as u32, ..kernel })
    }
}
