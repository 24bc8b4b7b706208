//! A norm whose scale and shift are computed.

use super::gated_residual::repeated;
use super::layer_norm::normalise;
use crate::error::Result;
use crate::ops::{AdaNorm, NormKind};
use crate::reference::view::scalar_bytes;
use crate::reference::{Run, View, arity};
use alloc::vec;
use alloc::vec::Vec;

impl Run for AdaNorm {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [x, scale, shift] = operands else { return Err(arity("ada_norm")) };
        let (mut y, dims) = (x.f64s()?, x.sizes()?);
        let (scale, shift) = (repeated(scale, &dims)?, repeated(shift, &dims)?);
        for row in y.chunks_exact_mut(dims.last().copied().unwrap_or(1).max(1)) {
            normalise(row, f64::from(self.eps), self.norm == NormKind::LayerNorm);
        }
        for ((y, scale), shift) in y.iter_mut().zip(scale).zip(shift) {
            *y = *y * (1.0 + scale) + shift;
        }
        Ok(vec![scalar_bytes(x.ty.dtype, &y)?])
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::{AdaNorm, NormKind};
    use crate::reference::testing::*;

    #[test]
    fn one_scale_and_shift_serve_the_rows_of_an_item() {
        let x = f32s(&[2, 2, 2], &[1.0, 3.0, 0.0, 4.0, 3.0, 4.0, -3.0, 4.0]);
        let scale = f32s(&[2, 1, 2], &[0.0, 1.0, -1.0, 0.0]);
        let shift = f32s(&[2], &[0.5, 0.0]);
        let y = run1(AdaNorm { norm: NormKind::LayerNorm, eps: 0.0 }, &[&x, &scale, &shift]);
        close(&y, &[-0.5, 2.0, -0.5, 2.0, 0.5, 1.0, 0.5, 1.0]);
        let y = run1(AdaNorm { norm: NormKind::RmsNorm, eps: 0.0 }, &[&x, &scale, &shift]);
        let root = 12.5f64.sqrt();
        close(&y[4..], &[0.5, 4.0 / root, 0.5, 4.0 / root]);
    }

    #[test]
    fn a_scale_of_other_width_is_refused() {
        let (x, v) = (f32s(&[1, 4], &[0.0; 4]), f32s(&[3], &[0.0; 3]));
        let e = fails(AdaNorm { norm: NormKind::RmsNorm, eps: 0.0 }, &[&x, &v, &v]);
        assert_eq!(
            e.what,
            "ada_norm: scale is tensor<3xf32>, it does not repeat to x, tensor<1x4xf32>"
        );
    }
}
