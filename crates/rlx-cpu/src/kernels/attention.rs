//! attention   y[i, h] = softmax(cap(scale q[i, h] K[h']^T)) V[h'], positions p - window..=p of
//!             p = past + i, or to the end of p's block; cap(s) = softcap tanh(s / softcap); a sink is one
//!             more score                                                       arXiv:2205.14135
//! shapes      q, y f32[s, heads e]   K, V f32|f16|q8_0|q4_0[kv heads, capacity, e]   h' = h kv_heads / heads
//! bytes       K and V once for up to 4 queries: rows of a prompt, or the heads of a group
//! shares      heads of y
//! numerics    online softmax over blocks of 32 positions, f32; exp within 2 ulp; blocks as they
//!             decode, their scale multiplied with a block's sum, and with a position's weight

use super::attention_loops::{BLOCK, Loops, Queries};
#[cfg(not(target_arch = "wasm32"))]
use super::cells::Q4_0;
use super::cells::{Cells, F16, F32, Q8_0};
use super::kv_write::Cache;
use super::{Kernel, Planned, claim, control, dims};
use crate::place::Split;
use crate::simd::{LANES, Level, Simd, Task, dispatch};
use crate::view::Cx;
use core::array::from_fn;
use core::cell::RefCell;
use core::ops::Range;
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::Attention;
use rlx_core::target::Target;
use rlx_core::types::Type;

/// Queries that share each read of the cache, at most.
pub(super) const QUERIES: usize = 4;

/// The operator over a cache.
pub(super) struct Attend {
    pub(super) cache: Cache,
    scale: f32,
    /// Rows seen before a row's own, at most.
    window: usize,
    softcap: Option<f32>,
    /// Positions of a block.
    block: usize,
}

/// A query and the positions that it sees.
#[derive(Clone)]
pub(super) struct Query<'a> {
    pub(super) q: &'a [f32],
    pub(super) seen: Range<usize>,
}

/// Of a query: the largest score, and the sum of exponentials relative to it.
#[derive(Clone, Copy)]
pub(super) struct Sums {
    pub(super) max: f32,
    pub(super) sum: f32,
}

impl Attend {
    pub(super) fn new(op: &Attention, step: &Step) -> Result<Attend> {
        let cache = Cache::new(&step.operands[1], op.ring)?;
        // What is longer than addresses has no end.
        let size = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let window = op.window.map_or(usize::MAX, size);
        let block = op.block.map_or(1, size).max(1);
        Ok(Attend { cache, scale: op.scale, window, softcap: op.softcap, block })
    }

    /// Positions that the one at `position` sees where the first `held` have rows.
    pub(super) fn seen(&self, position: usize, held: usize) -> Range<usize> {
        let end = (position / self.block + 1).saturating_mul(self.block);
        let room = if self.cache.ring { usize::MAX } else { self.cache.capacity };
        position.saturating_sub(self.window)..end.min(held).min(room)
    }

    /// Head `kv` of a cache.
    pub(super) fn head<'a>(&self, cache: &'a [u8], kv: usize) -> &'a [u8] {
        let bytes = self.cache.capacity * self.cache.row_bytes;
        &cache[kv * bytes..][..bytes]
    }

    /// The first of `n` queries, as many as read a head of the cache together: `out` is their
    /// weighted sums of values, `[queries][e]`, undivided.
    pub(super) fn some<'a>(
        &self,
        level: Level,
        n: usize,
        query: impl Fn(usize) -> Query<'a>,
        head: (&[u8], &[u8]),
        out: &mut [f32],
    ) -> ([Sums; QUERIES], usize) {
        let count = [1, 1, 2, 2, 4][n.min(QUERIES)];
        let queries: [Query<'_>; QUERIES] = from_fn(|r| query(r.min(count - 1)));
        let out = &mut out[..count * self.cache.head_dim];
        let sums = match count {
            4 => self.queries::<4>(level, &queries, head, out),
            2 => self.queries::<2>(level, &queries, head, out),
            _ => self.queries::<1>(level, &queries, head, out),
        };
        (sums, count)
    }

    /// The first `R` queries. Not inlined: both operators that attend call the same three.
    #[inline(never)]
    fn queries<const R: usize>(
        &self,
        level: Level,
        queries: &[Query<'_>; QUERIES],
        (keys, values): (&[u8], &[u8]),
        out: &mut [f32],
    ) -> [Sums; QUERIES]
    where
        Loops: Queries<R>,
    {
        let group = Group::<R> {
            q: from_fn(|r| queries[r].q),
            seen: from_fn(|r| queries[r].seen.clone()),
            keys,
            values,
            cache: self.cache,
            scale: self.scale,
            softcap: self.softcap,
            out,
        };
        let sums = dispatch(level, group);
        from_fn(|r| sums[r.min(R - 1)])
    }
}

struct Whole {
    attend: Attend,
    heads: usize,
    seq: usize,
    sinks: bool,
}

pub(super) fn takes(op: &Attention, operands: &[&Type], _: &Target) -> Result<(), String> {
    let Attention {
        head_dim: _,
        scale: _,
        window: _,
        softcap: _,
        sinks: _,
        block: _,
        ring: _,
        half,
    } = op;
    if *half {
        return Err("its kernel rounds no queries to 11 bits".into());
    }
    claim::floats_and_caches(operands)?;
    claim::matrix(operands)
}

pub(super) fn plan(op: &Attention, step: &Step) -> Result<Planned> {
    let [seq, width] = dims(&step.operands[0])?;
    let attend = Attend::new(op, step)?;
    // A prompt's rows see half the cache on average; that it is full is not known here.
    let work = seq * width * attend.cache.capacity;
    let kernel = Whole { attend, heads: width / op.head_dim.max(1), seq, sinks: op.sinks };
    Ok(Planned::new(kernel, &[Split::Columns(4 * op.head_dim)], work))
}

std::thread_local! {
    static OUT: RefCell<Vec<f32>> = RefCell::default();
}

impl Kernel for Whole {
    fn run(&self, cx: &mut Cx<'_>) {
        let (q, ctl) = (cx.slice::<f32>(0), control(cx.slice(3)));
        let (keys, values, level) = (cx.bytes(1), cx.bytes(2), cx.level);
        let sinks = if self.sinks { cx.slice::<f32>(4) } else { &[] };
        let Attend { cache, .. } = &self.attend;
        let (e, group) = (cache.head_dim, self.heads / cache.heads.max(1));
        let columns = cx.result(0).columns::<f32>();
        let (first, last) = (columns.start / e, columns.end / e);
        let rows = ctl.len.min(self.seq);
        OUT.with_borrow_mut(|out| {
            out.resize(QUERIES * e, 0.0);
            for kv in first / group..last.div_ceil(group) {
                let heads = first.max(kv * group)..last.min((kv + 1) * group);
                let head = (self.attend.head(keys, kv), self.attend.head(values, kv));
                // Queries of this head group: all heads of a row, then the next row's.
                let n = rows * heads.len();
                let place = |u: usize| (u / heads.len(), heads.start + u % heads.len());
                let mut at = 0;
                while at < n {
                    let query = |r: usize| {
                        let (i, h) = place(at + r);
                        let q = &q[(i * self.heads + h) * e..][..e];
                        Query { q, seen: self.attend.seen(ctl.past + i, ctl.past + rows) }
                    };
                    let (sums, done) = self.attend.some(level, n - at, query, head, out);
                    for r in 0..done {
                        let (i, h) = place(at + r);
                        let y = &mut cx.result(0).row::<f32>(i)[h * e - columns.start..][..e];
                        let inverse = match sinks.get(h) {
                            Some(&sink) => dispatch(level, WithSink { sums: sums[r], sink }),
                            None => 1.0 / sums[r].sum,
                        };
                        y.iter_mut().zip(&out[r * e..]).for_each(|(y, x)| *y = x * inverse);
                    }
                    at += done;
                }
            }
        });
    }
}

/// What a query's weighted values are multiplied by where its softmax has a sink.
struct WithSink {
    sums: Sums,
    sink: f32,
}

impl Task for WithSink {
    type Output = f32;
    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> f32 {
        let WithSink { sums: Sums { max, sum }, sink } = self;
        let most = if sink > max { sink } else { max };
        let exp = |x: f32| {
            let mut lanes = [0.0; LANES];
            s.store(s.exp(s.splat(x - most)), &mut lanes);
            lanes[0]
        };
        exp(max) / (exp(max) * sum + exp(sink))
    }
}

/// Queries over one head of the cache.
struct Group<'a, const R: usize> {
    q: [&'a [f32]; R],
    /// Positions that each one sees.
    seen: [Range<usize>; R],
    keys: &'a [u8],
    values: &'a [u8],
    cache: Cache,
    scale: f32,
    softcap: Option<f32>,
    /// `[R][e]`.
    out: &'a mut [f32],
}

impl<const R: usize> Task for Group<'_, R>
where
    Loops: Queries<R>,
{
    type Output = [Sums; R];
    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> [Sums; R] {
        match self.cache.dtype {
            F16::DTYPE => self.attend::<S, F16>(s),
            Q8_0::DTYPE => self.attend::<S, Q8_0>(s),
            #[cfg(not(target_arch = "wasm32"))]
            Q4_0::DTYPE => self.attend::<S, Q4_0>(s),
            _ => self.attend::<S, F32>(s),
        }
    }
}

/// `softcap tanh(x / softcap)` of every score, within 3e-7 of the cap.
#[inline(always)]
pub(super) fn cap<S: Simd>(s: S, softcap: f32, scores: &mut [f32]) {
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
    fn attend<S: Simd, C: Cells>(self, s: S) -> [Sums; R] {
        let Group { q, seen, keys, values, cache, scale, softcap, out } = self;
        let row_bytes = cache.row_bytes;
        let e = q[0].len();
        let most = seen.iter().fold(0, |m, n| m.max(n.end));
        let least = seen.iter().fold(most, |m, n| m.min(n.start));
        let mut max = [f32::NEG_INFINITY; R];
        let mut sum = [0.0f32; R];
        out.fill(0.0);
        let mut p = [[0.0f32; BLOCK]; R];
        let mut next = least;
        while next < most {
            // A block's rows stand one behind the other: the end of a ring ends it.
            let (start, row) = (next, cache.row(next));
            let count = (most - start).min(BLOCK).min(cache.capacity - row);
            next += count;
            let rows = row * row_bytes..(row + count) * row_bytes;
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
        from_fn(|r| Sums { max: max[r], sum: sum[r] })
    }
}
