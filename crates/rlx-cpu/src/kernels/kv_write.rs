//! kv_write    cache[h, past + i, :] = x[i, h, :] for i < len, unless the block is done; position p of a ring has
//!             row p mod capacity
//! shapes      cache f32|f16|q8_0|q4_0[heads, capacity, e]   x f32[s, heads e]
//! bytes       4 in, 4, 2, 1.06 or 0.56 out, per element
//! shares      heads of the cache
//! numerics    f16 rounds halves to even, q8_0 away from zero, q4_0 up: the reference encoder's bits

#[cfg(not(target_arch = "wasm32"))]
use super::cells::Q4_0;
use super::cells::{Cells, F16, Q8_0};
use super::{Kernel, Planned, claim, control, convert, dims, quantize_rows};
use crate::place::Split;
use crate::simd::Level;
use crate::view::{Cx, Share};
use rlx_core::ir::lir::{Slice, Step};
use rlx_core::ops;
use rlx_core::target::Target;
use rlx_core::types::{BlockFormat, DType, Type};
use rlx_core::{Error, Result};

/// A cache's type and sizes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Cache {
    pub(super) heads: usize,
    pub(super) capacity: usize,
    pub(super) head_dim: usize,
    pub(super) dtype: DType,
    /// Bytes of one position of one head.
    pub(super) row_bytes: usize,
    /// Whether it has the last positions; else it has the first.
    pub(super) ring: bool,
}

impl Cache {
    pub(super) fn new(slice: &Slice, ring: bool) -> Result<Cache> {
        let [heads, capacity, head_dim] = dims(slice)?;
        let dtype = slice.ty.dtype;
        let row_bytes = dtype.row_bytes(head_dim as u64).ok_or_else(|| {
            Error::internal(format!("a row of {} is no whole number of blocks", slice.ty))
        })?;
        Ok(Cache { heads, capacity, head_dim, dtype, row_bytes: row_bytes as usize, ring })
    }

    /// The row of a position.
    pub(super) fn row(&self, position: usize) -> usize {
        if self.ring { position % self.capacity.max(1) } else { position }
    }

    /// Writes row `x` of head `h` at `position`, if the cache has it.
    pub(super) fn put(
        self,
        level: Level,
        share: &mut Share<'_>,
        h: usize,
        position: usize,
        x: &[f32],
    ) {
        let at = self.row(position);
        if at >= self.capacity {
            return;
        }
        let n = self.row_bytes;
        let row = &mut share.row::<u8>(h)[at * n..][..n];
        match self.dtype {
            F16::DTYPE => convert::write(level, DType::F16, x, row),
            Q8_0::DTYPE => quantize_rows::encode(level, BlockFormat::Q8_0, x, row),
            #[cfg(not(target_arch = "wasm32"))]
            Q4_0::DTYPE => quantize_rows::encode(level, BlockFormat::Q4_0, x, row),
            _ => row.copy_from_slice(bytemuck::cast_slice(x)),
        }
    }
}

struct KvWrite {
    cache: Cache,
    seq: usize,
}

pub(super) fn takes(op: &ops::KvWrite, operands: &[&Type], _: &Target) -> Result<(), String> {
    let ops::KvWrite { ring: _ } = op;
    claim::floats_and_caches(operands)
}

pub(super) fn plan(op: &ops::KvWrite, step: &Step) -> Result<Planned> {
    let cache = Cache::new(&step.operands[0], op.ring)?;
    let [seq, width] = dims(&step.operands[1])?;
    Ok(Planned::new(KvWrite { cache, seq }, &[Split::Rows], seq * width))
}

impl Kernel for KvWrite {
    fn run(&self, cx: &mut Cx<'_>) {
        let (level, x, ctl) = (cx.level, cx.slice::<f32>(1), control(cx.slice(2)));
        if ctl.done {
            return;
        }
        let (e, heads) = (self.cache.head_dim, self.cache.heads);
        for h in cx.result(0).rows.clone() {
            for i in 0..ctl.len.min(self.seq) {
                let x = &x[(i * heads + h) * e..][..e];
                self.cache.put(level, cx.result(0), h, ctl.past + i, x);
            }
        }
    }
}
