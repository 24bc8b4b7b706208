//! Axes turned round.

use super::index::{pick, sizes, strides};
use super::{View, arity};
use crate::error::Result;
use crate::ops::Roll;
use alloc::vec;
use alloc::vec::Vec;

pub(super) fn run(op: &Roll, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
    let [x] = operands else { return Err(arity("roll")) };
    let dims = sizes(&x.ty.shape)?;
    let strides = strides(&dims);
    let from = |index: &[usize]| {
        let at = |(axis, &i): (usize, &usize)| {
            let shift = op.axes.iter().position(|a| *a == axis).map_or(0, |k| op.shifts[k]);
            // In i128, which no difference of two 64-bit integers overflows.
            let i = (i as i128 - i128::from(shift)).rem_euclid(dims[axis] as i128) as usize;
            i * strides[axis]
        };
        index.iter().enumerate().map(at).sum()
    };
    Ok(vec![pick(x, &dims, from)?])
}
