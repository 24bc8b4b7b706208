//! cos and sin of every position: the loader calls the operator's own function too.

use crate::error::Result;
use crate::ops::RopeTable;
use crate::reference::view::f32_bytes;
use crate::reference::{Run, View};
use alloc::vec;
use alloc::vec::Vec;

impl Run for RopeTable {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let factors = operands.first().map(|v| v.f32s()).transpose()?;
        Ok(vec![f32_bytes(&self.compute(factors.as_deref()))])
    }
}
