//! Tensors one after another.

use super::View;
use super::index::{around, room, sizes, step_bytes};
use crate::error::Result;
use crate::ops::Concat;
use alloc::vec;
use alloc::vec::Vec;

pub(super) fn run(op: &Concat, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
    let mut out = room(operands.iter().map(|x| x.bytes.len()).sum())?;
    let Some(first) = operands.first() else { return Ok(vec![out]) };
    let (outer, _, _) = around(&sizes(&first.ty.shape)?, op.axis)?;
    for o in 0..outer {
        for x in operands.iter().filter(|x| !x.bytes.is_empty()) {
            let (_, n, _) = around(&sizes(&x.ty.shape)?, op.axis)?;
            let bytes = n * step_bytes(x.ty, op.axis)?;
            out.extend_from_slice(&x.bytes[o * bytes..][..bytes]);
        }
    }
    Ok(vec![out])
}
