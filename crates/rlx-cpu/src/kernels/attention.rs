//! attention   y[i, h] = softmax(cap(scale q[i, h] K[h']^T)) V[h'], positions p - window..=p of
//!             p = past + i; cap(s) = softcap tanh(s / softcap)                            arXiv:2205.14135
//! shapes      q, y f32[s, heads e]   K, V f32|f16[kv heads, capacity, e]   h' = h kv_heads / heads
//! bytes       K and V once for 4 queries: rows of a prompt, or the heads of a group
//! parts       heads of y
//! numerics    online softmax over blocks of 32 positions, f32; exp within 2 ulp

use super::kv_write::Cache;
use super::{Kernel, Planned, control, dims};
use crate::program::Split;
use crate::run::Cx;
use crate::simd::{LANES, Simd, Task, dispatch, f16_to_f32, head};
use core::array::from_fn;
use core::cell::RefCell;
use core::ops::Range;
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::Attention;

/// Queries that share each read of the cache.
const QUERIES: usize = 4;
/// Positions between two updates of the running maximum.
const BLOCK: usize = 32;

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
        let head_bytes = self.cache.capacity * self.cache.row_bytes();
        let rows = ctl.len.min(self.seq);
        OUT.with_borrow_mut(|out| {
            out.resize(QUERIES * e, 0.0);
            for kv in first / group..last.div_ceil(group) {
                let heads = first.max(kv * group)..last.min((kv + 1) * group);
                let keys = &keys[kv * head_bytes..][..head_bytes];
                let values = &values[kv * head_bytes..][..head_bytes];
                // Queries of this head group: all heads of a row, then the next row's.
                let n = rows * heads.len();
                for at in (0..n).step_by(QUERIES) {
                    let count = (n - at).min(QUERIES);
                    let query: [(usize, usize); QUERIES] = from_fn(|r| {
                        let u = at + r.min(count - 1);
                        (u / heads.len(), heads.start + u % heads.len())
                    });
                    dispatch(
                        level,
                        Group {
                            q: query.map(|(i, h)| &q[(i * self.heads + h) * e..][..e]),
                            seen: query.map(|(i, _)| {
                                let own = ctl.past + i;
                                own.saturating_sub(self.window)..(own + 1).min(self.cache.capacity)
                            }),
                            keys,
                            values,
                            is_f16: self.cache.is_f16,
                            scale: self.scale,
                            softcap: self.softcap,
                            out,
                        },
                    );
                    for (r, &(i, h)) in query[..count].iter().enumerate() {
                        let y = &mut cx.result(0).row::<f32>(i)[h * e - columns.start..][..e];
                        y.copy_from_slice(&out[r * e..][..e]);
                    }
                }
            }
        });
    }
}

/// Up to four queries over one head of the cache.
struct Group<'a> {
    q: [&'a [f32]; QUERIES],
    /// Positions that each one sees, at least 1.
    seen: [Range<usize>; QUERIES],
    keys: &'a [u8],
    values: &'a [u8],
    is_f16: bool,
    scale: f32,
    softcap: Option<f32>,
    /// `[QUERIES][e]`.
    out: &'a mut [f32],
}

impl Task for Group<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        if self.is_f16 {
            self.attend::<S, true>(s);
        } else {
            self.attend::<S, false>(s);
        }
    }
}

/// Eight elements of a cache row.
#[inline(always)]
fn load<S: Simd, const F16: bool>(s: S, row: &[u8], i: usize) -> S::F {
    if F16 {
        s.load_f16(head(&row[2 * LANES * i..]))
    } else {
        let row = head::<{ 4 * LANES }>(&row[4 * LANES * i..]).as_chunks::<4>().0;
        s.load(&from_fn(|i| f32::from_le_bytes(row[i])))
    }
}

/// One element of a cache row.
#[inline(always)]
fn element<const F16: bool>(row: &[u8], i: usize) -> f32 {
    if F16 {
        f16_to_f32(u16::from_le_bytes([row[2 * i], row[2 * i + 1]]))
    } else {
        f32::from_le_bytes(*head(&row[4 * i..]))
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

impl Group<'_> {
    #[inline(always)]
    fn attend<S: Simd, const F16: bool>(self, s: S) {
        let Group { q, seen, keys, values, scale, softcap, out, .. } = self;
        let e = q[0].len();
        let row_bytes = e * if F16 { 2 } else { 4 };
        let (vectors, tail) = (e / LANES, e / LANES * LANES..e);
        let most = seen.iter().fold(0, |m, n| m.max(n.end));
        let least = seen.iter().fold(most, |m, n| m.min(n.start));
        let mut max = [f32::NEG_INFINITY; QUERIES];
        let mut sum = [0.0f32; QUERIES];
        out.fill(0.0);
        let mut p = [[0.0f32; BLOCK]; QUERIES];
        for start in (least..most).step_by(BLOCK) {
            let count = (most - start).min(BLOCK);
            // Scores; what a query does not see weighs nothing.
            let rows = keys[start * row_bytes..][..count * row_bytes].chunks_exact(row_bytes);
            for (j, row) in rows.enumerate() {
                let mut acc = [s.splat(0.0); QUERIES];
                for i in 0..vectors {
                    let k = load::<S, F16>(s, row, i);
                    for r in 0..QUERIES {
                        let q = s.load(super_chunk(q[r], i));
                        acc[r] = s.fma(q, k, acc[r]);
                    }
                }
                for r in 0..QUERIES {
                    let rest: f32 = tail.clone().map(|i| q[r][i] * element::<F16>(row, i)).sum();
                    p[r][j] = (s.sum(acc[r]) + rest) * scale;
                }
            }
            for r in 0..QUERIES {
                if let Some(softcap) = softcap {
                    cap(s, softcap, &mut p[r]);
                }
                let own = seen[r].start.saturating_sub(start).min(count)
                    ..seen[r].end.saturating_sub(start).min(count);
                p[r][..own.start].fill(f32::NEG_INFINITY);
                p[r][own.end.max(own.start)..].fill(f32::NEG_INFINITY);
                let block_max = p[r].iter().fold(max[r], |m, x| if *x > m { *x } else { m });
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
                max[r] = block_max;
                for y in &mut out[r * e..][..e] {
                    *y *= keep[0];
                }
            }
            let rows = &values[start * row_bytes..][..count * row_bytes];
            for i in 0..vectors {
                let mut acc: [S::F; QUERIES] =
                    from_fn(|r| s.load(super_chunk(&out[r * e..][..e], i)));
                for (j, row) in rows.chunks_exact(row_bytes).enumerate() {
                    let v = load::<S, F16>(s, row, i);
                    for r in 0..QUERIES {
                        acc[r] = s.fma(s.splat(p[r][j]), v, acc[r]);
                    }
                }
                for r in 0..QUERIES {
                    if let Some(y) = out[r * e + i * LANES..].first_chunk_mut() {
                        s.store(acc[r], y);
                    }
                }
            }
            for i in tail.clone() {
                for (j, row) in rows.chunks_exact(row_bytes).enumerate() {
                    let v = element::<F16>(row, i);
                    (0..QUERIES).for_each(|r| out[r * e + i] += p[r][j] * v);
                }
            }
        }
        for r in 0..QUERIES {
            let inverse = 1.0 / sum[r];
            out[r * e..][..e].iter_mut().for_each(|y| *y *= inverse);
        }
    }
}

/// Vector `i` of a slice of whole vectors.
#[inline(always)]
fn super_chunk(x: &[f32], i: usize) -> &[f32; LANES] {
    x[i * LANES..].first_chunk().unwrap_or(const { &[0.0; LANES] })
}
