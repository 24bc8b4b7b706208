//! A view of the control block's word.

use crate::error::Result;
use crate::ops::Token;
use crate::reference::{Run, View, view};
use alloc::vec::Vec;

impl Run for Token {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        view(self, operands)
    }
}
