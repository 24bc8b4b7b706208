//! argmax      y = the lowest index of the largest element along an axis, and argmin of the smallest
//! shapes      x f32|f16|bf16 or integers [.., axis, ..]   y u32, without the axis or with 1 in its place
//! bytes       x once, 4 per element of y
//! shares      runs of y's elements
//! numerics    exact; a NaN is never the largest or smallest, and where all are NaN the index is 0

use super::convert::{self, FLOATS};
use super::elementwise::layout::integers;
use super::{Kernel, Planned};
use crate::place::Split;
use crate::view::Cx;
use core::cell::RefCell;
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::{ArgMax, ArgMin};
use rlx_core::target::Target;
use rlx_core::types::{DType, Kind, Type};

struct Extreme {
    dtype: DType,
    largest: bool,
    /// Elements along the axis, and those behind each of them.
    n: usize,
    inner: usize,
}

pub(super) fn takes(op: &ArgMax, operands: &[&Type], _: &Target) -> Result<(), String> {
    let ArgMax { axis: _, keep: _ } = op;
    numbers(operands)
}

pub(super) fn takes_min(op: &ArgMin, operands: &[&Type], _: &Target) -> Result<(), String> {
    let ArgMin { axis: _, keep: _ } = op;
    numbers(operands)
}

/// Fails unless operand 0 is of numbers that kernels read.
pub(super) fn numbers(operands: &[&Type]) -> Result<(), String> {
    let taken = |x: &Type| x.dtype.is_int() || FLOATS.contains(&x.dtype);
    match operands.first() {
        Some(x) if x.kind == Kind::Tensor && taken(x) => Ok(()),
        Some(x) => Err(super::claim::refused(x, 0)),
        None => Err("its kernel takes an operand".into()),
    }
}

pub(super) fn plan(op: &ArgMax, step: &Step) -> Result<Planned> {
    extreme(step, op.axis, true)
}

pub(super) fn plan_min(op: &ArgMin, step: &Step) -> Result<Planned> {
    extreme(step, op.axis, false)
}

fn extreme(step: &Step, axis: usize, largest: bool) -> Result<Planned> {
    let [outer, n, inner] = super::around(&step.operands[0], axis)?;
    let kernel = Extreme { dtype: step.operands[0].ty.dtype, largest, n, inner };
    Ok(Planned::new(kernel, &[Split::Flat(64)], 2 * outer * n * inner))
}

/// The best so far of each column: its value and its index.
struct Best<T> {
    value: Vec<T>,
    index: Vec<u32>,
    row: Vec<T>,
}

std::thread_local! {
    static FLOAT: RefCell<Best<f32>> =
        const { RefCell::new(Best { value: Vec::new(), index: Vec::new(), row: Vec::new() }) };
    static INTEGER: RefCell<Best<i64>> =
        const { RefCell::new(Best { value: Vec::new(), index: Vec::new(), row: Vec::new() }) };
}

impl Kernel for Extreme {
    fn run(&self, cx: &mut Cx<'_>) {
        let level = cx.level;
        if self.dtype.is_float() {
            FLOAT.with_borrow_mut(|best| {
                self.each(cx, best, |dtype, bytes, row| convert::read(level, dtype, bytes, row));
            });
        } else {
            INTEGER.with_borrow_mut(|best| self.each(cx, best, integers));
        }
    }
}

impl Extreme {
    fn each<T: PartialOrd + Copy + Default>(
        &self,
        cx: &mut Cx<'_>,
        best: &mut Best<T>,
        read: impl Fn(DType, &[u8], &mut [T]),
    ) {
        let (x, size) = (cx.bytes(0), self.dtype.block_bytes());
        let share = cx.result(0).columns::<u32>();
        let mut at = share.start;
        while at < share.end {
            let (outer, column) = (at / self.inner, at % self.inner);
            let width = (self.inner - column).min(share.end - at);
            let first = outer * self.n * self.inner + column;
            if self.inner == 1 {
                // One column, whose elements stand one behind the other.
                best.row.resize(self.n, T::default());
                read(self.dtype, &x[first * size..][..self.n * size], &mut best.row);
                let index = self.best(best.row.iter().copied());
                cx.result(0).row::<u32>(0)[at - share.start] = index;
                at += 1;
                continue;
            }
            best.row.resize(width, T::default());
            best.value.clear();
            best.value.resize(width, T::default());
            // Nothing yet: what is not a number never becomes the best.
            best.index.clear();
            best.index.resize(width, u32::MAX);
            for k in 0..self.n {
                let from = (first + k * self.inner) * size;
                read(self.dtype, &x[from..][..width * size], &mut best.row);
                let columns = best.value.iter_mut().zip(&mut best.index).zip(&best.row);
                for ((value, index), x) in columns {
                    let better = match *index {
                        u32::MAX => is_number(x),
                        _ if self.largest => x > value,
                        _ => x < value,
                    };
                    if better {
                        (*value, *index) = (*x, k as u32);
                    }
                }
            }
            let y = &mut cx.result(0).row::<u32>(0)[at - share.start..][..width];
            for (y, index) in y.iter_mut().zip(&best.index) {
                *y = if *index == u32::MAX { 0 } else { *index };
            }
            at += width;
        }
    }

    fn best<T: PartialOrd + Copy>(&self, row: impl Iterator<Item = T>) -> u32 {
        let mut best: Option<(T, u32)> = None;
        for (k, x) in row.enumerate() {
            let better = match best {
                Some((value, _)) if self.largest => x > value,
                Some((value, _)) => x < value,
                None => is_number(&x),
            };
            if better {
                best = Some((x, k as u32));
            }
        }
        best.map_or(0, |b| b.1)
    }
}

/// Whether it equals itself.
fn is_number<T: PartialOrd>(x: &T) -> bool {
    x.partial_cmp(x).is_some()
}
