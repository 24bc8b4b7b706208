//! sort        y, i = the elements along an axis in order, and where each stood
//! top_k       i = where the k largest elements of the last axis stand
//! shapes      x f32|f16|bf16 or integers [.., axis, ..]   i u32
//! bytes       x once, the results once
//! shares      runs of all that stands before the axis
//! numerics    exact; equal elements keep their order, a NaN is larger than all numbers

use super::argmax::numbers;
use super::convert;
use super::elementwise::layout::integers;
use super::{Kernel, Planned, ranked};
use crate::place::Split;
use crate::view::Cx;
use core::cell::RefCell;
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops;
use rlx_core::order;
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

/// Memory of a worker.
#[derive(Default)]
struct Scratch {
    floats: Vec<f32>,
    integers: Vec<i64>,
    /// The elements of a run as numbers in their order.
    keys: Vec<i64>,
    /// The words and the places of a column.
    words: Vec<u64>,
    places: Vec<u32>,
}

std::thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Kernel for Sort {
    fn run(&self, cx: &mut Cx<'_>) {
        SCRATCH.with_borrow_mut(|scratch| self.rows(cx, scratch));
    }
}

impl Sort {
    fn rows(&self, cx: &mut Cx<'_>, scratch: &mut Scratch) {
        let (n, inner, size) = (self.n, self.inner, self.dtype.block_bytes());
        for r in cx.result(0).rows.clone() {
            let bytes = &cx.bytes(0)[r * n * inner * size..][..n * inner * size];
            self.keys(cx, bytes, scratch);
            for column in 0..inner {
                self.places(column, scratch);
                let places = &scratch.places;
                if self.most.is_some() {
                    cx.result(0).row::<u32>(r).copy_from_slice(places);
                    continue;
                }
                let to = cx.result(0).row::<u8>(r).chunks_exact_mut(size);
                for (to, &from) in to.skip(column).step_by(inner).zip(places) {
                    let at = (from as usize * inner + column) * size;
                    to.copy_from_slice(&bytes[at..][..size]);
                }
                let to = cx.result(1).row::<u32>(r)[column..].iter_mut();
                to.step_by(inner).zip(places).for_each(|(to, from)| *to = *from);
            }
        }
    }

    /// Numbers in the order of a run's elements.
    fn keys(&self, cx: &Cx<'_>, bytes: &[u8], scratch: &mut Scratch) {
        let Scratch { floats, integers: wide, keys, .. } = scratch;
        let n = self.n * self.inner;
        keys.clear();
        if self.dtype.is_float() {
            floats.resize(n, 0.0);
            convert::read(cx.level, self.dtype, bytes, floats);
            keys.extend(floats.iter().map(|x| i64::from(ranked::bits(*x))));
        } else {
            wide.resize(n, 0);
            integers(self.dtype, bytes, wide);
            keys.extend_from_slice(wide);
        }
    }

    /// The places of a column's elements, as many as are wanted.
    fn places(&self, column: usize, scratch: &mut Scratch) {
        let Scratch { keys, words, places, .. } = scratch;
        let most = self.most.unwrap_or(self.n);
        let column = keys[column.min(keys.len())..].iter().copied().step_by(self.inner.max(1));
        places.clear();
        if self.dtype == DType::I64 {
            let column: Vec<i64> = column.collect();
            places.extend(0..self.n as u32);
            order::sort_by(places, |&a, &b| {
                let order = column[a as usize].cmp(&column[b as usize]);
                // Equal elements keep their order, whichever way is sorted.
                if self.descending { order.reverse() } else { order }
            });
            return places.truncate(most);
        }
        let unsigned = self.dtype.is_float() || self.dtype == DType::U32;
        let least = if unsigned { 0 } else { i64::from(i32::MIN) };
        let bits = |key: i64| (key - least) as u32;
        words.clear();
        words.extend((0..).zip(column).map(|(i, key)| ranked::word(bits(key), i, self.descending)));
        ranked::first(words, most);
        places.extend(words.iter().map(|&word| ranked::place(word)));
    }
}
