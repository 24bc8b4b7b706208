//! A view of the words behind a canvas's plan.

use crate::error::Result;
use crate::ops::CanvasIds;
use crate::reference::{Run, View, view};
use alloc::vec::Vec;

impl Run for CanvasIds {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        view(self, operands)
    }
}
