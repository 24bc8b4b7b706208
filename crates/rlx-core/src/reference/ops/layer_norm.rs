//! Layer norm over the last axis.

use crate::error::Result;
use crate::math;
use crate::ops::LayerNorm;
use crate::reference::view::scalar_bytes;
use crate::reference::{Run, View, arity};
use alloc::vec;
use alloc::vec::Vec;

impl Run for LayerNorm {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [x, scale, bias @ ..] = operands else { return Err(arity("layer_norm")) };
        let (mut y, scale) = (x.f64s()?, scale.f64s()?);
        let bias = bias.first().map(View::f64s).transpose()?;
        for row in y.chunks_exact_mut(scale.len().max(1)) {
            normalise(row, f64::from(self.eps), true);
            affine(row, &scale, bias.as_deref());
        }
        Ok(vec![scalar_bytes(x.ty.dtype, &y)?])
    }
}

/// `(x - mean) / sqrt(var + eps)`, or without `centre` `x / sqrt(mean(x^2) + eps)`, in place.
pub(crate) fn normalise(row: &mut [f64], eps: f64, centre: bool) {
    let n = row.len() as f64;
    let mean = if centre { row.iter().sum::<f64>() / n } else { 0.0 };
    let squares: f64 = row.iter().map(|v| (v - mean) * (v - mean)).sum();
    let inverse = 1.0 / math::sqrt(squares / n + eps);
    for v in row {
        *v = (*v - mean) * inverse;
    }
}

/// `x * scale + bias`, element by element.
pub(crate) fn affine(row: &mut [f64], scale: &[f64], bias: Option<&[f64]>) {
    for (i, v) in row.iter_mut().enumerate() {
        *v *= scale[i];
        // Not `+ 0.0` where there is none: that makes a -0 a 0.
        if let Some(b) = bias {
            *v += b[i];
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::LayerNorm;
    use crate::reference::testing::*;

    #[test]
    fn a_row_is_centred_and_divided_by_its_deviation() {
        // Means 2 and -1, variances 2/3 and 8/3.
        let x = f32s(&[2, 3], &[1.0, 2.0, 3.0, -3.0, -1.0, 1.0]);
        let scale = f32s(&[3], &[1.0, 2.0, 3.0]);
        let y = run1(LayerNorm { eps: 1.0 / 3.0, bias: false }, &[&x, &scale]);
        let root = 3f64.sqrt();
        close(&y, &[-1.0, 0.0, 3.0, -2.0 / root, 0.0, 6.0 / root]);
        let bias = f32s(&[3], &[1.0, 1.0, -1.0]);
        let y = run1(LayerNorm { eps: 1.0 / 3.0, bias: true }, &[&x, &scale, &bias]);
        close(&y[..3], &[0.0, 1.0, 2.0]);
    }

    #[test]
    fn every_float_type_has_its_own_result_type() {
        use crate::types::DType;
        for dtype in [DType::F16, DType::BF16] {
            let x = floats(dtype, &[1, 4], &[1.0, 2.0, 3.0, 4.0]);
            let scale = floats(dtype, &[4], &[1.0; 4]);
            let y = &run(LayerNorm { eps: 0.0, bias: false }, &[&x, &scale])[0];
            assert_eq!(y.ty, x.ty);
            assert!((y.f32s()[3] - 1.341_640_8).abs() < 4e-3, "{dtype}");
        }
    }

    #[test]
    fn weights_of_another_length_or_type_are_refused_with_both_types() {
        let op = || LayerNorm { eps: 1e-5, bias: false };
        let x = f32s(&[2, 3], &[0.0; 6]);
        assert_eq!(
            fails(op(), &[&x, &f32s(&[2], &[0.0; 2])]).what,
            "layer_norm: scale is tensor<2xf32>, expected tensor<3xf32>"
        );
        assert_eq!(
            fails(op(), &[&x, &halfs(&[3], &[0.0; 3])]).what,
            "layer_norm: scale is tensor<3xf16>, expected tensor<3xf32>"
        );
        assert_eq!(
            fails(op(), &[&f32s(&[], &[1.0]), &f32s(&[], &[1.0])]).what,
            "layer_norm: x is tensor<f32>, expected at least 1 axes"
        );
    }
}
