//! Fake quantisation with a learned step.

use super::quantize::inner;
use crate::error::Result;
use crate::math;
use crate::ops::{FakeQuantizeLsq, levels};
use crate::reference::view::scalar_bytes;
use crate::reference::{Run, View, arity};
use alloc::vec;
use alloc::vec::Vec;

impl Run for FakeQuantizeLsq {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [x, scales] = operands else { return Err(arity("fake_quantize_lsq")) };
        let (mut y, n) = (x.f64s()?, levels("fake_quantize_lsq", self.bits)?);
        let (scales, group) = (scales.f64s()?, inner(x, self.axis)?);
        for (i, v) in y.iter_mut().enumerate() {
            let scale = scales[i / group % scales.len()];
            *v = if scale == 0.0 {
                0.0
            } else {
                math::rint((*v / scale).clamp(-n, n - 1.0)) * scale
            };
        }
        Ok(vec![scalar_bytes(x.ty.dtype, &y)?])
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::FakeQuantizeLsq;
    use crate::reference::testing::*;

    #[test]
    fn the_range_has_one_more_negative_level() {
        let x = f32s(&[2, 3], &[9.0, -9.0, 0.8, 9.0, -9.0, 0.8]);
        let scale = f32s(&[2], &[1.0, 0.5]);
        let y = run1(FakeQuantizeLsq { bits: 2, axis: Some(0) }, &[&x, &scale]);
        assert_eq!(y, [1.0, -2.0, 1.0, 0.5, -1.0, 0.5]);
    }

    #[test]
    fn the_scale_follows_the_axis() {
        let x = f32s(&[2, 3], &[0.0; 6]);
        let e = fails(FakeQuantizeLsq { bits: 4, axis: None }, &[&x, &f32s(&[2], &[1.0; 2])]);
        assert_eq!(e.what, "fake_quantize_lsq: scale is tensor<2xf32>, expected tensor<f32>");
    }
}
