//! Small floats with scales to floats.

use super::scaled_quantize::{decoded_scales, last_two};
use crate::error::Result;
use crate::ops::{ScaleLayout, ScaledDequantize, Scaling};
use crate::reference::view::scalar_bytes;
use crate::reference::{Run, View, arity};
use crate::types::DType;
use alloc::vec;
use alloc::vec::Vec;

impl Run for ScaledDequantize {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [codes, scales] = operands else { return Err(arity("scaled_dequantize")) };
        Ok(vec![scalar_bytes(DType::F32, &decoded(&self.scaling, codes, scales)?)?])
    }
}

/// Every element, exact but for the product.
pub(crate) fn decoded(scaling: &Scaling, codes: &View<'_>, scales: &View<'_>) -> Result<Vec<f64>> {
    let (rows, width) = last_two(codes)?;
    let scales = match scaling.layout {
        ScaleLayout::Mx | ScaleLayout::Nvfp4 => decoded_scales(scaling, scales.bytes),
        ScaleLayout::Tensor | ScaleLayout::Block { .. } => scales.f64s()?,
    };
    let value = |(i, &code): (usize, &u8)| {
        scaling.format.decode(code) * scales[scaling.scale_of(i, rows, width)]
    };
    Ok(codes.bytes.iter().enumerate().map(value).collect())
}

#[cfg(test)]
mod tests {
    use crate::ops::{ScaleLayout, ScaledDequantize, Scaling};
    use crate::reference::testing::*;
    use crate::types::{DType, Scalar, SmallFloat};

    const U8: DType = DType::Scalar(Scalar::U8);

    #[test]
    fn blocks_of_two_matrices_have_their_own_scales() {
        let layout = ScaleLayout::Block { rows: 2, columns: 2, round: false };
        let op = ScaledDequantize { scaling: Scaling { format: SmallFloat::F4E2M1, layout } };
        // Code 2 is 1.0; two matrices of three rows and three columns have 2 x 2 blocks each.
        let codes = floats(U8, &[2, 3, 3], &[2.0; 18]);
        let scales = f32s(&[2, 2, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
        let y = run1(op, &[&codes, &scales]);
        assert_eq!(y[..9], [1.0, 1.0, 2.0, 1.0, 1.0, 2.0, 3.0, 3.0, 4.0]);
        assert_eq!(y[9..], [5.0, 5.0, 6.0, 5.0, 5.0, 6.0, 7.0, 7.0, 8.0]);
    }

    #[test]
    fn scales_of_another_shape_are_refused() {
        let scaling = Scaling { format: SmallFloat::F8E5M2, layout: ScaleLayout::Mx };
        let (codes, scales) = (floats(U8, &[2, 64], &[0.0; 128]), floats(U8, &[2], &[0.0; 2]));
        let e = fails(ScaledDequantize { scaling }, &[&codes, &scales]);
        assert_eq!(
            e.what,
            "scaled_dequantize: scales of codes is tensor<2xu8>, expected tensor<2x2xu8>"
        );
        let e = fails(ScaledDequantize { scaling }, &[&f32s(&[32], &[0.0; 32]), &scales]);
        assert_eq!(
            e.what,
            "scaled_dequantize: codes is tensor<32xf32>, expected a tensor of u8 codes"
        );
    }
}
