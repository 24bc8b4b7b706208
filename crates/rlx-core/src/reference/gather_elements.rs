//! One element an index.

use super::index::{pick, place, sizes, strides};
use super::{View, arity};
use crate::error::{Error, Result};
use crate::ops::GatherElements;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

pub(super) fn run(op: &GatherElements, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
    let [x, ids] = operands else { return Err(arity("gather_elements")) };
    let (dims, to) = (sizes(&x.ty.shape)?, sizes(&ids.ty.shape)?);
    let strides = strides(&dims);
    let n = dims[op.axis];
    if n == 0 && !ids.bytes.is_empty() {
        return Err(Error::bad_graph(format!(
            "gather_elements: x is {}, axis {} has no elements",
            x.ty, op.axis
        )));
    }
    let mut ids = ids.i64s()?.into_iter();
    let from = |index: &[usize]| {
        let id = place(ids.next().unwrap_or(0), n).clamp(0, n as i64 - 1) as usize;
        let at = |(axis, &i): (usize, &usize)| if axis == op.axis { id } else { i } * strides[axis];
        index.iter().enumerate().map(at).sum()
    };
    Ok(vec![pick(x, &to, from)?])
}
