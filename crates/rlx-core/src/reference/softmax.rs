//! Shares of exponentials along an axis.

use super::index::{around, sizes};
use super::view::scalar_bytes;
use super::{View, arity};
use crate::error::Result;
use crate::math;
use crate::ops::Softmax;
use alloc::vec;
use alloc::vec::Vec;

pub(super) fn run(op: &Softmax, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
    let [x] = operands else { return Err(arity("softmax")) };
    let (outer, n, inner) = around(&sizes(&x.ty.shape)?, op.axis)?;
    let mut y = x.f64s()?;
    if y.is_empty() {
        return Ok(vec![Vec::new()]);
    }
    for o in 0..outer {
        for i in 0..inner {
            let at = |k: usize| (o * n + k) * inner + i;
            let largest = (0..n).fold(f64::NEG_INFINITY, |m, k| m.max(y[at(k)]));
            (0..n).for_each(|k| y[at(k)] = math::exp(y[at(k)] - largest));
            let sum: f64 = (0..n).map(|k| y[at(k)]).sum();
            (0..n).for_each(|k| y[at(k)] /= sum);
        }
    }
    Ok(vec![scalar_bytes(x.ty.dtype, &y)?])
}
