//! residual    sum = x + residual + bias, rounded as it is stored; y = norm(sum) scale + shift: of
//!             `residual_layer_norm` and `residual_rms_norm`
//! shapes      x, residual, sum, y f32|f16|bf16[.., dim]   bias, scale, shift f32 or as x[dim]
//! bytes       16 per element of f32, the sum three times from cache
//! shares      rows
//! numerics    the sum in f32; the norm's sums and distances in f64, the rest in f32

use super::convert::{self, FLOATS};
use super::math::AddTo;
use super::rows::{Affine, Scratch, Spread, store};
use super::{Kernel, Planned, claim};
use crate::place::Split;
use crate::simd::dispatch;
use crate::view::Cx;
use core::cell::RefCell;
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::{ResidualLayerNorm, ResidualRmsNorm};
use rlx_core::target::Target;
use rlx_core::types::{DType, Type};

struct Residual {
    eps: f32,
    dim: usize,
    dtype: DType,
    /// Whether the mean is taken away.
    centres: bool,
    /// Operands of the sum's bias, the scale and the shift, with their types.
    bias: Option<(usize, DType)>,
    scale: (usize, DType),
    shift: Option<(usize, DType)>,
}

pub(super) fn takes(op: &ResidualLayerNorm, operands: &[&Type], _: &Target) -> Result<(), String> {
    let ResidualLayerNorm { eps: _, bias: _, shift: _ } = op;
    claim::all_of(operands, FLOATS)
}

pub(super) fn takes_rms(
    op: &ResidualRmsNorm,
    operands: &[&Type],
    _: &Target,
) -> Result<(), String> {
    let ResidualRmsNorm { eps: _, bias: _ } = op;
    claim::all_of(operands, FLOATS)
}

pub(super) fn plan(op: &ResidualLayerNorm, step: &Step) -> Result<Planned> {
    residual(op.eps, true, op.bias, op.shift, step)
}

pub(super) fn plan_rms(op: &ResidualRmsNorm, step: &Step) -> Result<Planned> {
    residual(op.eps, false, op.bias, false, step)
}

fn residual(eps: f32, centres: bool, bias: bool, shift: bool, step: &Step) -> Result<Planned> {
    let (rows, dim) = super::rows_of(&step.operands[0])?;
    let operand = |i: usize| (i, step.operands[i].ty.dtype);
    let scale = operand(2 + usize::from(bias));
    let kernel = Residual {
        eps,
        dim,
        dtype: step.operands[0].ty.dtype,
        centres,
        bias: bias.then(|| operand(2)),
        scale,
        shift: shift.then(|| operand(scale.0 + 1)),
    };
    let splits = [Split::Runs(rows), Split::Runs(rows)];
    Ok(Planned::new(kernel, &splits, 5 * rows * dim))
}

std::thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Kernel for Residual {
    fn run(&self, cx: &mut Cx<'_>) {
        SCRATCH.with_borrow_mut(|Scratch { x, y, shared: [bias, scale, shift] }| {
            let (level, dtype) = (cx.level, self.dtype);
            let (at, of) = self.scale;
            let scale = convert::floats(level, of, cx.bytes(at), scale);
            let bias = self.bias.map(|(at, of)| convert::floats(level, of, cx.bytes(at), bias));
            let shift = self.shift.map(|(at, of)| convert::floats(level, of, cx.bytes(at), shift));
            let row_bytes = self.dim * dtype.block_bytes();
            y.resize(self.dim.max(y.len()), 0.0);
            for r in cx.result(0).rows.clone() {
                let row = r * row_bytes..(r + 1) * row_bytes;
                let sum = &mut y[..self.dim];
                convert::read(level, dtype, &cx.bytes(0)[row.clone()], sum);
                let residual = convert::floats(level, dtype, &cx.bytes(1)[row], x);
                dispatch(level, AddTo { x: residual, y: sum });
                if let Some(bias) = bias {
                    dispatch(level, AddTo { x: bias, y: sum });
                }
                convert::write(level, dtype, sum, cx.result(0).row(r));
                // The norm is of what was stored.
                convert::round(level, dtype, sum);
                let spread = match self.centres {
                    true => Spread::of(level, sum, self.eps),
                    false => Spread::of_squares(level, sum, self.eps),
                };
                let sum = &*sum;
                store(level, dtype, cx.result(1).row(r), x, |y| {
                    dispatch(level, Affine { x: sum, spread, scale, bias: shift, y });
                });
            }
        });
    }
}
