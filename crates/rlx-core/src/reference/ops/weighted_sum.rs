//! Rows of several experts to one.

use crate::error::Result;
use crate::ops::WeightedSum;
use crate::reference::view::scalar_bytes;
use crate::reference::{Run, View, arity};
use alloc::vec;
use alloc::vec::Vec;

impl Run for WeightedSum {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [x, shares] = operands else { return Err(arity("weighted_sum")) };
        let [m, k, n] = x.dims()?;
        let y = sum(&x.f64s()?, &shares.f64s()?, [m, k, n]);
        Ok(vec![scalar_bytes(x.ty.dtype, &y)?])
    }
}

/// `y[m, n] = sum_j shares[m, j] x[m, j, n]`.
pub(super) fn sum(x: &[f64], shares: &[f64], [m, k, n]: [usize; 3]) -> Vec<f64> {
    let mut y = vec![0.0; m * n];
    for (pair, share) in shares.iter().enumerate() {
        for (y, x) in y[pair / k * n..][..n].iter_mut().zip(&x[pair * n..]) {
            *y += share * x;
        }
    }
    y
}

#[cfg(test)]
mod tests {
    use crate::ops::WeightedSum;
    use crate::reference::testing::*;

    #[test]
    fn rows_are_summed_by_their_shares() {
        let x = f32s(&[2, 2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 1.0, 1.0, 1.0, 0.0, 1.0, 2.0]);
        let y = run1(WeightedSum, &[&x, &f32s(&[2, 2], &[1.0, 0.5, 2.0, -1.0])]);
        assert_eq!(y, [3.0, 4.5, 6.0, 2.0, 1.0, 0.0]);
        let e = fails(WeightedSum, &[&x, &f32s(&[2, 3], &[0.0; 6])]);
        assert_eq!(
            e.what,
            "weighted_sum: x is tensor<2x2x3xf32>, shares is tensor<2x3xf32>; expected x [M, k, N] \
             and shares [M, k] of its type or f32"
        );
    }
}
