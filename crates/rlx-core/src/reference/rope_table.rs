//! cos and sin of every position: the loader calls the operator's own function too.

use super::View;
use super::view::f32_bytes;
use crate::error::Result;
use crate::ops::RopeTable;
use alloc::vec;
use alloc::vec::Vec;

pub(super) fn run(op: &RopeTable, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
    let factors = operands.first().map(|v| v.f32s()).transpose()?;
    Ok(vec![f32_bytes(&op.compute(factors.as_deref()))])
}
