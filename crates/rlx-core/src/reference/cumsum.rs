//! Running sums along an axis.

use super::index::{around, sizes};
use super::view::{int_bytes, scalar_bytes};
use super::{View, arity};
use crate::error::Result;
use crate::ops::CumSum;
use alloc::vec;
use alloc::vec::Vec;

pub(super) fn run(op: &CumSum, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
    let [x] = operands else { return Err(arity("cumsum")) };
    let around = around(&sizes(&x.ty.shape)?, op.axis)?;
    if x.ty.dtype.is_float() {
        let mut y = x.f64s()?;
        scan(&mut y, around, op.exclusive, 0.0, |a, b| a + b);
        return Ok(vec![scalar_bytes(x.ty.dtype, &y)?]);
    }
    let mut y = x.i64s()?;
    scan(&mut y, around, op.exclusive, 0, i64::wrapping_add);
    Ok(vec![int_bytes(x.ty.dtype, &y)?])
}

fn scan<T: Copy>(
    y: &mut [T],
    (outer, n, inner): (usize, usize, usize),
    exclusive: bool,
    zero: T,
    add: impl Fn(T, T) -> T,
) {
    if y.is_empty() {
        return;
    }
    for o in 0..outer {
        for i in 0..inner {
            let mut sum = zero;
            for k in 0..n {
                let y = &mut y[(o * n + k) * inner + i];
                let next = add(sum, *y);
                *y = if exclusive { sum } else { next };
                sum = next;
            }
        }
    }
}
