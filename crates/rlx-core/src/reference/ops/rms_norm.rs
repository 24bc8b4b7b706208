//! Root-mean-square norm.

use crate::error::Result;
use crate::math;
use crate::ops::RmsNorm;
use crate::reference::view::{rounded, scalar_bytes};
use crate::reference::{Run, View, arity};
use crate::types::DType;
use alloc::vec;
use alloc::vec::Vec;

impl Run for RmsNorm {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [x, w] = operands else { return Err(arity("rms_norm")) };
        let (mut y, w) = (x.f64s()?, w.f64s()?);
        for row in y.chunks_exact_mut(w.len().max(1)) {
            normalise(row, &w, self.eps, x.ty.dtype);
        }
        Ok(vec![scalar_bytes(x.ty.dtype, &y)?])
    }
}

/// One row, in place, rounded to `dtype`.
pub(crate) fn normalise(row: &mut [f64], w: &[f64], eps: f32, dtype: DType) {
    let squares: f64 = row.iter().map(|v| v * v).sum();
    let inverse = 1.0 / math::sqrt(squares / row.len() as f64 + f64::from(eps));
    for (v, &w) in row.iter_mut().zip(w) {
        *v = rounded(dtype, *v * inverse * w);
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::RmsNorm;
    use crate::reference::testing::*;
    use crate::reference::view::scalar_bytes;
    use crate::types::{DType, Scalar};

    #[test]
    fn a_row_is_divided_by_its_root_mean_square() {
        // mean([9, 16]) = 12.5 and mean([0, 1]) = 0.5
        let x = f32s(&[2, 2], &[3.0, 4.0, 0.0, 1.0]);
        let y = run1(RmsNorm { eps: 0.5 }, &[&x, &f32s(&[2], &[1.0, 2.0])]);
        let root = 13.0f64.sqrt();
        close(&y, &[3.0 / root, 8.0 / root, 0.0, 2.0]);
    }

    #[test]
    fn rows_of_any_rank_and_float_type_are_normed_wide_and_rounded_once() {
        let (x, w) = (noise(2 * 3 * 4, 1), noise(4, 2));
        let op = RmsNorm { eps: 1e-5 };
        for dtype in [DType::F16, DType::BF16, DType::Scalar(Scalar::F64)] {
            let x = floats(dtype, &[2, 3, 4], &x);
            let exact = floats(DType::Scalar(Scalar::F64), &[6, 4], &[]);
            let wide = Value { bytes: scalar_bytes(exact.ty.dtype, &x.f64s()).unwrap(), ..exact };
            let expected = run(op.clone(), &[&wide, &f32s(&[4], &w)])[0].f64s();
            let y = &run(op.clone(), &[&x, &f32s(&[4], &w)])[0];
            assert_eq!(y.ty, x.ty);
            assert_eq!(y.bytes, scalar_bytes(dtype, &expected).unwrap());
        }
    }

    #[test]
    fn a_weight_of_another_width_or_type_is_refused_with_both_types() {
        let x = floats(DType::F16, &[1, 4], &[0.0; 4]);
        let op = RmsNorm { eps: 1e-5 };
        assert_eq!(
            fails(op.clone(), &[&x, &f32s(&[3], &[0.0; 3])]).what,
            "rms_norm: w is tensor<3xf32>, expected tensor<4xf32> or f16"
        );
        fails(op, &[&x, &floats(DType::BF16, &[4], &[0.0; 4])]);
    }
}
