//! Where the smallest element stands.

use super::argmax::best;
use super::{View, arity};
use crate::error::Result;
use crate::ops::ArgMin;
use alloc::vec;
use alloc::vec::Vec;

pub(super) fn run(op: &ArgMin, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
    let [x] = operands else { return Err(arity("argmin")) };
    Ok(vec![best(x, op.axis, |new, old| new < old, |new, old| new < old)?])
}
