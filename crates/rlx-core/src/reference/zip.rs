//! A scalar function of two tensors; the second may be one row that repeats.

use super::view::f32_bytes;
use super::{View, arity};
use crate::error::Result;
use crate::ops::Zip;
use alloc::vec;
use alloc::vec::Vec;

pub(super) fn run(op: &Zip, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
    let [a, b] = operands else { return Err(arity("zip")) };
    let (a, b) = (a.f32s()?, b.f32s()?);
    let pairs = a.iter().zip(b.iter().cycle());
    let y: Vec<f32> = pairs.map(|(&a, &b)| op.f.eval(f64::from(a), f64::from(b)) as f32).collect();
    Ok(vec![f32_bytes(&y)])
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
