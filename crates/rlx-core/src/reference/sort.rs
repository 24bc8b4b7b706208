//! Elements in order.

use super::index::{around, filled, sizes};
use super::view::word_bytes;
use super::{View, arity};
use crate::error::Result;
use crate::ops::Sort;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Ordering;

pub(super) fn run(op: &Sort, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
    let [x] = operands else { return Err(arity("sort")) };
    let (outer, n, inner) = around(&sizes(&x.ty.shape)?, op.axis)?;
    let orders = orders(x, (outer, n, inner), op.descending)?;
    let size = x.ty.dtype.block_bytes();
    let (mut values, mut indices) = (filled(x.bytes.len(), 0u8)?, filled(x.bytes.len() / size, 0)?);
    for (run, order) in orders.iter().enumerate() {
        let at = |k: usize| (run / inner * n + k) * inner + run % inner;
        for (to, &from) in order.iter().enumerate() {
            values[at(to) * size..][..size].copy_from_slice(&x.bytes[at(from) * size..][..size]);
            indices[at(to)] = from as u32;
        }
    }
    Ok(vec![values, word_bytes(&indices)])
}

/// For every place around the axis the indices along it, in order of their elements.
pub(super) fn orders(
    x: &View<'_>,
    (outer, n, inner): (usize, usize, usize),
    descending: bool,
) -> Result<Vec<Vec<usize>>> {
    if outer == 0 || n == 0 || inner == 0 {
        return Ok(Vec::new());
    }
    let sort = |compare: &dyn Fn(usize, usize) -> Ordering| {
        let mut orders = Vec::new();
        for o in 0..outer {
            for i in 0..inner {
                let at = |k: usize| (o * n + k) * inner + i;
                let mut order: Vec<usize> = (0..n).collect();
                order.sort_by(|&a, &b| {
                    let order = compare(at(a), at(b));
                    if descending { order.reverse() } else { order }
                });
                orders.push(order);
            }
        }
        orders
    };
    if x.ty.dtype.is_float() {
        let x = x.f64s()?;
        let by_nan = |a: f64, b: f64| a.is_nan().cmp(&b.is_nan());
        return Ok(sort(&|a, b| x[a].partial_cmp(&x[b]).unwrap_or_else(|| by_nan(x[a], x[b]))));
    }
    let x = x.i64s()?;
    Ok(sort(&|a, b| x[a].cmp(&x[b])))
}
