//! Axes in another order.

use super::index::{pick, sizes, strides};
use super::{View, arity};
use crate::error::Result;
use crate::ops::Transpose;
use alloc::vec;
use alloc::vec::Vec;

pub(super) fn run(op: &Transpose, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
    let [x] = operands else { return Err(arity("transpose")) };
    let dims = sizes(&x.ty.shape)?;
    let strides = strides(&dims);
    let to: Vec<usize> = op.perm.iter().map(|&axis| dims[axis]).collect();
    let from =
        |index: &[usize]| index.iter().zip(&op.perm).map(|(i, &axis)| i * strides[axis]).sum();
    Ok(vec![pick(x, &to, from)?])
}
