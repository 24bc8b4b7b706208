//! Updates added at indices.

use super::index::{around, place, sizes};
use super::view::{int_bytes, scalar_bytes};
use super::{View, arity};
use crate::error::Result;
use crate::ops::ScatterAdd;
use alloc::vec;
use alloc::vec::Vec;

pub(super) fn run(op: &ScatterAdd, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
    let [target, ids, updates] = operands else { return Err(arity("scatter_add")) };
    let around = around(&sizes(&target.ty.shape)?, op.axis)?;
    let (ids, dtype) = (ids.i64s()?, target.ty.dtype);
    if dtype.is_float() {
        let mut y = target.f64s()?;
        add(&mut y, &updates.f64s()?, &ids, around, |a, b| a + b);
        return Ok(vec![scalar_bytes(dtype, &y)?]);
    }
    let mut y = target.i64s()?;
    add(&mut y, &updates.i64s()?, &ids, around, i64::wrapping_add);
    Ok(vec![int_bytes(dtype, &y)?])
}

fn add<T: Copy>(
    y: &mut [T],
    updates: &[T],
    ids: &[i64],
    (outer, n, inner): (usize, usize, usize),
    sum: impl Fn(T, T) -> T,
) {
    if y.is_empty() {
        return;
    }
    for o in 0..outer {
        for (k, &id) in ids.iter().enumerate() {
            let at = place(id, n);
            if !(0..n as i64).contains(&at) {
                continue;
            }
            for i in 0..inner {
                let y = &mut y[(o * n + at as usize) * inner + i];
                *y = sum(*y, updates[(o * ids.len() + k) * inner + i]);
            }
        }
    }
}
