//! One of two tensors, element by element.

use super::index::{repeated, room, sizes};
use super::{View, arity};
use crate::error::Result;
use crate::ops::{Op, Select};
use alloc::vec;
use alloc::vec::Vec;

pub(super) fn run(op: &Select, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
    let [cond, a, b] = operands else { return Err(arity("select")) };
    let ty = &Op::Select(op.clone()).infer(&[cond.ty, a.ty, b.ty])?[0];
    let to = sizes(&ty.shape)?;
    let places = |x: &View<'_>| repeated(&sizes(&x.ty.shape)?, &to);
    let (conds, at, bt) = (places(cond)?, places(a)?, places(b)?);
    let size = ty.dtype.block_bytes();
    let mut out = room(conds.len().saturating_mul(size))?;
    for ((c, i), j) in conds.into_iter().zip(at).zip(bt) {
        let (x, k) = if cond.bytes[c] != 0 { (a, i) } else { (b, j) };
        out.extend_from_slice(&x.bytes[k * size..][..size]);
    }
    Ok(vec![out])
}
