//! A range of one axis.

use super::index::{around, room, sizes, step_bytes};
use super::{View, arity};
use crate::error::{Error, Result};
use crate::ops::Slice;
use crate::types::Dim;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

pub(super) fn run(op: &Slice, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
    let [x] = operands else { return Err(arity("slice")) };
    let bound = |d: &Dim| {
        d.as_static()
            .and_then(|n| usize::try_from(n).ok())
            .ok_or_else(|| Error::bad_graph(format!("slice: the size {d} is unbound")))
    };
    let (start, len) = (bound(&op.start)?, bound(&op.len)?);
    let (outer, n, _) = around(&sizes(&x.ty.shape)?, op.axis)?;
    let step = step_bytes(x.ty, op.axis)?;
    let mut out = room(outer.saturating_mul(len).saturating_mul(step))?;
    if x.bytes.is_empty() {
        return Ok(vec![out]);
    }
    for o in 0..outer {
        for i in 0..len {
            // The type rule has checked that every index is one of the axis.
            let at = (start as i64).wrapping_add((i as i64).wrapping_mul(op.step)) as usize;
            out.extend_from_slice(&x.bytes[(o * n + at) * step..][..step]);
        }
    }
    Ok(vec![out])
}
