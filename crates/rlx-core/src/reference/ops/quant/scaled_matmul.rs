//! Matrix product of small floats with scales.

use super::scaled_dequantize::decoded;
use crate::error::Result;
use crate::ops::ScaledMatMul;
use crate::reference::view::{dot, scalar_bytes};
use crate::reference::{Run, View, arity};
use crate::types::DType;
use alloc::vec;
use alloc::vec::Vec;

impl Run for ScaledMatMul {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [x, x_scales, w, w_scales, bias @ ..] = operands else {
            return Err(arity("scaled_matmul"));
        };
        let depth = w.sizes()?.last().copied().unwrap_or(1).max(1);
        let (x, w) = (decoded(&self.x, x, x_scales)?, decoded(&self.w, w, w_scales)?);
        let bias = bias.first().map_or_else(|| Ok(vec![0.0]), View::f64s)?;
        let mut y = Vec::new();
        for row in x.chunks_exact(depth) {
            let filters = w.chunks_exact(depth).enumerate();
            y.extend(filters.map(|(i, filter)| dot(row, filter) + bias[i % bias.len()]));
        }
        Ok(vec![scalar_bytes(DType::F32, &y)?])
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::{ScaleLayout, ScaledDequantize, ScaledMatMul, ScaledQuantize, Scaling};
    use crate::reference::testing::*;
    use crate::types::SmallFloat;

    #[test]
    fn sides_with_other_formats_and_layouts_give_the_product_of_their_values() {
        let x_side = Scaling {
            format: SmallFloat::F8E4M3,
            layout: ScaleLayout::Block { rows: 1, columns: 32, round: true },
        };
        let w_side = Scaling { format: SmallFloat::F4E2M1, layout: ScaleLayout::Mx };
        let quantised = |scaling, rows: u64, seed| {
            let x = f32s(&[rows, 64], &noise(rows as usize * 64, seed));
            run(ScaledQuantize { scaling }, &[&x])
        };
        let (x, w) = (quantised(x_side, 3, 1), quantised(w_side, 5, 2));
        let bias = f32s(&[5], &noise(5, 3));
        let op = ScaledMatMul { x: x_side, w: w_side, bias: true };
        let y = run1(op, &[&x[0], &x[1], &w[0], &w[1], &bias]);
        let values = |scaling, q: &[Value]| run1(ScaledDequantize { scaling }, &[&q[0], &q[1]]);
        let (x, w, b) = (values(x_side, &x), values(w_side, &w), bias.f32s());
        for (i, y) in y.iter().enumerate() {
            let (row, filter) = (&x[i / 5 * 64..][..64], &w[i % 5 * 64..][..64]);
            let sum: f64 = row.iter().zip(filter).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
            close(&[*y], &[sum + f64::from(b[i % 5])]);
        }
    }

    #[test]
    fn rows_of_another_length_are_refused() {
        let side = Scaling { format: SmallFloat::F8E4M3, layout: ScaleLayout::Tensor };
        let codes = |n: u64| {
            run(ScaledQuantize { scaling: side }, &[&f32s(&[1, n], &alloc::vec![0.0; n as usize])])
        };
        let (x, w) = (codes(3), codes(4));
        let op = ScaledMatMul { x: side, w: side, bias: false };
        assert_eq!(
            fails(op, &[&x[0], &x[1], &w[0], &w[1]]).what,
            "scaled_matmul: x is tensor<1x3xu8>, w is tensor<1x4xu8>; rows of different lengths"
        );
    }
}
