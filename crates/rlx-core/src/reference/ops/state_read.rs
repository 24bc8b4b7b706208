//! A view of the state's bytes.

use crate::error::Result;
use crate::ops::StateRead;
use crate::reference::{Run, View, view};
use alloc::vec::Vec;

impl Run for StateRead {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        view(self, operands)
    }
}
