//! Predictions to tokens of a canvas, over bytes.

use crate::error::Result;
use crate::ops::Unmask;
use crate::reference::view::word_bytes;
use crate::reference::{Run, View, arity};
use crate::sample::canvas::unmask;
use alloc::vec;
use alloc::vec::Vec;

impl Run for Unmask {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [ids, confidence, canvas] = operands else { return Err(arity("unmask")) };
        let mut canvas = canvas.words();
        unmask(&ids.words(), &confidence.words(), &mut canvas);
        Ok(vec![word_bytes(&canvas)])
    }
}
