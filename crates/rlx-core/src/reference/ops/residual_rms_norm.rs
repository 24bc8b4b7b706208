//! A residual sum and its root-mean-square norm.

use super::residual_layer_norm::residual_sum;
use super::rms_norm::normalise;
use crate::error::Result;
use crate::ops::ResidualRmsNorm;
use crate::reference::view::scalar_bytes;
use crate::reference::{Run, View, arity};
use alloc::vec;
use alloc::vec::Vec;

impl Run for ResidualRmsNorm {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [x, residual, rest @ ..] = operands else { return Err(arity("residual_rms_norm")) };
        let (bias, [scale]) = rest.split_at(usize::from(self.bias)) else {
            return Err(arity("residual_rms_norm"));
        };
        let (sum, scale) = (residual_sum(x, residual, bias.first())?, scale.f64s()?);
        let mut y = sum.clone();
        for row in y.chunks_exact_mut(scale.len().max(1)) {
            normalise(row, &scale, self.eps, x.ty.dtype);
        }
        Ok(vec![scalar_bytes(x.ty.dtype, &sum)?, scalar_bytes(x.ty.dtype, &y)?])
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::{ResidualRmsNorm, RmsNorm};
    use crate::reference::testing::*;

    #[test]
    fn both_results_are_those_of_a_sum_and_a_norm() {
        let (x, r) = (f32s(&[3, 4], &noise(12, 1)), f32s(&[3, 4], &noise(12, 2)));
        let scale = f32s(&[4], &noise(4, 3));
        let y = run(ResidualRmsNorm { eps: 1e-6, bias: false }, &[&x, &r, &scale]);
        assert_eq!(y[0].f32s()[5], x.f32s()[5] + r.f32s()[5]);
        assert_eq!(y[1], run(RmsNorm { eps: 1e-6 }, &[&y[0], &scale])[0]);
    }

    #[test]
    fn a_bias_joins_the_sum_and_a_missing_operand_is_an_error() {
        let op = ResidualRmsNorm { eps: 0.0, bias: true };
        let (x, one) = (f32s(&[1, 2], &[1.0, 2.0]), f32s(&[2], &[1.0, 1.0]));
        let y = run(op.clone(), &[&x, &x, &f32s(&[2], &[-2.0, 3.0]), &one]);
        assert_eq!(y[0].f32s(), [0.0, 7.0]);
        close(&y[1].f32s(), &[0.0, 2f64.sqrt()]);
        let e = fails(op, &[&x, &x, &one]);
        assert_eq!(e.what, "residual_rms_norm takes 4 operands, got 3");
    }
}
