//! A test of two tensors, repeated to one shape.

use super::index::{repeated, sizes};
use super::{View, arity};
use crate::error::Result;
use crate::ops::{Compare, Op};
use alloc::vec;
use alloc::vec::Vec;

pub(super) fn run(op: &Compare, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
    let [a, b] = operands else { return Err(arity("compare")) };
    let ty = &Op::Compare(op.clone()).infer(&[a.ty, b.ty])?[0];
    let to = sizes(&ty.shape)?;
    let places = repeated(&sizes(&a.ty.shape)?, &to)?.into_iter();
    let places = places.zip(repeated(&sizes(&b.ty.shape)?, &to)?);
    let y: Vec<u8> = if a.ty.dtype.is_float() {
        let (a, b) = (a.f64s()?, b.f64s()?);
        places.map(|(i, j)| op.f.eval(a[i], b[j]).into()).collect()
    } else {
        let (a, b) = (a.i64s()?, b.i64s()?);
        places.map(|(i, j)| op.f.eval(a[i], b[j]).into()).collect()
    };
    Ok(vec![y])
}
