//! gated_delta_net  M = exp(g) M + k (beta (v - exp(g) M^T k))^T, y = M^T q / sqrt(n), row by row
//! shapes           q, k f32[s, kh, n]   v, y f32[s, h, v]   g, beta f32[s, h]   state f32[h, n, v]
//! delta_net        the same of rows qkv f32[s, 2 kh n + h v], with q and k of length 1, and gates of a, b, decay
//!                  and dt
//! bytes            the state twice a row and head: 8 n v, from the cache that a head's 4 n v fit in; rows that
//!                  fill a chunk share that (`gated_delta_net/chunk.rs`)
//! operations       6 n v a row and head
//! shares           heads
//! numerics         f32; sums over n in order

mod chunk;

use super::{Kernel, Planned, claim, control, dims};
use crate::place::Split;
use crate::simd::{LANES, Simd, Task, dispatch};
use crate::view::Cx;
use chunk::{CHUNK, Chunk, Room};
use core::cell::RefCell;
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::math;
use rlx_core::ops::{self, GatedDeltaNet, Unary};
use rlx_core::target::Target;
use rlx_core::types::Type;

struct DeltaNet {
    op: GatedDeltaNet,
    rows: usize,
    key_heads: usize,
    heads: usize,
    width: usize,
    /// What a layer's operator adds to the square of a length; `None` for the recurrence alone.
    eps: Option<f32>,
}

pub(super) fn takes(op: &GatedDeltaNet, operands: &[&Type], _: &Target) -> Result<(), String> {
    let GatedDeltaNet { state_size: _, carry, tiled: _ } = op;
    claim::floats_and_caches(operands)?;
    if !carry || operands.len() != 7 {
        return Err("its kernel needs a state that is carried on, and a control block".into());
    }
    if operands[0].shape.rank() != 3 || operands[3].shape.rank() != 2 {
        return Err("its kernel has one sequence, and one gate a head".into());
    }
    whole_lanes(operands[2])
}

/// A layer's operator: tensors of f32.
pub(super) fn takes_layer(
    op: &ops::DeltaNet,
    operands: &[&Type],
    _: &Target,
) -> Result<(), String> {
    let ops::DeltaNet { key_heads: _, state_size: _, eps: _, tiled: _ } = op;
    claim::floats_and_caches(operands)?;
    whole_lanes(operands[5])
}

/// Refuses heads whose values' last axis is no whole number of vectors.
fn whole_lanes(values: &Type) -> Result<(), String> {
    match values.shape.last().as_static() {
        Some(width) if width % LANES as u64 == 0 => Ok(()),
        _ => Err(format!("its kernel has values of whole {LANES}")),
    }
}

pub(super) fn plan(op: &GatedDeltaNet, step: &Step) -> Result<Planned> {
    let [rows, key_heads, n] = dims(&step.operands[0])?;
    let [_, heads, width] = dims(&step.operands[2])?;
    Ok(planned(DeltaNet { op: op.clone(), rows, key_heads, heads, width, eps: None }, n))
}

pub(super) fn plan_layer(op: &ops::DeltaNet, step: &Step) -> Result<Planned> {
    let [rows, _] = dims(&step.operands[0])?;
    let [heads, n, width] = dims(&step.operands[5])?;
    let (key_heads, eps) = (op.key_heads, Some(op.eps));
    Ok(planned(DeltaNet { op: op.rule(), rows, key_heads, heads, width, eps }, n))
}

fn planned(kernel: DeltaNet, n: usize) -> Planned {
    let DeltaNet { rows, heads, width, .. } = kernel;
    let splits = [Split::Grid(rows, 4 * width), Split::Runs(heads)];
    Planned::new(kernel, &splits, 3 * rows * heads * n * width)
}

/// Where a head of a row has its numbers.
struct Operands<'a> {
    q: &'a [f32],
    k: &'a [f32],
    v: &'a [f32],
    /// Of its matrix.
    decay: f32,
    beta: f32,
    /// What the query and the key are multiplied by.
    of_q: f32,
    of_k: f32,
}

/// `1 / sqrt(sum x^2 + eps)`.
fn inverse_length(x: &[f32], eps: f32) -> f32 {
    let square: f32 = x.iter().map(|x| x * x).sum();
    1.0 / (square + eps).sqrt()
}

impl DeltaNet {
    /// Of head `h` in row `i`.
    fn operands<'a>(&self, cx: &Cx<'a>, i: usize, h: usize) -> Operands<'a> {
        let (n, width, heads) = (self.op.state_size, self.width, self.heads);
        let key = self.op.key_head(h, self.key_heads, heads) * n;
        let (keys, at) = (self.key_heads * n, i * heads + h);
        let [a, b, c, d, e] = [0, 1, 2, 3, 4].map(|i| cx.slice::<f32>(i));
        let exp = |x: f32| math::exp(x.into()) as f32;
        let root = 1.0 / (n as f32).sqrt();
        if let Some(eps) = self.eps {
            let row = &a[i * (2 * keys + heads * width)..];
            let time = Unary::Softplus.eval((b[at] + e[h]).into()) as f32;
            let (q, k) = (&row[key..][..n], &row[keys + key..][..n]);
            return Operands {
                q,
                k,
                v: &row[2 * keys + h * width..][..width],
                decay: exp(d[h] * time),
                beta: Unary::Sigmoid.eval(c[at].into()) as f32,
                of_q: root * inverse_length(q, eps),
                of_k: inverse_length(k, eps),
            };
        }
        Operands {
            q: &a[i * keys + key..][..n],
            k: &b[i * keys + key..][..n],
            v: &c[at * width..][..width],
            decay: exp(d[at]),
            beta: e[at],
            of_q: root,
            of_k: 1.0,
        }
    }

    /// Computes one chunk of head `h`, from row `i` on.
    fn chunk(&self, cx: &mut Cx<'_>, i: usize, h: usize, room: &mut Room) {
        let (n, width) = (self.op.state_size, self.width);
        room.resize(n, width);
        for c in 0..CHUNK {
            let Operands { q, k, v, decay, beta, of_q, of_k } = self.operands(cx, i + c, h);
            scale(k, of_k, &mut room.rows[c * n..][..n]);
            scale(q, of_q, &mut room.rows[(CHUNK + c) * n..][..n]);
            room.values[c * width..][..width].copy_from_slice(v);
            room.gates[c] = [decay, beta];
        }
        let level = cx.level;
        dispatch(level, Chunk { m: cx.result(1).row::<f32>(h), n, width, room });
        let at = h * width - cx.result(0).columns::<f32>().start;
        for c in 0..CHUNK {
            let y = &room.y[c * width..][..width];
            cx.result(0).row::<f32>(i + c)[at..][..width].copy_from_slice(y);
        }
    }
}

fn scale(x: &[f32], by: f32, out: &mut [f32]) {
    for (out, x) in out.iter_mut().zip(x) {
        *out = x * by;
    }
}

std::thread_local! {
    /// What a row changes the matrix by, its result, and its key of length 1.
    static ROOM: RefCell<[Vec<f32>; 3]> = RefCell::default();
    static OF_CHUNK: RefCell<Room> = RefCell::default();
}

impl Kernel for DeltaNet {
    fn run(&self, cx: &mut Cx<'_>) {
        let (level, ctl) = (cx.level, control(cx.slice(6)));
        if ctl.done {
            return;
        }
        let (n, width) = (self.op.state_size, self.width);
        let first = cx.result(0).columns::<f32>().start;
        let len = ctl.len.min(self.rows);
        // Rows behind the last whole chunk go one by one.
        let whole = len - len % CHUNK;
        ROOM.with_borrow_mut(|[change, y, unit]| {
            change.resize(width, 0.0);
            y.resize(width, 0.0);
            unit.resize(n, 0.0);
            for h in cx.result(1).rows.clone() {
                for i in (0..whole).step_by(CHUNK) {
                    OF_CHUNK.with_borrow_mut(|room| self.chunk(cx, i, h, room));
                }
                for i in whole..len {
                    let Operands { q, k, v, decay, beta, of_q, of_k } = self.operands(cx, i, h);
                    scale(k, of_k, unit);
                    let m = cx.result(1).row::<f32>(h);
                    let k = &*unit;
                    dispatch(level, Row { m, k, q, v, decay, beta, root: of_q, change, y });
                    // The shares of both results have the same heads.
                    cx.result(0).row::<f32>(i)[h * width - first..][..width].copy_from_slice(y);
                }
                for i in len..self.rows {
                    cx.result(0).row::<f32>(i)[h * width - first..][..width].fill(0.0);
                }
            }
        });
    }
}

/// One row of one head.
struct Row<'a> {
    /// The head's matrix, n rows of v.
    m: &'a mut [f32],
    k: &'a [f32],
    q: &'a [f32],
    v: &'a [f32],
    decay: f32,
    beta: f32,
    root: f32,
    change: &'a mut [f32],
    y: &'a mut [f32],
}

impl Task for Row<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Row { m, k, q, v, decay, beta, root, change, y } = self;
        let width = v.len();
        change.fill(0.0);
        y.fill(0.0);
        let decays = s.splat(decay);
        for (m, k) in m.chunks_exact_mut(width).zip(k) {
            let k = s.splat(*k);
            let (m, sums) = (m.as_chunks_mut::<LANES>().0, change.as_chunks_mut::<LANES>().0);
            for (m, sum) in m.iter_mut().zip(sums) {
                let decayed = s.mul(s.load(m), decays);
                s.store(decayed, m);
                s.store(s.fma(decayed, k, s.load(sum)), sum);
            }
        }
        for (change, v) in change.iter_mut().zip(v) {
            *change = beta * (v - *change);
        }
        for ((m, k), q) in m.chunks_exact_mut(width).zip(k).zip(q) {
            let (k, q) = (s.splat(*k), s.splat(*q * root));
            let (m, sums) = (m.as_chunks_mut::<LANES>().0, y.as_chunks_mut::<LANES>().0);
            let changes = change.as_chunks::<LANES>().0;
            for ((m, change), sum) in m.iter_mut().zip(changes).zip(sums) {
                let changed = s.fma(k, s.load(change), s.load(m));
                s.store(changed, m);
                s.store(s.fma(changed, q, s.load(sum)), sum);
            }
        }
    }
}
