//! A tensor that the graph holds.

use super::{View, arity};
use crate::error::Result;
use crate::ops::Constant;
use alloc::vec;
use alloc::vec::Vec;

pub(super) fn run(op: &Constant, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
    let [] = operands else { return Err(arity("constant")) };
    Ok(vec![op.data.to_vec()])
}
