//! Products of many rows with experts by products of four warps: weights are decoded into their registers, each once
//! for 64 pairs of a row and an expert, and x comes to shared memory.
//!
//! A layer whose experts have few pairs each reads and decodes all of its weights: 128 experts of 3 x 768 by 2,048 are
//! 340 MB of q4_k, 80 us of an H200's memory.

use super::grouped_matmul::{bank, banks};
use super::grouped_tiles::are_halves;
use super::stream::{RING, are_aligned};
use super::{Context, Emit, Kernel, word};
use crate::driver::cuda::texts::{BULK_COPIES, WARPGROUPS};
use rlx_core::Result;
use rlx_core::ir::lir::{Slice, Step};
use rlx_core::ops::GroupedMatMul;

/// Bytes of x in shared memory: two steps of 64 rows by 64 elements, each two halves.
const X_BYTES: u64 = 4 * 64 * 128;

/// Columns of a block.
fn columns(banks: &[Slice]) -> u64 {
    64 / banks.len() as u64
}

/// Bytes from one row of a bank to the next, in memory and in shared memory: there rows stand 16 bytes beyond whole
/// 128, so that eight of them meet in no bank, where each can be copied by itself.
fn strides(w: &Slice) -> Result<Option<[u64; 2]>> {
    let [_, _, k] = bank(w)?;
    Ok(w.ty.dtype.row_bytes(k).map(|bytes| {
        let apart = (bytes.saturating_add(112) / 128).saturating_mul(128).saturating_add(16);
        [bytes, if bytes.is_multiple_of(16) { apart } else { bytes }]
    }))
}

/// Bytes of shared memory.
fn shared(banks: &[Slice]) -> Result<Option<u64>> {
    let mut all = X_BYTES;
    for w in banks {
        let Some([_, stride]) = strides(w)? else { return Ok(None) };
        all = all.saturating_add(columns(banks).saturating_mul(stride));
    }
    Ok(Some(all))
}

/// Whether all banks of a step are multiplied so.
pub(super) fn takes(step: &Step, cx: &Context<'_>, op: &GroupedMatMul) -> Result<bool> {
    if !cx.card.warpgroups || !are_aligned(&step.operands, step, cx)? {
        return Ok(false);
    }
    for i in 0..step.results.len() {
        let banks = banks(step, op, i);
        for w in banks {
            let [_, n, k] = bank(w)?;
            if k == 0 || !k.is_multiple_of(64) || !n.is_multiple_of(columns(banks)) {
                return Ok(false);
            }
            // An expert begins where the one before it ends, and a block where the block before it does.
            let Some([bytes, _]) = strides(w)? else { return Ok(false) };
            if !columns(banks).saturating_mul(bytes).is_multiple_of(16) {
                return Ok(false);
            }
        }
        if !are_halves(step, op, i) || shared(banks)?.is_none_or(|bytes| bytes > RING) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The product of bank `i`, of `n` columns, by tiles of `most` at most.
pub(super) fn kernel(
    mut emit: Emit<'_>,
    step: &Step,
    op: &GroupedMatMul,
    (i, n, most): (usize, u64, u64),
) -> Result<Kernel> {
    let banks = banks(step, op, i);
    let lacks = || rlx_core::Error::internal("grouped_matmul: rows of no known size");
    let shared = shared(banks)?.ok_or_else(lacks)?;
    emit.line(BULK_COPIES);
    emit.line(WARPGROUPS);
    emit.size("COLUMNS", columns(banks))?;
    emit.size("SHARED", shared)?;
    for (w, name) in banks.iter().zip(["STRIDE", "UP_STRIDE"]) {
        let [_, stride] = strides(w)?.ok_or_else(lacks)?;
        emit.size(name, stride)?;
    }
    let text = concat!(
        include_str!("halves_tile.cuh"),
        include_str!("bulk.cuh"),
        include_str!("warpgroup.cuh"),
        include_str!("grouped_groups.cu")
    );
    let kernel = emit.kernel("grouped_groups", text, [n / columns(banks), most, 1], 128)?;
    Ok(Kernel { shared: word(shared)?, ..kernel })
}
