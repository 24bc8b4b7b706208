//! Matrix product of 8-bit integers.

use crate::error::Result;
use crate::math;
use crate::ops::{QMatMul, Requantize};
use crate::reference::view::{dot, scalar_bytes};
use crate::reference::{Run, View, arity};
use crate::types::{DType, Scalar};
use alloc::vec;
use alloc::vec::Vec;

impl Run for QMatMul {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [x_view, w_view, bias @ ..] = operands else { return Err(arity("q_matmul")) };
        let (x, w) =
            (centred(x_view, self.requantize.x_zero)?, centred(w_view, self.requantize.w_zero)?);
        let depth = w_view.sizes()?.last().copied().unwrap_or(1).max(1);
        let mut sums = Vec::new();
        for row in x.chunks_exact(depth) {
            sums.extend(w.chunks_exact(depth).map(|filter| dot(row, filter)));
        }
        Ok(vec![requantised(&self.requantize, &sums, bias.first(), 1)?])
    }
}

/// Elements less their zero point: integers, exact in f64.
pub(crate) fn centred(v: &View<'_>, zero: i8) -> Result<Vec<f64>> {
    Ok(v.f64s()?.iter().map(|x| x - f64::from(zero)).collect())
}

/// Sums as i8; `inner` neighbours share an element of the bias.
pub(crate) fn requantised(
    op: &Requantize,
    sums: &[f64],
    bias: Option<&View<'_>>,
    inner: usize,
) -> Result<Vec<u8>> {
    let bias = bias.map_or_else(|| Ok(vec![0.0]), View::f64s)?;
    let code = |(i, sum): (usize, &f64)| {
        let scaled = (sum + bias[i / inner % bias.len()]) * f64::from(op.multiplier);
        (math::rint(scaled) + f64::from(op.out_zero)).clamp(-128.0, 127.0)
    };
    let codes: Vec<f64> = sums.iter().enumerate().map(code).collect();
    scalar_bytes(DType::Scalar(Scalar::I8), &codes)
}

#[cfg(test)]
mod tests {
    use crate::ops::{QMatMul, Requantize};
    use crate::reference::testing::*;
    use crate::types::{DType, Scalar};

    const I8: DType = DType::Scalar(Scalar::I8);
    const PLAIN: Requantize =
        Requantize { x_zero: 0, w_zero: 0, out_zero: 0, multiplier: 1.0, bias: false };

    #[test]
    fn zero_points_go_off_before_and_on_after() {
        let x = floats(I8, &[2, 2], &[3.0, 5.0, -128.0, 127.0]);
        let w = floats(I8, &[3, 2], &[2.0, 1.0, 1.0, 4.0, -1.0, 0.0]);
        let op = Requantize { x_zero: 1, w_zero: 1, out_zero: -2, multiplier: 0.5, bias: true };
        let bias = floats(DType::I32, &[3], &[0.0, 1.0, 2.0]);
        // Row 0 less zero is (2, 4): sums 2, 12 + 1, -8 + 2; halves 1, 6.5 -> 6, -3.
        let y = run(QMatMul { requantize: op }, &[&x, &w, &bias])[0].f64s();
        assert_eq!(y[..3], [-1.0, 4.0, -5.0]);
        // Row 1 is (-129, 126): sums -129, 378 + 1, 132 + 2: -64.5 -> -64, 189.5 saturates, 67.
        assert_eq!(y[3..], [-66.0, 127.0, 65.0]);
    }

    #[test]
    fn the_sum_is_exact() {
        let x = floats(I8, &[1, 4096], &[-128.0; 4096]);
        let w = floats(I8, &[1, 4096], &[-128.0; 4096]);
        let op = Requantize { multiplier: 1.0 / (4096.0 * 16384.0) * 101.0, ..PLAIN };
        assert_eq!(run(QMatMul { requantize: op }, &[&x, &w])[0].f64s(), [101.0]);
    }

    #[test]
    fn rows_of_another_length_and_floats_are_refused() {
        let (x, w) = (floats(I8, &[1, 2], &[0.0; 2]), floats(I8, &[1, 3], &[0.0; 3]));
        let e = fails(QMatMul { requantize: PLAIN }, &[&x, &w]);
        assert_eq!(
            e.what,
            "q_matmul: x is tensor<1x2xi8>, w is tensor<1x3xi8>; rows of different lengths"
        );
        let e = fails(QMatMul { requantize: PLAIN }, &[&f32s(&[1, 3], &[0.0; 3]), &w]);
        assert_eq!(e.what, "q_matmul: x is tensor<1x3xf32>, expected a tensor of i8");
    }
}
