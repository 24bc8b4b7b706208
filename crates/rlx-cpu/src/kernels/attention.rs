//! attention   y[i, h] = softmax(cap(scale q[i, h] K[h']^T)) V[h'], positions p - window..=p of
//!             p = past + i; cap(s) = softcap tanh(s / softcap)                            arXiv:2205.14135
//! shapes      q, y f32[s, heads e]   K, V f32|f16|q8_0[kv heads, capacity, e]   h' = h kv_heads / heads
//! bytes       K and V once for up to 4 queries: rows of a prompt, or the heads of a group
//! parts       heads of y
//! numerics    online softmax over blocks of 32 positions, f32; exp within 2 ulp; blocks of q8_0 as they
//!             decode, their scale multiplied with a block's sum, and with a position's weight

use super::attention_loops::{BLOCK, Loops, Queries};
use super::cells::{Cells, F16, F32, Q8_0};
use super::kv_write::Cache;
use super::{Control, Kernel, Planned, control, dims};
use crate::program::Split;
use crate::run::Cx;
use crate::simd::{LANES, Level, Simd, Task, dispatch};
use core::array::from_fn;
use core::cell::RefCell;
use core::ops::Range;
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::Attention;
use rlx_core::types::DType;

/// Queries that share each read of the cache, at most.
const QUERIES: usize = 4;

struct Attend {
    cache: Cache,
    heads: usize,
    seq: usize,
    scale: f32,
    /// Rows seen before a row's own, at most.
    window: usize,
    softcap: Option<f32>,
}

pub(super) fn plan(op: &Attention, step: &Step) -> Result<Planned> {
    let [seq, width] = dims(&step.operands[0])?;
    let cache = Cache::new(&step.operands[1])?;
    // A window longer than addresses is none.
    let window = op.window.map_or(usize::MAX, |w| usize::try_from(w).unwrap_or(usize::MAX));
    let heads = width / op.head_dim;
    let kernel = Attend { cache, heads, seq, scale: op.scale, window, softcap: op.softcap };
    // A prompt's rows see half the cache on average; that it is full is not known here.
    let work = seq * width * cache.capacity;
    Ok(Planned::new(kernel, &[Split::Columns(4 * op.head_dim)], work))
}

std::thread_local! {
    static OUT: RefCell<Vec<f32>> = RefCell::default();
}

impl Kernel for Attend {
    fn run(&self, cx: &mut Cx<'_>) {
        let (q, ctl) = (cx.slice::<f32>(0), control(cx.slice(3)));
        let (keys, values, level) = (cx.bytes(1), cx.bytes(2), cx.level);
        let (e, group) = (self.cache.head_dim, self.heads / self.cache.heads.max(1));
        let columns = cx.result(0).columns::<f32>();
        let (first, last) = (columns.start / e, columns.end / e);
        let head_bytes = self.cache.capacity * self.cache.row_bytes;
        let rows = ctl.len.min(self.seq);
        OUT.with_borrow_mut(|out| {
            out.resize(QUERIES * e, 0.0);
            for kv in first / group..last.div_ceil(group) {
                let heads = first.max(kv * group)..last.min((kv + 1) * group);
                let keys = &keys[kv * head_bytes..][..head_bytes];
                let values = &values[kv * head_bytes..][..head_bytes];
                // Queries of this head group: all heads of a row, then the next row's.
                let n = rows * heads.len();
                let query = |u: usize| (u / heads.len(), heads.start + u % heads.len());
                let mut at = 0;
                while at < n {
                    let left = n - at;
                    let done = if left >= QUERIES {
                        self.queries::<4>(level, q, &ctl, (keys, values), out, |r| query(at + r))
                    } else if left >= 2 {
                        self.queries::<2>(level, q, &ctl, (keys, values), out, |r| query(at + r))
                    } else {
                        self.queries::<1>(level, q, &ctl, (keys, values), out, |r| query(at + r))
                    };
                    for r in 0..done {
                        let (i, h) = query(at + r);
                        let y = &mut cx.result(0).row::<f32>(i)[h * e - columns.start..][..e];
                        y.copy_from_slice(&out[r * e..][..e]);
                    }
                    at += done;
                }
            }
        });
    }
}

impl Attend {
    /// `R` queries, whose rows and heads `query` tells, over one head of the cache.
    fn queries<const R: usize>(
        &self,
        level: Level,
        q: &[f32],
        ctl: &Control,
        (keys, values): (&[u8], &[u8]),
        out: &mut [f32],
        query: impl Fn(usize) -> (usize, usize),
    ) -> usize
    where
        Loops: Queries<R>,
    {
        let e = self.cache.head_dim;
        let group = Group::<R> {
            q: from_fn(|r| {
                let (i, h) = query(r);
                &q[(i * self.heads + h) * e..][..e]
            }),
            seen: from_fn(|r| {
                let own = ctl.past + query(r).0;
                own.saturating_sub(self.window)..(own + 1).min(self.cache.capacity)
            }),
            keys,
            values,
            dtype: self.cache.dtype,
            row_bytes: self.cache.row_bytes,
            scale: self.scale,
            softcap: self.softcap,
            out: &mut out[..R * e],
        };
        dispatch(level, group);
        R
    }
}

/// Queries over one head of the cache.
struct Group<'a, const R: usize> {
    q: [&'a [f32]; R],
    /// Positions that each one sees, at least 1.
    seen: [Range<usize>; R],
    keys: &'a [u8],
    values: &'a [u8],
    dtype: DType,
    row_bytes: usize,
    scale: f32,
    softcap: Option<f32>,
    /// `[R][e]`.
    out: &'a mut [f32],
}

impl<const R: usize> Task for Group<'_, R>
where
    Loops: Queries<R>,
{
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        match self.dtype {
            F16::DTYPE => self.attend::<S, F16>(s),
            Q8_0::DTYPE => self.attend::<S, Q8_0>(s),
            _ => self.attend::<S, F32>(s),
        }
    }
}

/// `softcap tanh(x / softcap)` of every score, within 3e-7 of the cap.
#[inline(always)]
fn cap<S: Simd>(s: S, softcap: f32, scores: &mut [f32; BLOCK]) {
    let (one, two) = (s.splat(1.0), s.splat(2.0));
    for x in scores.as_chunks_mut::<LANES>().0 {
        let u = s.div(s.load(x), s.splat(softcap));
        let tanh = s.sub(one, s.div(two, s.add(s.exp(s.mul(two, u)), one)));
        s.store(s.mul(s.splat(softcap), tanh), x);
    }
}

impl<const R: usize> Group<'_, R>
where
    Loops: Queries<R>,
{
    #[inline(always)]
    fn attend<S: Simd, C: Cells>(self, s: S) {
        let Group { q, seen, keys, values, row_bytes, scale, softcap, out, .. } = self;
        let e = q[0].len();
        let most = seen.iter().fold(0, |m, n| m.max(n.end));
        let least = seen.iter().fold(most, |m, n| m.min(n.start));
        let mut max = [f32::NEG_INFINITY; R];
        let mut sum = [0.0f32; R];
        out.fill(0.0);
        let mut p = [[0.0f32; BLOCK]; R];
        for start in (least..most).step_by(BLOCK) {
            let count = (most - start).min(BLOCK);
            let rows = start * row_bytes..(start + count) * row_bytes;
            Loops::scores::<S, C>(s, &q, &keys[rows.clone()], row_bytes, scale, &mut p);
            for r in 0..R {
                if let Some(softcap) = softcap {
                    cap(s, softcap, &mut p[r]);
                }
                // What a query does not see weighs nothing.
                let own = seen[r].start.saturating_sub(start).min(count)
                    ..seen[r].end.saturating_sub(start).min(count);
                p[r][..own.start].fill(f32::NEG_INFINITY);
                p[r][own.end.max(own.start)..].fill(f32::NEG_INFINITY);
                let mut most = s.splat(max[r]);
                for p in p[r].as_chunks::<LANES>().0 {
                    most = s.max(s.load(p), most);
                }
                let mut lanes = [0.0; LANES];
                s.store(most, &mut lanes);
                let block_max = lanes.iter().fold(max[r], |m, x| if *x > m { *x } else { m });
                // A block that the query does not see at all leaves everything as it is.
                let base = if block_max == f32::NEG_INFINITY { 0.0 } else { block_max };
                let mut total = s.splat(0.0);
                for p in p[r].as_chunks_mut::<LANES>().0 {
                    let x = s.exp(s.sub(s.load(p), s.splat(base)));
                    s.store(x, p);
                    total = s.add(total, x);
                }
                // exp(-inf) is 0: the first block starts from nothing.
                let mut keep = [0.0; LANES];
                s.store(s.exp(s.splat(max[r] - base)), &mut keep);
                sum[r] = sum[r] * keep[0] + s.sum(total);
                if max[r] != block_max {
                    out[r * e..][..e].iter_mut().for_each(|y| *y *= keep[0]);
                }
                max[r] = block_max;
            }
            Loops::weigh::<S, C>(s, &p, &values[rows], row_bytes, out);
        }
        for r in 0..R {
            let inverse = 1.0 / sum[r];
            out[r * e..][..e].iter_mut().for_each(|y| *y *= inverse);
        }
    }
}
