//! pool        y[n, c, p] = the largest element, or the mean, of the window at p in x[n, c]
//! shapes      x f32|f16|bf16[n, channels, ..]   y of its type, [n, channels, places..]
//! operations  one for each place and tap
//! bytes       x once for each tap, from cache where a plane's rows fit it; y once
//! shares      planes, or lines of places if planes are few
//! numerics    f32 sums in order of the taps, then one division

use super::convert::FLOATS;
use super::patches::{self, Axes};
use super::slide::{self, Counts, Scratch, Slide, counts};
use super::{Kernel, Planned, claim, sizes};
use crate::view::Cx;
use core::cell::RefCell;
use rlx_core::ir::lir::Step;
use rlx_core::ops::{Pool, PoolKind};
use rlx_core::target::Target;
use rlx_core::types::{DType, Type};

/// Taps along an axis, of which a program keeps a list.
const TAPS: u64 = 4096;

struct Pooled {
    kind: PoolKind,
    dtype: DType,
    axes: Axes,
    count_padding: bool,
    counts: Counts,
}

pub(super) fn takes(op: &Pool, operands: &[&Type], _: &Target) -> Result<(), String> {
    let Pool { kind: _, kernel, window: _, count_padding: _ } = op;
    claim::all_of(operands, FLOATS)?;
    match kernel.iter().find(|n| **n > TAPS) {
        Some(n) => {
            Err(format!("its kernel takes windows of {TAPS} elements along an axis, not {n}"))
        }
        None => Ok(()),
    }
}

pub(super) fn plan(op: &Pool, step: &Step) -> rlx_core::Result<Planned> {
    let (x, y) = (sizes(&step.operands[0])?, sizes(&step.results[0])?);
    let kernel: Vec<usize> = op.kernel.iter().map(|&n| n as usize).collect();
    let axes = patches::axes(&op.window, &x[2..], &kernel, &y[2..]);
    let (dtype, rows) = (step.results[0].ty.dtype, y[0] * y[1]);
    let work = rows.saturating_mul(patches::positions(&axes)).saturating_mul(patches::taps(&axes));
    let split = slide::split(&axes, rows, dtype.block_bytes());
    let counts = counts(&axes);
    let kernel = Pooled { kind: op.kind, dtype, axes, count_padding: op.count_padding, counts };
    Ok(Planned::new(kernel, &[split], work))
}

std::thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Kernel for Pooled {
    fn run(&self, cx: &mut Cx<'_>) {
        SCRATCH.with_borrow_mut(|scratch| {
            let plane = patches::elements(&self.axes) * self.dtype.block_bytes();
            for row in cx.result(0).rows.clone() {
                let planes = &cx.bytes(0)[row * plane..][..plane];
                let slide = Slide { dtype: self.dtype, axes: &self.axes, planes };
                match self.kind {
                    PoolKind::Max => slide.largest(cx, scratch, row),
                    PoolKind::Average => {
                        let counts = Some(&self.counts).filter(|_| !self.count_padding);
                        slide.means(cx, scratch, row, counts);
                    }
                }
            }
        });
    }
}
