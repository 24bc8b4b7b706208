//! layer_norm  y[r, c] = (x[r, c] - mean) / sqrt(var + eps) scale[c] + bias[c]     arXiv:1607.06450
//! shapes      x, y f32|f16|bf16[.., dim]   scale, bias f32 or as x[dim]
//! bytes       8 per element of f32, x three times from cache
//! shares      rows
//! numerics    sums and distances in f64, the rest in f32

use super::convert::{self, FLOATS};
use super::rows::{Affine, Scratch, Spread, store};
use super::{Kernel, Planned, claim};
use crate::place::Split;
use crate::simd::dispatch;
use crate::view::Cx;
use core::cell::RefCell;
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::LayerNorm;
use rlx_core::target::Target;
use rlx_core::types::{DType, Type};

struct Norm {
    eps: f32,
    dim: usize,
    /// Of x and y, of the scale, and of the bias if there is one.
    types: [DType; 2],
    bias: Option<DType>,
}

pub(super) fn takes(op: &LayerNorm, operands: &[&Type], _: &Target) -> Result<(), String> {
    let LayerNorm { eps: _, bias: _ } = op;
    claim::all_of(operands, FLOATS)
}

pub(super) fn plan(op: &LayerNorm, step: &Step) -> Result<Planned> {
    let (rows, dim) = super::rows_of(&step.operands[0])?;
    let ty = |i: usize| step.operands[i].ty.dtype;
    let bias = op.bias.then(|| ty(2));
    let kernel = Norm { eps: op.eps, dim, types: [ty(0), ty(1)], bias };
    Ok(Planned::new(kernel, &[Split::Runs(rows)], 4 * rows * dim))
}

std::thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Kernel for Norm {
    fn run(&self, cx: &mut Cx<'_>) {
        SCRATCH.with_borrow_mut(|Scratch { x, y, shared: [scale, bias, _] }| {
            let (level, [dtype, of_scale]) = (cx.level, self.types);
            let scale = convert::floats(level, of_scale, cx.bytes(1), scale);
            let bias = self.bias.map(|of| convert::floats(level, of, cx.bytes(2), bias));
            let row_bytes = self.dim * dtype.block_bytes();
            for r in cx.result(0).rows.clone() {
                let row = &cx.bytes(0)[r * row_bytes..][..row_bytes];
                let x = convert::floats(level, dtype, row, x);
                let spread = Spread::of(level, x, self.eps);
                store(level, dtype, cx.result(0).row(r), y, |y| {
                    dispatch(level, Affine { x, spread, scale, bias, y });
                });
            }
        });
    }
}
