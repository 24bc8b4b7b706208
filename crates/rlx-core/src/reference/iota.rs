//! Indices along an axis.

use super::index::{each_index, room, sizes};
use super::view::{int_bytes, scalar_bytes};
use super::{View, arity};
use crate::error::Result;
use crate::ops::Iota;
use alloc::vec;
use alloc::vec::Vec;

pub(super) fn run(op: &Iota, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
    let [] = operands else { return Err(arity("iota")) };
    let dims = sizes(&op.dims)?;
    let mut y: Vec<i64> = room(dims.iter().product())?;
    each_index(&dims, |index| y.push(index[op.axis] as i64));
    if op.dtype.is_float() {
        let y: Vec<f64> = y.into_iter().map(|i| i as f64).collect();
        return Ok(vec![scalar_bytes(op.dtype, &y)?]);
    }
    Ok(vec![int_bytes(op.dtype, &y)?])
}
