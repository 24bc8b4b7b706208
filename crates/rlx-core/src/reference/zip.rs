//! A scalar function of two tensors, repeated to one shape.

use super::index::{repeated, sizes};
use super::view::{int_bytes, scalar_bytes};
use super::{View, arity};
use crate::error::{Error, Result};
use crate::ops::{Op, Zip};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

pub(super) fn run(op: &Zip, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
    let [a, b] = operands else { return Err(arity("zip")) };
    let ty = &Op::Zip(op.clone()).infer(&[a.ty, b.ty])?[0];
    let to = sizes(&ty.shape)?;
    let places = repeated(&sizes(&a.ty.shape)?, &to)?.into_iter();
    let places = places.zip(repeated(&sizes(&b.ty.shape)?, &to)?);
    if ty.dtype.is_float() {
        let (a, b) = (a.f64s()?, b.f64s()?);
        let y: Vec<f64> = places.map(|(i, j)| op.f.eval(a[i], b[j])).collect();
        return Ok(vec![scalar_bytes(ty.dtype, &y)?]);
    }
    let (a, b) = (a.i64s()?, b.i64s()?);
    let zero = |i| Error::bad_graph(format!("zip: element {i} is divided by 0"));
    let y = places.enumerate().map(|(n, (i, j))| op.f.eval_int(a[i], b[j]).ok_or_else(|| zero(n)));
    Ok(vec![int_bytes(ty.dtype, &y.collect::<Result<Vec<i64>>>()?)?])
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use crate::ops::{Binary, Zip};

    #[test]
    fn tensors_of_one_shape_and_a_row_that_repeats() {
        let a = f32s(&[2, 2], &[1.0, 2.0, 3.0, 4.0]);
        let b = f32s(&[2, 2], &[5.0, -6.0, 7.0, -8.0]);
        let row = f32s(&[2], &[10.0, -1.0]);
        let y = |f, b| run1(Zip { f }, &[&a, b]);
        assert_eq!(y(Binary::Add, &b), [6.0, -4.0, 10.0, -4.0]);
        assert_eq!(y(Binary::Sub, &b), [-4.0, 8.0, -4.0, 12.0]);
        assert_eq!(y(Binary::Mul, &row), [10.0, -2.0, 30.0, -4.0]);
        assert_eq!(y(Binary::Max, &row), [10.0, 2.0, 10.0, 4.0]);
    }
}
