//! rms_norm    y[r, c] = x[r, c] w[c] / sqrt(mean(x[r, :]^2) + eps)      arXiv:1910.07467
//! shapes      x, y f32[rows, dim]   w f32[dim]
//! bytes       12 per element, x twice from cache
//! parts       rows: a single row is one worker's, the barrier costs more than its sum
//! numerics    f32, 16 partial sums

use super::{Kernel, Planned, dims};
use crate::program::Split;
use crate::run::Cx;
use crate::simd::{LANES, Level, Simd, Task, dispatch};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::RmsNorm;

struct Norm {
    eps: f32,
    dim: usize,
}

pub(super) fn plan(op: &RmsNorm, step: &Step) -> Result<Planned> {
    let [rows, dim] = dims(&step.operands[0])?;
    Ok(Planned::new(Norm { eps: op.eps, dim }, &[Split::Rows], rows * dim))
}

impl Kernel for Norm {
    fn run(&self, cx: &mut Cx<'_>) {
        let (level, x, w) = (cx.level, cx.slice::<f32>(0), cx.slice::<f32>(1));
        let rows = cx.result(0).rows.clone();
        for r in rows.start..cx.real(rows.end) {
            row(level, &x[r * self.dim..][..self.dim], w, self.eps, cx.result(0).row(r));
        }
    }
}

/// One row.
pub(super) fn row(level: Level, x: &[f32], w: &[f32], eps: f32, y: &mut [f32]) {
    let sum = dispatch(level, SumOfSquares(x));
    let scale = 1.0 / (sum / x.len() as f32 + eps).sqrt();
    for ((y, x), w) in y.iter_mut().zip(x).zip(w) {
        *y = x * scale * w;
    }
}

struct SumOfSquares<'a>(&'a [f32]);

impl Task for SumOfSquares<'_> {
    type Output = f32;
    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> f32 {
        let (whole, rest) = self.0.as_chunks::<LANES>();
        let mut acc = [s.splat(0.0); 2];
        for (i, x) in whole.iter().enumerate() {
            let x = s.load(x);
            acc[i % 2] = s.fma(x, x, acc[i % 2]);
        }
        s.sum(s.add(acc[0], acc[1])) + rest.iter().map(|x| x * x).sum::<f32>()
    }
}
