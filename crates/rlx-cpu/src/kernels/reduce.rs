//! reduce      y = sum, mean, max, min or product of x along axes
//! shapes      x f32|f16|bf16 or integers, any; y without the axes, or with 1 in their place
//! bytes       x once, y once
//! shares      runs of y's elements
//! numerics    f64, 16 partial results of a run; integers in i64, of which the type keeps its low bits

use super::convert;
use super::elementwise::layout::{integers, put_integers};
use super::{Kernel, Planned};
use crate::place::Split;
use crate::simd::{Simd, Task, dispatch};
use crate::view::Cx;
use core::cell::RefCell;
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::math::{to_bf16, to_f16};
use rlx_core::ops::{Reduce, Reduction};
use rlx_core::target::Target;
use rlx_core::types::{DType, Scalar, Type};

/// Elements that are widened at once.
const BLOCK: usize = 1024;

/// An axis, or several that run on into each other.
#[derive(Clone, Copy, Debug)]
struct Axis {
    n: usize,
    stride: usize,
}

struct Folds {
    f: Reduction,
    dtype: DType,
    /// Axes that stay, and those that go, but for the innermost one.
    kept: Vec<Axis>,
    gone: Vec<Axis>,
    /// The innermost axis, and whether it goes.
    inner: usize,
    goes: bool,
    /// Elements that an element of y is made of.
    count: usize,
}

pub(super) fn takes(op: &Reduce, operands: &[&Type], _: &Target) -> Result<(), String> {
    let Reduce { f: _, axes: _, keep: _ } = op;
    super::argmax::numbers(operands)
}

pub(super) fn plan(op: &Reduce, step: &Step) -> Result<Planned> {
    let dims = super::sizes(&step.operands[0])?;
    let mut groups: Vec<(Axis, bool)> = Vec::new();
    let mut stride = 1;
    for (axis, &n) in dims.iter().enumerate().rev() {
        let goes = op.axes.contains(&axis);
        match groups.last_mut() {
            _ if n == 1 => {}
            Some((group, same)) if *same == goes => group.n *= n,
            _ => groups.push((Axis { n, stride }, goes)),
        }
        stride *= n;
    }
    // From the innermost on; without any there is one element, which stays.
    let (inner, goes) = groups.first().map_or((1, false), |(axis, goes)| (axis.n, *goes));
    let outer = |goes: bool| {
        let rest = groups.iter().skip(1).rev();
        rest.filter(|g| g.1 == goes).map(|g| g.0).collect::<Vec<_>>()
    };
    let count = op.axes.iter().map(|&axis| dims[axis]).product();
    let dtype = step.operands[0].ty.dtype;
    let kernel =
        Folds { f: op.f, dtype, kept: outer(false), gone: outer(true), inner, goes, count };
    Ok(Planned::new(kernel, &[Split::Flat(64)], dims.iter().product()))
}

/// Where each index of the axes stands, the last axis fastest.
fn each_place(axes: &[Axis], mut f: impl FnMut(usize)) {
    let total: usize = axes.iter().map(|a| a.n).product();
    for i in 0..total {
        f(place(axes, i));
    }
}

/// Where index `i` of the axes stands.
fn place(axes: &[Axis], mut i: usize) -> usize {
    let mut at = 0;
    for axis in axes.iter().rev() {
        at += i % axis.n * axis.stride;
        i /= axis.n;
    }
    at
}

/// Memory of a worker.
#[derive(Default)]
struct Scratch {
    room: Vec<f32>,
    wide: Vec<i64>,
    floats: Vec<f64>,
    integers: Vec<i64>,
}

std::thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Kernel for Folds {
    fn run(&self, cx: &mut Cx<'_>) {
        SCRATCH.with_borrow_mut(|scratch| self.run_with(cx, scratch));
    }
}

impl Folds {
    fn run_with(&self, cx: &mut Cx<'_>, scratch: &mut Scratch) {
        let size = self.dtype.block_bytes();
        let share = cx.result(0).columns::<u8>();
        let (first, end) = (share.start / size, share.end / size);
        let mut at = first;
        while at < end {
            // Elements of y whose first elements of x stand one behind the other.
            let (row, column) = match self.goes {
                true => (at, 0),
                false => (at / self.inner, at % self.inner),
            };
            let n = if self.goes { 1 } else { (self.inner - column).min(end - at).min(BLOCK) };
            let base = place(&self.kept, row) + column;
            let y = (at - first) * size..(at - first + n) * size;
            if self.dtype.is_float() {
                self.floats(cx, scratch, base, n);
                let y = &mut cx.result(0).row::<u8>(0)[y];
                put(self.dtype, &scratch.floats, y);
            } else {
                self.integers(cx, scratch, base, n);
                let y = &mut cx.result(0).row::<u8>(0)[y];
                put_integers(self.dtype, &scratch.integers, y);
            }
            at += n;
        }
    }

    /// `n` elements of y whose first elements of x stand from `base` on.
    fn floats(&self, cx: &Cx<'_>, scratch: &mut Scratch, base: usize, n: usize) {
        let (level, dtype, f, x) = (cx.level, self.dtype, self.f, cx.bytes(0));
        let Scratch { room, floats, .. } = scratch;
        let size = dtype.block_bytes();
        floats.clear();
        floats.resize(n, f.start());
        if self.count == 0 {
            // The mean of nothing is NaN.
            floats.fill(if f == Reduction::Mean { f64::NAN } else { f.start() });
            return;
        }
        each_place(&self.gone, |offset| {
            let from = base + offset;
            if !self.goes {
                let x = convert::floats(level, dtype, &x[from * size..][..n * size], room);
                return dispatch(level, Columns { f, x, acc: floats });
            }
            for start in (0..self.inner).step_by(BLOCK) {
                let len = BLOCK.min(self.inner - start);
                let bytes = &x[(from + start) * size..][..len * size];
                let x = convert::floats(level, dtype, bytes, room);
                floats[0] = f.step().eval(floats[0], dispatch(level, Run { f, x }));
            }
        });
        if f == Reduction::Mean {
            floats.iter_mut().for_each(|y| *y /= self.count as f64);
        }
    }

    /// The same of integers.
    fn integers(&self, cx: &Cx<'_>, scratch: &mut Scratch, base: usize, n: usize) {
        let (dtype, f, x) = (self.dtype, self.f, cx.bytes(0));
        let Scratch { wide, integers: y, .. } = scratch;
        let size = dtype.block_bytes();
        y.clear();
        y.resize(n, start(f, dtype));
        if self.count == 0 {
            return;
        }
        let fold = |y: &mut i64, x: i64| *y = f.step().eval_int(*y, x).unwrap_or(*y);
        wide.resize(BLOCK, 0);
        each_place(&self.gone, |offset| {
            let from = base + offset;
            let whole = if self.goes { self.inner } else { n };
            for start in (0..whole).step_by(BLOCK) {
                let len = BLOCK.min(whole - start);
                let wide = &mut wide[..len];
                integers(dtype, &x[(from + start) * size..][..len * size], wide);
                match self.goes {
                    true => wide.iter().for_each(|x| fold(&mut y[0], *x)),
                    false => y.iter_mut().zip(wide).for_each(|(y, x)| fold(y, *x)),
                }
            }
        });
    }
}

/// What a fold of integers begins with: the value of nothing.
fn start(f: Reduction, dtype: DType) -> i64 {
    let (least, largest) = match dtype {
        DType::Scalar(Scalar::I32) => (i32::MIN.into(), i32::MAX.into()),
        DType::Scalar(Scalar::I16) => (i16::MIN.into(), i16::MAX.into()),
        DType::Scalar(Scalar::I8) => (i8::MIN.into(), i8::MAX.into()),
        DType::Scalar(Scalar::U32) => (0, u32::MAX.into()),
        DType::Scalar(Scalar::U8) => (0, u8::MAX.into()),
        _ => (i64::MIN, i64::MAX),
    };
    match f {
        Reduction::Sum | Reduction::Mean => 0,
        Reduction::Max => least,
        Reduction::Min => largest,
        Reduction::Prod => 1,
    }
}

/// Rounds once.
pub(super) fn put(dtype: DType, x: &[f64], y: &mut [u8]) {
    let halves = y.as_chunks_mut::<2>().0.iter_mut().zip(x);
    match dtype {
        DType::F16 => halves.for_each(|(y, x)| *y = to_f16(*x).to_le_bytes()),
        DType::BF16 => halves.for_each(|(y, x)| *y = to_bf16(*x).to_le_bytes()),
        _ => {
            for (y, x) in y.as_chunks_mut::<4>().0.iter_mut().zip(x) {
                *y = (*x as f32).to_le_bytes();
            }
        }
    }
}

/// A run of elements to one number.
struct Run<'a> {
    f: Reduction,
    x: &'a [f32],
}

impl Task for Run<'_> {
    type Output = f64;
    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> f64 {
        match self.f {
            Reduction::Sum | Reduction::Mean => folded(self.x, 0.0, |a, b| a + b),
            Reduction::Max => folded(self.x, f64::NEG_INFINITY, f64::max),
            Reduction::Min => folded(self.x, f64::INFINITY, f64::min),
            Reduction::Prod => folded(self.x, 1.0, |a, b| a * b),
        }
    }
}

/// Sixteen partial results, and the rest behind them.
#[inline(always)]
fn folded(x: &[f32], start: f64, f: impl Fn(f64, f64) -> f64) -> f64 {
    let (whole, rest) = x.as_chunks::<16>();
    let mut acc = [start; 16];
    for x in whole {
        for i in 0..16 {
            acc[i] = f(acc[i], x[i].into());
        }
    }
    let all = acc.into_iter().reduce(&f).unwrap_or(start);
    rest.iter().fold(all, |a, b| f(a, f64::from(*b)))
}

/// A run of elements, each to a number of its own.
struct Columns<'a> {
    f: Reduction,
    x: &'a [f32],
    acc: &'a mut [f64],
}

impl Task for Columns<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let each = self.acc.iter_mut().zip(self.x.iter().map(|x| f64::from(*x)));
        match self.f {
            Reduction::Sum | Reduction::Mean => each.for_each(|(a, x)| *a += x),
            Reduction::Max => each.for_each(|(a, x)| *a = a.max(x)),
            Reduction::Min => each.for_each(|(a, x)| *a = a.min(x)),
            Reduction::Prod => each.for_each(|(a, x)| *a *= x),
        }
    }
}
