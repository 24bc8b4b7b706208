//! Numbers between two bounds.

use super::view::scalar_bytes;
use super::{View, arity};
use crate::error::Result;
use crate::ops::Clamp;
use alloc::vec;
use alloc::vec::Vec;

pub(super) fn run(op: &Clamp, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
    let [x] = operands else { return Err(arity("clamp")) };
    let (low, high) = (f64::from(op.min), f64::from(op.max));
    let y: Vec<f64> = x.f64s()?.into_iter().map(|v| v.max(low).min(high)).collect();
    Ok(vec![scalar_bytes(x.ty.dtype, &y)?])
}
