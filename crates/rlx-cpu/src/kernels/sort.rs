//! sort        y, i = the elements along an axis in order, and where each stood
//! top_k       i = where the k largest elements of the last axis stand
//! shapes      x f32|f16|bf16 or integers [.., axis, ..]   i u32
//! bytes       x once, the results once
//! shares      runs of all that stands before the axis
//! numerics    exact; equal elements keep their order, a NaN is larger than all numbers

use super::argmax::numbers;
use super::convert;
use super::elementwise::layout::integers;
use super::{Kernel, Planned};
use crate::place::Split;
use crate::view::Cx;
use core::cell::RefCell;
use core::cmp::Ordering;
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops;
use rlx_core::target::Target;
use rlx_core::types::{DType, Type};

struct Sort {
    dtype: DType,
    descending: bool,
    /// Elements along the axis, and those behind each of them.
    n: usize,
    inner: usize,
    /// How many indices are wanted; `None`: all, with their elements.
    most: Option<usize>,
}

pub(super) fn takes(op: &ops::Sort, operands: &[&Type], _: &Target) -> Result<(), String> {
    let ops::Sort { axis: _, descending: _ } = op;
    numbers(operands)
}

pub(super) fn takes_few(op: &ops::TopK, operands: &[&Type], _: &Target) -> Result<(), String> {
    let ops::TopK { k: _ } = op;
    numbers(operands)
}

/// Comparisons of a sort of so many elements, roughly.
fn work(outer: usize, n: usize, inner: usize) -> usize {
    2 * outer * n * inner * (n.max(2).ilog2() as usize)
}

pub(super) fn plan(op: &ops::Sort, step: &Step) -> Result<Planned> {
    let [outer, n, inner] = super::around(&step.operands[0], op.axis)?;
    let dtype = step.operands[0].ty.dtype;
    let kernel = Sort { dtype, descending: op.descending, n, inner, most: None };
    Ok(Planned::new(kernel, &[Split::Runs(outer), Split::Runs(outer)], work(outer, n, inner)))
}

pub(super) fn plan_few(op: &ops::TopK, step: &Step) -> Result<Planned> {
    let (outer, n) = super::rows_of(&step.operands[0])?;
    let (dtype, most) = (step.operands[0].ty.dtype, Some(op.k as usize));
    let kernel = Sort { dtype, descending: true, n, inner: 1, most };
    Ok(Planned::new(kernel, &[Split::Runs(outer)], work(outer, n, 1)))
}

/// The elements of a run as numbers, and the indices of one column.
struct Scratch<T> {
    x: Vec<T>,
    order: Vec<u32>,
}

std::thread_local! {
    static FLOAT: RefCell<Scratch<f32>> =
        const { RefCell::new(Scratch { x: Vec::new(), order: Vec::new() }) };
    static INTEGER: RefCell<Scratch<i64>> =
        const { RefCell::new(Scratch { x: Vec::new(), order: Vec::new() }) };
}

/// A NaN is larger than all numbers, and zeros of either sign are equal.
fn floats(a: &f32, b: &f32) -> Ordering {
    a.partial_cmp(b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

impl Kernel for Sort {
    fn run(&self, cx: &mut Cx<'_>) {
        let level = cx.level;
        if self.dtype.is_float() {
            FLOAT.with_borrow_mut(|scratch| {
                let read =
                    |dtype, bytes: &[u8], x: &mut [f32]| convert::read(level, dtype, bytes, x);
                self.each(cx, scratch, read, floats);
            });
        } else {
            INTEGER.with_borrow_mut(|scratch| self.each(cx, scratch, integers, i64::cmp));
        }
    }
}

impl Sort {
    fn each<T: Copy + Default>(
        &self,
        cx: &mut Cx<'_>,
        Scratch { x, order }: &mut Scratch<T>,
        read: impl Fn(DType, &[u8], &mut [T]),
        compare: impl Fn(&T, &T) -> Ordering,
    ) {
        let (n, inner, size) = (self.n, self.inner, self.dtype.block_bytes());
        x.resize(n * inner, T::default());
        for r in cx.result(0).rows.clone() {
            let bytes = &cx.bytes(0)[r * n * inner * size..][..n * inner * size];
            read(self.dtype, bytes, x);
            for column in 0..inner {
                let by = |&a: &u32, &b: &u32| {
                    let at = |i: u32| &x[i as usize * inner + column];
                    let order = compare(at(a), at(b));
                    // Equal elements keep their order, whichever way is sorted.
                    (if self.descending { order.reverse() } else { order }).then(a.cmp(&b))
                };
                order.clear();
                order.extend(0..n as u32);
                match self.most {
                    Some(k) => {
                        if (1..n).contains(&k) {
                            order.select_nth_unstable_by(k - 1, by);
                        }
                        order[..k].sort_unstable_by(by);
                        cx.result(0).row::<u32>(r).copy_from_slice(&order[..k]);
                    }
                    None => {
                        order.sort_unstable_by(by);
                        let to = cx.result(0).row::<u8>(r).chunks_exact_mut(size);
                        for (to, &from) in to.skip(column).step_by(inner).zip(&*order) {
                            let at = (from as usize * inner + column) * size;
                            to.copy_from_slice(&bytes[at..][..size]);
                        }
                        let to = cx.result(1).row::<u32>(r)[column..].iter_mut();
                        to.step_by(inner).zip(&*order).for_each(|(to, from)| *to = *from);
                    }
                }
            }
        }
    }
}
