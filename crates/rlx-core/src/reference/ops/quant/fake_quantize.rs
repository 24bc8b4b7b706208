//! Rounding to the values of a quantised type.

use super::quantize::inner;
use crate::error::Result;
use crate::math;
use crate::ops::{FakeQuantize, levels};
use crate::reference::view::{rounded, scalar_bytes};
use crate::reference::{Run, View, arity};
use alloc::vec;
use alloc::vec::Vec;

impl Run for FakeQuantize {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [x, scale @ ..] = operands else { return Err(arity("fake_quantize")) };
        let (mut y, most) = (x.f64s()?, levels("fake_quantize", self.bits)? - 1.0);
        let (dtype, group) = (x.ty.dtype, inner(x, self.axis)?);
        let scales = match (scale.first(), self.axis) {
            (Some(scale), _) => scale.f64s()?,
            (None, axis) => {
                let n = axis.map_or(Ok(1), |a| x.sizes().map(|d| d[a]))?;
                let mut largest = vec![0.0f64; n];
                for (i, v) in y.iter().enumerate() {
                    largest[i / group % n] = largest[i / group % n].max(v.abs());
                }
                // As it would be stored.
                largest.iter().map(|v| rounded(dtype, v / most)).collect()
            }
        };
        for (i, v) in y.iter_mut().enumerate() {
            let scale = scales[i / group % scales.len()];
            *v = if scale == 0.0 { 0.0 } else { math::rint(*v / scale).clamp(-most, most) * scale };
        }
        Ok(vec![scalar_bytes(dtype, &y)?])
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::{FakeQuantize, FakeScale, StraightThrough};
    use crate::reference::testing::*;

    fn op(bits: u64, axis: Option<usize>, scale: FakeScale) -> FakeQuantize {
        FakeQuantize { bits, axis, scale, gradient: StraightThrough::Identity }
    }

    #[test]
    fn the_largest_magnitude_is_the_largest_integer() {
        // 4 bits: integers of -7 to 7.
        let x = f32s(&[5], &[14.0, -14.0, 1.0, 3.0, 4.5]);
        let y = run1(op(4, None, FakeScale::PerBatch), &[&x]);
        assert_eq!(y, [14.0, -14.0, 0.0, 4.0, 4.0]);
        let rows = f32s(&[3, 2], &[7.0, 1.4, 70.0, 14.0, 0.0, 0.0]);
        let y = run1(op(4, Some(0), FakeScale::PerBatch), &[&rows]);
        assert_eq!(y, [7.0, 1.0, 70.0, 10.0, 0.0, 0.0]);
    }

    #[test]
    fn a_fixed_scale_clamps_and_gradients_change_no_value() {
        let (x, scale) = (f32s(&[4], &[10.0, -0.6, 0.25, -9.0]), f32s(&[], &[0.5]));
        for gradient in [
            StraightThrough::Identity,
            StraightThrough::ClippedIdentity,
            StraightThrough::Tanh,
            StraightThrough::HardTanh,
        ] {
            let op = FakeQuantize { gradient, ..op(2, None, FakeScale::Fixed) };
            assert_eq!(run1(op, &[&x, &scale]), [0.5, -0.5, 0.0, -0.5]);
        }
        let y = run1(op(8, None, FakeScale::Fixed), &[&x, &f32s(&[], &[0.0])]);
        assert_eq!(y, [0.0; 4]);
    }

    #[test]
    fn other_bits_and_other_scales_are_refused() {
        let x = f32s(&[2, 3], &[0.0; 6]);
        let e = fails(op(3, None, FakeScale::PerBatch), &[&x]);
        assert_eq!(e.what, "fake_quantize: bits is 3, expected 8, 4 or 2");
        let e = fails(op(8, Some(1), FakeScale::Fixed), &[&x, &f32s(&[2], &[0.0; 2])]);
        assert_eq!(e.what, "fake_quantize: scale is tensor<2xf32>, expected tensor<3xf32>");
    }
}
