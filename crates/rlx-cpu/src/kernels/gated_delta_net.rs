//! gated_delta_net  M = exp(g) M + k (beta (v - exp(g) M^T k))^T, y = M^T q / sqrt(n), row by row
//! shapes           q, k f32[s, kh, n]   v, y f32[s, h, v]   g, beta f32[s, h]   state f32[h, n, v]
//! bytes            the state twice a row and head: 8 n v, from the cache that a head's 4 n v fit in
//! operations       6 n v a row and head
//! shares           heads
//! numerics         f32; sums over n in order

use super::{Kernel, Planned, claim, control, dims};
use crate::place::Split;
use crate::simd::{LANES, Simd, Task, dispatch};
use crate::view::Cx;
use core::cell::RefCell;
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::math;
use rlx_core::ops::GatedDeltaNet;
use rlx_core::target::Target;
use rlx_core::types::Type;

struct DeltaNet {
    op: GatedDeltaNet,
    rows: usize,
    key_heads: usize,
    heads: usize,
    width: usize,
}

pub(super) fn takes(op: &GatedDeltaNet, operands: &[&Type], _: &Target) -> Result<(), String> {
    let GatedDeltaNet { state_size: _, carry, tiled: _ } = op;
    claim::floats_and_caches(operands)?;
    if !carry || operands.len() != 7 {
        return Err("its kernel goes on from a state, by a control block".into());
    }
    if operands[0].shape.rank() != 3 || operands[3].shape.rank() != 2 {
        return Err("its kernel has one sequence, and one gate a head".into());
    }
    match operands[2].shape.last().as_static() {
        Some(width) if width % LANES as u64 == 0 => Ok(()),
        _ => Err(format!("its kernel has values of whole {LANES}")),
    }
}

pub(super) fn plan(op: &GatedDeltaNet, step: &Step) -> Result<Planned> {
    let [rows, key_heads, n] = dims(&step.operands[0])?;
    let [_, heads, width] = dims(&step.operands[2])?;
    let kernel = DeltaNet { op: op.clone(), rows, key_heads, heads, width };
    let splits = [Split::Grid(rows, 4 * width), Split::Runs(heads)];
    Ok(Planned::new(kernel, &splits, 3 * rows * heads * n * width))
}

std::thread_local! {
    /// What a row changes the matrix by, and its result.
    static ROOM: RefCell<[Vec<f32>; 2]> = RefCell::default();
}

impl Kernel for DeltaNet {
    fn run(&self, cx: &mut Cx<'_>) {
        let (level, ctl) = (cx.level, control(cx.slice(6)));
        if ctl.done {
            return;
        }
        let [q, k, v, g, beta] = [0, 1, 2, 3, 4].map(|i| cx.slice::<f32>(i));
        let (n, width) = (self.op.state_size, self.width);
        let first = cx.result(0).columns::<f32>().start;
        let root = 1.0 / (n as f32).sqrt();
        ROOM.with_borrow_mut(|[change, y]| {
            change.resize(width, 0.0);
            y.resize(width, 0.0);
            for h in cx.result(1).rows.clone() {
                let key = self.op.key_head(h, self.key_heads, self.heads);
                for i in 0..ctl.len.min(self.rows) {
                    let (at, from) = (i * self.heads + h, (i * self.key_heads + key) * n);
                    let row = Row {
                        m: cx.result(1).row::<f32>(h),
                        k: &k[from..][..n],
                        q: &q[from..][..n],
                        v: &v[at * width..][..width],
                        decay: math::exp(g[at].into()) as f32,
                        beta: beta[at],
                        root,
                        change,
                        y,
                    };
                    dispatch(level, row);
                    // The shares of both results have the same heads.
                    cx.result(0).row::<f32>(i)[h * width - first..][..width].copy_from_slice(y);
                }
                for i in ctl.len.min(self.rows)..self.rows {
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
