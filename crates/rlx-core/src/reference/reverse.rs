//! Axes from their ends.

use super::index::{pick, sizes, strides};
use super::{View, arity};
use crate::error::Result;
use crate::ops::Reverse;
use alloc::vec;
use alloc::vec::Vec;

pub(super) fn run(op: &Reverse, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
    let [x] = operands else { return Err(arity("reverse")) };
    let dims = sizes(&x.ty.shape)?;
    let strides = strides(&dims);
    let from = |index: &[usize]| {
        let at = |(axis, &i): (usize, &usize)| {
            let i = if op.axes.contains(&axis) { dims[axis] - 1 - i } else { i };
            i * strides[axis]
        };
        index.iter().enumerate().map(at).sum()
    };
    Ok(vec![pick(x, &dims, from)?])
}
