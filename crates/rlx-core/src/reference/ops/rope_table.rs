//! cos and sin of every position: the loader calls the operator's own function too.

use crate::error::Result;
use crate::ops::RopeTable;
use crate::reference::View;
use crate::reference::view::f32_bytes;
use alloc::vec;
use alloc::vec::Vec;

pub(crate) fn run(op: &RopeTable, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
    let factors = operands.first().map(|v| v.f32s()).transpose()?;
    Ok(vec![f32_bytes(&op.compute(factors.as_deref()))])
}
