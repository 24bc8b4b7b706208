//! softmax     y[i] = exp(x[i] - m) / sum exp(x[j] - m) along an axis, m the largest
//! shapes      x, y f32|f16|bf16[.., axis, ..]
//! bytes       8 per element of f32, y three times from cache
//! shares      rows where the axis is the last, else all that stands before it
//! numerics    f32, 8 partial sums; exp within 2 ulp

use super::convert::{self, FLOATS};
use super::math::AddTo;
use super::rows::{Exponentials, Largest, Scale, Scratch, store};
use super::{Kernel, Planned, claim};
use crate::place::Split;
use crate::simd::{Level, dispatch};
use crate::view::Cx;
use core::cell::RefCell;
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops;
use rlx_core::target::Target;
use rlx_core::types::{DType, Type};

struct Softmax {
    dtype: DType,
    /// Elements along the axis, and those behind each of them.
    n: usize,
    inner: usize,
}

pub(super) fn takes(op: &ops::Softmax, operands: &[&Type], _: &Target) -> Result<(), String> {
    let ops::Softmax { axis: _ } = op;
    claim::all_of(operands, FLOATS)
}

pub(super) fn plan(op: &ops::Softmax, step: &Step) -> Result<Planned> {
    let [outer, n, inner] = super::around(&step.operands[0], op.axis)?;
    let kernel = Softmax { dtype: step.operands[0].ty.dtype, n, inner };
    Ok(Planned::new(kernel, &[Split::Runs(outer)], 16 * outer * n * inner))
}

std::thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Kernel for Softmax {
    fn run(&self, cx: &mut Cx<'_>) {
        SCRATCH.with_borrow_mut(|Scratch { y: room, shared: [most, sum, _], .. }| {
            let (level, dtype) = (cx.level, self.dtype);
            let run = self.n * self.inner * dtype.block_bytes();
            for r in cx.result(0).rows.clone() {
                let x = &cx.bytes(0)[r * run..][..run];
                store(level, dtype, cx.result(0).row(r), room, |y| {
                    convert::read(level, dtype, x, y);
                    match self.inner {
                        1 => row(level, y),
                        inner => columns(level, inner, y, most, sum),
                    }
                });
            }
        });
    }
}

/// One row, in place.
fn row(level: Level, y: &mut [f32]) {
    let base = dispatch(level, Largest(y));
    let sum = dispatch(level, Exponentials { y, base });
    dispatch(level, Scale { y, by: 1.0 / sum });
}

/// Every column of rows of `inner`, in place.
fn columns(level: Level, inner: usize, y: &mut [f32], most: &mut Vec<f32>, sum: &mut Vec<f32>) {
    most.clear();
    most.resize(inner, f32::NEG_INFINITY);
    sum.clear();
    sum.resize(inner, 0.0);
    for y in y.chunks_exact(inner) {
        most.iter_mut().zip(y).for_each(|(m, y)| *m = if *y > *m { *y } else { *m });
    }
    for y in y.chunks_exact_mut(inner) {
        y.iter_mut().zip(&*most).for_each(|(y, m)| *y -= m);
        dispatch(level, Exponentials { y, base: 0.0 });
        dispatch(level, AddTo { x: y, y: sum });
    }
    for y in y.chunks_exact_mut(inner) {
        y.iter_mut().zip(&*sum).for_each(|(y, s)| *y /= s);
    }
}
