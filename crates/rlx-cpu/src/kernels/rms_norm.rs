//! rms_norm    y[r, c] = x[r, c] w[c] / sqrt(mean(x[r, :]^2) + eps)      arXiv:1910.07467
//! shapes      x, y f32[rows, dim]   w f32[dim]; with the feature `graphs` any rank, f16 and bf16
//! bytes       12 per element, x twice from cache
//! shares      rows: a single row is one worker's, the barrier costs more than its sum
//! numerics    f32, 16 partial sums

#[cfg(feature = "graphs")]
use super::convert::{self, FLOATS};
#[cfg(feature = "graphs")]
use super::rows::{Scratch, store};
use super::{Kernel, Planned, claim, dims};
use crate::place::Split;
use crate::simd::{LANES, Level, Simd, Task, dispatch};
use crate::view::Cx;
#[cfg(feature = "graphs")]
use core::cell::RefCell;
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::RmsNorm;
use rlx_core::target::Target;
#[cfg(feature = "graphs")]
use rlx_core::types::DType;
use rlx_core::types::Type;

struct Norm {
    eps: f32,
    dim: usize,
}

pub(super) fn takes(op: &RmsNorm, operands: &[&Type], _: &Target) -> Result<(), String> {
    let RmsNorm { eps: _ } = op;
    #[cfg(feature = "graphs")]
    return claim::all_of(operands, FLOATS);
    #[cfg(not(feature = "graphs"))]
    claim::floats(operands).and_then(|()| claim::matrix(operands))
}

pub(super) fn plan(op: &RmsNorm, step: &Step) -> Result<Planned> {
    #[cfg(feature = "graphs")]
    if step.operands.iter().any(|x| x.ty.dtype != DType::F32)
        || step.results[0].ty.shape.rank() != 2
    {
        let (rows, dim) = super::rows_of(&step.operands[0])?;
        let types = [0, 1].map(|i| step.operands[i].ty.dtype);
        let kernel = AnyNorm { eps: op.eps, dim, types };
        return Ok(Planned::new(kernel, &[Split::Runs(rows)], rows * dim));
    }
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

/// Rows of a tensor of any rank and float type.
#[cfg(feature = "graphs")]
struct AnyNorm {
    eps: f32,
    dim: usize,
    /// Of x and y, and of w.
    types: [DType; 2],
}

#[cfg(feature = "graphs")]
std::thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

#[cfg(feature = "graphs")]
impl Kernel for AnyNorm {
    fn run(&self, cx: &mut Cx<'_>) {
        SCRATCH.with_borrow_mut(|Scratch { x, y, shared: [w, ..] }| {
            let (level, [dtype, of_w]) = (cx.level, self.types);
            let w = convert::floats(level, of_w, cx.bytes(1), w);
            let row_bytes = self.dim * dtype.block_bytes();
            let rows = cx.result(0).rows.clone();
            for r in rows.start..cx.real(rows.end) {
                let row_of_x = &cx.bytes(0)[r * row_bytes..][..row_bytes];
                let x = convert::floats(level, dtype, row_of_x, x);
                store(level, dtype, cx.result(0).row(r), y, |y| row(level, x, w, self.eps, y));
            }
        });
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
