//! Layer norm over channels.

use crate::error::Result;
use crate::ops::LayerNorm2d;
use crate::reference::ops::layer_norm::{affine, normalise};
use crate::reference::view::scalar_bytes;
use crate::reference::{Run, View, arity};
use alloc::vec;
use alloc::vec::Vec;

impl Run for LayerNorm2d {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [x, scale, bias] = operands else { return Err(arity("layer_norm_2d")) };
        let (mut y, dims) = (x.f64s()?, x.sizes()?);
        let (scale, bias) = (scale.f64s()?, bias.f64s()?);
        let channels = scale.len();
        let places: usize = dims.iter().skip(2).product();
        let mut row = vec![0.0; channels];
        for item in y.chunks_exact_mut((channels * places).max(1)) {
            for place in 0..places {
                for (c, v) in row.iter_mut().enumerate() {
                    *v = item[c * places + place];
                }
                normalise(&mut row, f64::from(self.eps), true);
                affine(&mut row, &scale, Some(&bias));
                for (c, v) in row.iter().enumerate() {
                    item[c * places + place] = *v;
                }
            }
        }
        Ok(vec![scalar_bytes(x.ty.dtype, &y)?])
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::LayerNorm2d;
    use crate::reference::testing::*;

    #[test]
    fn every_place_is_normed_over_its_channels() {
        // Places (1, 3) and (5, -1) of two channels.
        let x = f32s(&[1, 2, 1, 2], &[1.0, 5.0, 3.0, -1.0]);
        let (scale, bias) = (f32s(&[2], &[1.0, 2.0]), f32s(&[2], &[0.0, 1.0]));
        let y = run1(LayerNorm2d { eps: 0.0 }, &[&x, &scale, &bias]);
        close(&y, &[-1.0, 1.0, 3.0, -1.0]);
    }

    #[test]
    fn weights_are_for_the_channels() {
        let (x, v) = (f32s(&[1, 2, 1, 3], &[0.0; 6]), f32s(&[3], &[0.0; 3]));
        let e = fails(LayerNorm2d { eps: 0.0 }, &[&x, &v, &v]);
        assert_eq!(e.what, "layer_norm_2d: scale is tensor<3xf32>, expected tensor<2xf32>");
    }
}
