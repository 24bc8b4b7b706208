//! Elements repeated to a larger shape.

use super::index::{pick, repeated, sizes};
use super::{View, arity};
use crate::error::Result;
use crate::ops::Expand;
use alloc::vec;
use alloc::vec::Vec;

pub(super) fn run(op: &Expand, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
    let [x] = operands else { return Err(arity("expand")) };
    let to = sizes(&op.dims)?;
    let mut from = repeated(&sizes(&x.ty.shape)?, &to)?.into_iter();
    Ok(vec![pick(x, &to, |_| from.next().unwrap_or(usize::MAX))?])
}
