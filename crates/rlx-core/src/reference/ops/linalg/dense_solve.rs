//! Linear systems by Gauss elimination with partial pivoting.

use crate::error::{Error, Result};
use crate::ops::DenseSolve;
use crate::reference::view::scalar_bytes;
use crate::reference::{Run, View, arity};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

impl Run for DenseSolve {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [a, b] = operands else { return Err(arity("dense_solve")) };
        let n = a.sizes()?.last().copied().unwrap_or(1);
        let (mut matrices, mut x) = (a.f64s()?, b.f64s()?);
        let systems = matrices.len() / (n * n).max(1);
        let k = x.len() / (systems * n).max(1);
        for i in 0..systems {
            let a = &mut matrices[i * n * n..][..n * n];
            let x = &mut x[i * n * k..][..n * k];
            solve(a, x, n, k).map_err(|column| {
                Error::bad_graph(format!(
                    "dense_solve: matrix {i} is singular, column {column} has no pivot"
                ))
            })?;
        }
        Ok(vec![scalar_bytes(b.ty.dtype, &x)?])
    }
}

/// Replaces the right-hand sides by the solutions; the error is a column without a pivot.
fn solve(a: &mut [f64], x: &mut [f64], n: usize, k: usize) -> Result<(), usize> {
    for column in 0..n {
        let mut pivot = column;
        for row in column + 1..n {
            if a[row * n + column].abs() > a[pivot * n + column].abs() {
                pivot = row;
            }
        }
        let largest = a[pivot * n + column];
        if largest == 0.0 || !largest.is_finite() {
            return Err(column);
        }
        for j in 0..n {
            a.swap(column * n + j, pivot * n + j);
        }
        for j in 0..k {
            x.swap(column * k + j, pivot * k + j);
        }
        for row in column + 1..n {
            let factor = a[row * n + column] / largest;
            for j in column..n {
                a[row * n + j] -= factor * a[column * n + j];
            }
            for j in 0..k {
                x[row * k + j] -= factor * x[column * k + j];
            }
        }
    }
    for row in (0..n).rev() {
        for j in 0..k {
            let known: f64 = (row + 1..n).map(|c| a[row * n + c] * x[c * k + j]).sum();
            x[row * k + j] = (x[row * k + j] - known) / a[row * n + row];
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::ops::DenseSolve;
    use crate::reference::testing::*;
    use alloc::vec;
    use alloc::vec::Vec;

    #[test]
    fn a_system_that_needs_a_pivot_is_solved() {
        let a = f32s(&[2, 2], &[0.0, 2.0, 4.0, 1.0]);
        close(&run1(DenseSolve, &[&a, &f32s(&[2], &[6.0, 7.0])]), &[1.0, 3.0]);
        let b = f32s(&[2, 2], &[6.0, 2.0, 7.0, 5.0]);
        close(&run1(DenseSolve, &[&a, &b]), &[1.0, 1.0, 3.0, 1.0]);
    }

    // Upstream's DenseSolve and BatchedDenseSolve are this one operator.
    #[test]
    fn every_matrix_of_a_batch_has_its_own_right_hand_side() {
        let (n, batch) = (5usize, 3usize);
        let mut a = noise(batch * n * n, 7);
        (0..batch * n).for_each(|i| a[i / n * n * n + i % n * (n + 1)] += 3.0);
        let x = noise(batch * n, 8);
        let mut b: Vec<f32> = vec![0.0; batch * n];
        for (i, b) in b.iter_mut().enumerate() {
            let (row, item) = (&a[i * n..][..n], &x[i / n * n..][..n]);
            *b = row.iter().zip(item).map(|(a, x)| f64::from(*a) * f64::from(*x)).sum::<f64>()
                as f32;
        }
        let y = run1(DenseSolve, &[&f32s(&[3, 5, 5], &a), &f32s(&[3, 5], &b)]);
        close(&y, &x.iter().map(|&v| f64::from(v)).collect::<Vec<_>>());
    }

    #[test]
    fn singular_matrices_and_other_shapes_are_errors() {
        let a = f32s(&[2, 2, 2], &[1.0, 0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 4.0]);
        let e = fails(DenseSolve, &[&a, &f32s(&[2, 2], &[1.0; 4])]);
        assert_eq!(e.what, "dense_solve: matrix 1 is singular, column 1 has no pivot");
        let e = fails(DenseSolve, &[&a, &f32s(&[2, 3], &[1.0; 6])]);
        assert_eq!(
            e.what,
            "dense_solve: a is tensor<2x2x2xf32>, b is tensor<2x3xf32>; expected [.., N, K] or [.., N] of the same type"
        );
    }
}
