//! cumsum      y[i] = x[0] + .. + x[i] along an axis; exclusive, without x[i]
//! shapes      x, y f32|f16|bf16 or integers [.., axis, ..]
//! bytes       x and y once
//! parts       runs of all that stands before the axis
//! numerics    sums of f64, each rounded once; integers wrap

use super::argmax::numbers;
use super::elementwise::layout::{integers, put_integers};
use super::wide::{put_wide, wide};
use super::{Kernel, Planned};
use crate::program::Split;
use crate::run::Cx;
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
struct Scratch<T> {
    sums: Vec<T>,
    x: Vec<T>,
}

std::thread_local! {
    static FLOAT: RefCell<Scratch<f64>> =
        const { RefCell::new(Scratch { sums: Vec::new(), x: Vec::new() }) };
    static INTEGER: RefCell<Scratch<i64>> =
        const { RefCell::new(Scratch { sums: Vec::new(), x: Vec::new() }) };
}

impl Kernel for CumSum {
    fn run(&self, cx: &mut Cx<'_>) {
        if self.dtype.is_float() {
            FLOAT.with_borrow_mut(|s| self.each(cx, s, wide, put_wide, |a, b| a + b));
        } else {
            INTEGER
                .with_borrow_mut(|s| self.each(cx, s, integers, put_integers, i64::wrapping_add));
        }
    }
}

impl CumSum {
    fn each<T: Copy + Default>(
        &self,
        cx: &mut Cx<'_>,
        Scratch { sums, x }: &mut Scratch<T>,
        read: impl Fn(DType, &[u8], &mut [T]),
        write: impl Fn(DType, &[T], &mut [u8]),
        add: impl Fn(T, T) -> T,
    ) {
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
                read(self.dtype, bytes, x);
                if self.exclusive {
                    write(self.dtype, sums, y);
                }
                sums.iter_mut().zip(&*x).for_each(|(sum, x)| *sum = add(*sum, *x));
                if !self.exclusive {
                    write(self.dtype, sums, y);
                }
            }
        }
    }
}
