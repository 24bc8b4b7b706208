//! cumsum      y[i] = x[0] + .. + x[i] along an axis; exclusive, without x[i]
//! shapes      x, y f32|f16|bf16 or integers [.., axis, ..]
//! bytes       x and y once
//! shares      runs of all that stands before the axis
//! numerics    sums of f64, each rounded once; integers wrap

use super::argmax::numbers;
use super::wide::Wide;
use super::{Kernel, Planned};
use crate::place::Split;
use crate::view::Cx;
use core::cell::RefCell;
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops;
use rlx_core::target::Target;
use rlx_core::types::{DType, Type};

struct CumSum {
    dtype: DType,
    exclusive: bool,
    /// Elements along the axis, and those behind each of them.
    n: usize,
    inner: usize,
}

pub(super) fn takes(op: &ops::CumSum, operands: &[&Type], _: &Target) -> Result<(), String> {
    let ops::CumSum { axis: _, exclusive: _ } = op;
    numbers(operands)
}

pub(super) fn plan(op: &ops::CumSum, step: &Step) -> Result<Planned> {
    let [outer, n, inner] = super::around(&step.operands[0], op.axis)?;
    let kernel = CumSum { dtype: step.operands[0].ty.dtype, exclusive: op.exclusive, n, inner };
    Ok(Planned::new(kernel, &[Split::Runs(outer)], 4 * outer * n * inner))
}

/// Sums so far, one for each column, and a slice of elements.
#[derive(Default)]
struct Scratch<T> {
    sums: Vec<T>,
    x: Vec<T>,
}

std::thread_local! {
    static FLOAT: RefCell<Scratch<f64>> = RefCell::default();
    static INTEGER: RefCell<Scratch<i64>> = RefCell::default();
}

impl Kernel for CumSum {
    fn run(&self, cx: &mut Cx<'_>) {
        match self.dtype.is_float() {
            true => FLOAT.with_borrow_mut(|scratch| self.each(cx, scratch)),
            false => INTEGER.with_borrow_mut(|scratch| self.each(cx, scratch)),
        }
    }
}

impl CumSum {
    fn each<T: Wide>(&self, cx: &mut Cx<'_>, Scratch { sums, x }: &mut Scratch<T>) {
        let slice = self.inner * self.dtype.block_bytes();
        x.resize(self.inner, T::default());
        for r in cx.result(0).rows.clone() {
            let bytes = &cx.bytes(0)[r * self.n * slice..][..self.n * slice];
            sums.clear();
            sums.resize(self.inner, T::default());
            let y = cx.result(0).row::<u8>(r);
            if slice == 0 {
                continue;
            }
            for (bytes, y) in bytes.chunks_exact(slice).zip(y.chunks_exact_mut(slice)) {
                T::read(self.dtype, bytes, x);
                if self.exclusive {
                    T::write(self.dtype, sums, y);
                }
                sums.iter_mut().zip(&*x).for_each(|(sum, x)| *sum = sum.plus(*x));
                if !self.exclusive {
                    T::write(self.dtype, sums, y);
                }
            }
        }
    }
}
