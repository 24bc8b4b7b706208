//! group_norm  y[n, c, p] = (x[n, c, p] - mean) / sqrt(var + eps) scale[c] + bias[c], mean and variance of a
//!             run of channels with all their places                                    arXiv:1803.08494
//! shapes      x, y f32|f16|bf16[n, channels, ..]   scale, bias f32 or as x[channels]
//! bytes       8 per element of f32, x three times, from cache where a run fits it
//! shares      groups of every n
//! numerics    sums and distances in f64, the rest in f32

use super::convert::{self, FLOATS};
use super::rows::{AffineRun, Scratch, Spread, store};
use super::{Kernel, Planned, claim};
use crate::place::Split;
use crate::simd::dispatch;
use crate::view::Cx;
use core::cell::RefCell;
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::GroupNorm;
use rlx_core::target::Target;
use rlx_core::types::{DType, Type};

struct Groups {
    eps: f32,
    groups: usize,
    /// Channels of a group, and elements of a channel.
    channels: usize,
    places: usize,
    types: [DType; 3],
}

pub(super) fn takes(op: &GroupNorm, operands: &[&Type], _: &Target) -> Result<(), String> {
    let GroupNorm { groups: _, eps: _ } = op;
    claim::all_of(operands, FLOATS)
}

pub(super) fn plan(op: &GroupNorm, step: &Step) -> Result<Planned> {
    let dims = super::sizes(&step.operands[0])?;
    let groups = op.groups as usize;
    let (n, channels) = (dims.first().copied().unwrap_or(0), dims.get(1).copied().unwrap_or(0));
    let places = dims.iter().skip(2).product();
    let kernel = Groups {
        eps: op.eps,
        groups,
        channels: channels / groups.max(1),
        places,
        types: [0, 1, 2].map(|i| step.operands[i].ty.dtype),
    };
    Ok(Planned::new(kernel, &[Split::Runs(n * groups)], 4 * n * channels * places))
}

std::thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Kernel for Groups {
    fn run(&self, cx: &mut Cx<'_>) {
        SCRATCH.with_borrow_mut(|Scratch { x, y, shared: [scale, bias, _] }| {
            let (level, [dtype, of_scale, of_bias]) = (cx.level, self.types);
            let scale = convert::floats(level, of_scale, cx.bytes(1), scale);
            let bias = convert::floats(level, of_bias, cx.bytes(2), bias);
            let run = self.channels * self.places * dtype.block_bytes();
            for r in cx.result(0).rows.clone() {
                let x = convert::floats(level, dtype, &cx.bytes(0)[r * run..][..run], x);
                let spread = Spread::of(level, x, self.eps);
                let first = r % self.groups * self.channels;
                store(level, dtype, cx.result(0).row(r), y, |y| {
                    let runs = x.chunks_exact(self.places).zip(y.chunks_exact_mut(self.places));
                    for (c, (x, y)) in runs.enumerate() {
                        let (scale, bias) = (scale[first + c], bias[first + c]);
                        dispatch(level, AffineRun { x, spread, scale, bias, y });
                    }
                });
            }
        });
    }
}
