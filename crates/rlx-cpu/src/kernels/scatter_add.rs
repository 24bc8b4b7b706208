//! scatter_add y[.., ids[k], ..] = target[.., ids[k], ..] + updates[.., k, ..] for every k
//! shapes      target, updates, y f32|f16|bf16 or integers   ids u32|i32|i64 [N]
//! bytes       target, updates and y once, ids once a share
//! shares      runs of every slice
//! numerics    sums of f64 in the order of ids, rounded once; integers wrap; a negative id counts from the
//!             end, one outside adds nothing

use super::argmax::numbers;
use super::gather_axis::{id, place};
use super::wide::Wide;
use super::{Kernel, Planned, around, ranked};
use crate::place::Split;
use crate::view::Cx;
use core::cell::RefCell;
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops;
use rlx_core::target::Target;
use rlx_core::types::{DType, Type};

struct ScatterAdd {
    dtype: DType,
    of_ids: DType,
    outer: usize,
    /// Slices of the target and of the updates, and elements of one.
    n: usize,
    new: usize,
    inner: usize,
}

pub(super) fn takes(op: &ops::ScatterAdd, operands: &[&Type], _: &Target) -> Result<(), String> {
    let ops::ScatterAdd { axis: _ } = op;
    numbers(operands)
}

pub(super) fn plan(op: &ops::ScatterAdd, step: &Step) -> Result<Planned> {
    let [outer, n, inner] = around(&step.operands[0], op.axis)?;
    let [_, new, _] = around(&step.operands[2], op.axis)?;
    let (dtype, of_ids) = (step.operands[0].ty.dtype, step.operands[1].ty.dtype);
    let kernel = ScatterAdd { dtype, of_ids, outer, n, new, inner };
    let split = Split::Grid(outer * n, 64);
    Ok(Planned::new(kernel, &[split], 4 * outer * (n + new) * inner))
}

/// Sums of a slice, its updates, and which update goes where, by slice.
#[derive(Default)]
struct Scratch<T> {
    sums: Vec<T>,
    x: Vec<T>,
    order: Vec<u64>,
}

std::thread_local! {
    static FLOAT: RefCell<Scratch<f64>> = RefCell::default();
    static INTEGER: RefCell<Scratch<i64>> = RefCell::default();
}

impl Kernel for ScatterAdd {
    fn run(&self, cx: &mut Cx<'_>) {
        match self.dtype.is_float() {
            true => FLOAT.with_borrow_mut(|scratch| self.each(cx, scratch)),
            false => INTEGER.with_borrow_mut(|scratch| self.each(cx, scratch)),
        }
    }
}

impl ScatterAdd {
    fn each<T: Wide>(&self, cx: &mut Cx<'_>, Scratch { sums, x, order }: &mut Scratch<T>) {
        let (size, slice) = (self.dtype.block_bytes(), self.inner * self.dtype.block_bytes());
        let share = cx.result(0).columns::<u8>();
        let width = share.len() / size;
        let (target, ids, updates) = (cx.bytes(0), cx.bytes(1), cx.bytes(2));
        order.clear();
        order.extend((0..self.new).filter_map(|k| {
            let at = place(id(self.of_ids, ids, k), self.n);
            (0..self.n as i64).contains(&at).then_some(ranked::word(at as u32, k as u32, false))
        }));
        ranked::first(order, usize::MAX);
        sums.resize(width, T::default());
        x.resize(width, T::default());
        for outer in 0..self.outer {
            let mut rest = order.as_slice();
            for at in 0..self.n {
                let r = outer * self.n + at;
                T::read(self.dtype, &target[r * slice + share.start..][..share.len()], sums);
                let here =
                    rest.iter().take_while(|&&word| ranked::bits_of(word) as usize == at).count();
                let (mine, others) = rest.split_at(here);
                rest = others;
                for &word in mine {
                    let k = ranked::place(word);
                    let from = (outer * self.new + k as usize) * slice + share.start;
                    T::read(self.dtype, &updates[from..][..share.len()], x);
                    sums.iter_mut().zip(&*x).for_each(|(sum, x)| *sum = sum.plus(*x));
                }
                T::write(self.dtype, sums, cx.result(0).row::<u8>(r));
            }
        }
    }
}
