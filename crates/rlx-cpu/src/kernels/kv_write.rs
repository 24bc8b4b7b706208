//! kv_write    cache[h, past + i, :] = x[i, h, :] for i < len, unless the block is done
//! shapes      cache f32|f16[heads, capacity, e]   x f32[s, heads e]
//! bytes       4 in, 2 or 4 out, per element
//! parts       heads of the cache
//! numerics    f16 rounds halves to even

use super::{Kernel, Planned, control, dims};
use crate::program::Split;
use crate::run::{Cx, Panel};
use crate::simd::{LANES, Level, Simd, Task, dispatch};
use rlx_core::Result;
use rlx_core::ir::lir::{Slice, Step};
use rlx_core::types::DType;

/// A cache's sizes.
#[derive(Clone, Copy)]
pub(super) struct Cache {
    pub(super) heads: usize,
    pub(super) capacity: usize,
    pub(super) head_dim: usize,
    pub(super) is_f16: bool,
}

impl Cache {
    pub(super) fn new(slice: &Slice) -> Result<Cache> {
        let [heads, capacity, head_dim] = dims(slice)?;
        Ok(Cache { heads, capacity, head_dim, is_f16: slice.ty.dtype == DType::F16 })
    }

    /// Bytes of one position of one head.
    pub(super) fn row_bytes(self) -> usize {
        self.head_dim * if self.is_f16 { 2 } else { 4 }
    }

    /// Writes row `x` of head `h` at `position`, if the cache has it.
    pub(super) fn put(
        self,
        level: Level,
        panel: &mut Panel<'_>,
        h: usize,
        position: usize,
        x: &[f32],
    ) {
        if position >= self.capacity {
            return;
        }
        let n = self.row_bytes();
        let row = &mut panel.row::<u8>(h)[position * n..][..n];
        if self.is_f16 {
            dispatch(level, ToF16 { x, y: row });
        } else {
            row.copy_from_slice(bytemuck::cast_slice(x));
        }
    }
}

struct KvWrite {
    cache: Cache,
    seq: usize,
}

pub(super) fn plan(step: &Step) -> Result<Planned> {
    let cache = Cache::new(&step.operands[0])?;
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

struct ToF16<'a> {
    x: &'a [f32],
    y: &'a mut [u8],
}

impl Task for ToF16<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (x, rest) = self.x.as_chunks::<LANES>();
        let (y, y_rest) = self.y.as_chunks_mut::<{ 2 * LANES }>();
        for (x, y) in x.iter().zip(y) {
            s.store_f16(s.load(x), y);
        }
        for (x, y) in rest.iter().zip(y_rest.as_chunks_mut::<2>().0) {
            *y = half::f16::from_f32(*x).to_le_bytes();
        }
    }
}
