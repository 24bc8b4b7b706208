//! Cholesky factor.

use crate::error::{Error, Result};
use crate::math;
use crate::ops::Cholesky;
use crate::reference::view::scalar_bytes;
use crate::reference::{Run, View, arity};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

impl Run for Cholesky {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [a] = operands else { return Err(arity("cholesky")) };
        let (a_data, n) = (a.f64s()?, a.sizes()?.last().copied().unwrap_or(1));
        let mut out = vec![0.0; a_data.len()];
        for (i, (a, l)) in a_data
            .chunks_exact((n * n).max(1))
            .zip(out.chunks_exact_mut((n * n).max(1)))
            .enumerate()
        {
            for row in 0..n {
                for column in 0..=row {
                    let sum: f64 = (0..column).map(|k| l[row * n + k] * l[column * n + k]).sum();
                    let rest = a[row * n + column] - sum;
                    l[row * n + column] = if row > column {
                        rest / l[column * n + column]
                    } else if rest > 0.0 {
                        math::sqrt(rest)
                    } else {
                        return Err(Error::bad_graph(format!(
                            "cholesky: matrix {i} is not positive definite, seen at row {row}"
                        )));
                    };
                }
            }
        }
        Ok(vec![scalar_bytes(a.ty.dtype, &out)?])
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::Cholesky;
    use crate::reference::testing::*;
    use crate::types::DType;

    #[test]
    fn the_factor_times_its_transpose_is_the_matrix() {
        let a = f32s(&[1, 3, 3], &[4.0, 99.0, 99.0, 2.0, 10.0, 99.0, -2.0, 2.0, 6.0]);
        let l = run1(Cholesky, &[&a]);
        assert_eq!(l, [2.0, 0.0, 0.0, 1.0, 3.0, 0.0, -1.0, 1.0, 2.0]);
    }

    #[test]
    fn matrices_without_a_factor_are_errors() {
        let a = f32s(&[2, 2, 2], &[1.0, 0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 1.0]);
        let e = fails(Cholesky, &[&a]);
        assert_eq!(e.what, "cholesky: matrix 1 is not positive definite, seen at row 1");
        let e = fails(Cholesky, &[&f32s(&[1, 1], &[f32::NAN])]);
        assert_eq!(e.what, "cholesky: matrix 0 is not positive definite, seen at row 0");
        let e = fails(Cholesky, &[&f32s(&[2, 3], &[0.0; 6])]);
        assert_eq!(
            e.what,
            "cholesky: a is tensor<2x3xf32>, expected square matrices of f64 or f32"
        );
        let e = fails(Cholesky, &[&floats(DType::F16, &[1, 1], &[1.0])]);
        assert_eq!(
            e.what,
            "cholesky: a is tensor<1x1xf16>, expected square matrices of f64 or f32"
        );
    }
}
