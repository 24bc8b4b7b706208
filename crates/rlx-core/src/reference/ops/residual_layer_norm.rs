//! A residual sum and its layer norm.

use super::layer_norm::{affine, normalise};
use crate::error::Result;
use crate::ops::ResidualLayerNorm;
use crate::reference::view::{rounded, scalar_bytes};
use crate::reference::{Run, View, arity};
use alloc::vec;
use alloc::vec::Vec;

impl Run for ResidualLayerNorm {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [x, residual, rest @ ..] = operands else { return Err(arity("residual_layer_norm")) };
        let (bias, rest) = rest.split_at(usize::from(self.bias));
        let [scale, shift @ ..] = rest else { return Err(arity("residual_layer_norm")) };
        let (sum, scale) = (residual_sum(x, residual, bias.first())?, scale.f64s()?);
        let shift = shift.first().map(View::f64s).transpose()?;
        let mut y = sum.clone();
        for row in y.chunks_exact_mut(scale.len().max(1)) {
            normalise(row, f64::from(self.eps), true);
            affine(row, &scale, shift.as_deref());
        }
        Ok(vec![scalar_bytes(x.ty.dtype, &sum)?, scalar_bytes(x.ty.dtype, &y)?])
    }
}

/// `x + residual + bias`, rounded as it is stored. Without a bias nothing is added: `-0 + 0` is 0.
pub(crate) fn residual_sum(
    x: &View<'_>,
    residual: &View<'_>,
    bias: Option<&View<'_>>,
) -> Result<Vec<f64>> {
    let mut sum = x.f64s()?;
    sum.iter_mut().zip(residual.f64s()?).for_each(|(s, r)| *s += r);
    if let Some(bias) = bias {
        let bias = bias.f64s()?;
        sum.iter_mut().zip(bias.iter().cycle()).for_each(|(s, b)| *s += b);
    }
    sum.iter_mut().for_each(|s| *s = rounded(x.ty.dtype, *s));
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use crate::ops::{Binary, LayerNorm, ResidualLayerNorm, ResidualRmsNorm, RmsNorm, Zip};
    use crate::reference::testing::*;
    use alloc::vec::Vec;

    #[test]
    fn both_results_are_those_of_a_sum_and_a_norm() {
        let (x, r) = (f32s(&[2, 8], &noise(16, 1)), f32s(&[2, 8], &noise(16, 2)));
        let (bias, scale, shift) =
            (f32s(&[8], &noise(8, 3)), f32s(&[8], &noise(8, 4)), f32s(&[8], &noise(8, 5)));
        let op = ResidualLayerNorm { eps: 1e-5, bias: true, shift: true };
        let y = run(op, &[&x, &r, &bias, &scale, &shift]);
        let (x, r, b) = (x.f32s(), r.f32s(), bias.f32s());
        let sum: Vec<f64> =
            (0..16).map(|i| f64::from(x[i]) + f64::from(r[i]) + f64::from(b[i % 8])).collect();
        close(&y[0].f32s(), &sum);
        assert_eq!(y[1], run(LayerNorm { eps: 1e-5, bias: true }, &[&y[0], &scale, &shift])[0]);
    }

    #[test]
    fn a_sum_of_negative_zeros_keeps_its_sign_as_a_sum_alone_does() {
        let (zeros, one) = (f32s(&[1, 2], &[-0.0, -0.0]), f32s(&[2], &[1.0, 1.0]));
        let sum = &run(Zip { f: Binary::Add }, &[&zeros, &zeros])[0];
        let op = ResidualLayerNorm { eps: 1e-5, bias: false, shift: false };
        assert_eq!(run(op, &[&zeros, &zeros, &one])[0], *sum);
        let op = ResidualRmsNorm { eps: 1e-5, bias: false };
        let y = run(op, &[&zeros, &zeros, &one]);
        assert_eq!(y[0], *sum);
        assert_eq!(y[1], run(RmsNorm { eps: 1e-5 }, &[sum, &one])[0]);
    }

    #[test]
    fn a_residual_of_another_shape_is_refused() {
        let op = ResidualLayerNorm { eps: 1e-5, bias: false, shift: false };
        let e =
            fails(op, &[&f32s(&[1, 2], &[0.0; 2]), &f32s(&[2], &[0.0; 2]), &f32s(&[2], &[1.0; 2])]);
        assert_eq!(
            e.what,
            "residual_layer_norm: residual is tensor<2xf32>, expected tensor<1x2xf32>"
        );
    }
}
