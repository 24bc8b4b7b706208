//! Floats to small floats with scales.

use crate::error::Result;
use crate::ops::{Operator, ScaleLayout, ScaledQuantize, Scaling};
use crate::reference::view::scalar_bytes;
use crate::reference::{Run, View, arity};
use crate::types::SmallFloat;
use crate::types::small_float::{encode_e8m0, exponent, power_of_two};
use alloc::vec;
use alloc::vec::Vec;

impl Run for ScaledQuantize {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [x] = operands else { return Err(arity("scaled_quantize")) };
        let types = self.infer(&[x.ty])?;
        let (data, (rows, width)) = (x.f64s()?, last_two(x)?);
        let mut largest = vec![0.0f64; types[1].shape.elements()? as usize];
        for (i, v) in data.iter().enumerate() {
            let slot = &mut largest[self.scaling.scale_of(i, rows, width)];
            *slot = slot.max(v.abs());
        }
        let format = self.scaling.format;
        let (scales, bytes) = match self.scaling.layout {
            ScaleLayout::Mx | ScaleLayout::Nvfp4 => {
                let codes: Vec<u8> =
                    largest.iter().map(|&v| scale_code(&self.scaling, v)).collect();
                (decoded_scales(&self.scaling, &codes), codes)
            }
            ScaleLayout::Tensor | ScaleLayout::Block { .. } => {
                let scales: Vec<f64> = largest.iter().map(|&v| scale(&self.scaling, v)).collect();
                let bytes = scalar_bytes(types[1].dtype, &scales)?;
                (scales, bytes)
            }
        };
        let code = |(i, v): (usize, &f64)| {
            let scale = scales[self.scaling.scale_of(i, rows, width)];
            // A scale that rounded to 0 leaves nothing to say.
            format.encode(if scale == 0.0 { 0.0 } else { v / scale })
        };
        Ok(vec![data.iter().enumerate().map(code).collect(), bytes])
    }
}

/// Sizes of the last two axes.
pub(crate) fn last_two(x: &View<'_>) -> Result<(usize, usize)> {
    Ok(match x.sizes()?.as_slice() {
        [] => (1, 1),
        [width] => (1, *width),
        [.., rows, width] => (*rows, *width),
    })
}

/// The f32 scale of elements up to `largest`.
fn scale(scaling: &Scaling, largest: f64) -> f64 {
    if largest == 0.0 {
        return 1.0;
    }
    let exact = largest / scaling.format.max();
    if matches!(scaling.layout, ScaleLayout::Block { round: true, .. }) && exact.is_finite() {
        let e = exponent(exact);
        let up = i32::from(power_of_two(e) < exact);
        return power_of_two((e + up).clamp(-126, 127));
    }
    // A scale that is not normal would round badly, or to 0.
    f64::from((exact as f32).max(f32::MIN_POSITIVE))
}

/// The byte of the scale of elements up to `largest`.
fn scale_code(scaling: &Scaling, largest: f64) -> u8 {
    match scaling.layout {
        ScaleLayout::Mx => encode_e8m0(exponent(largest) - scaling.format.max_exponent()),
        _ => SmallFloat::F8E4M3.encode(largest / scaling.format.max()),
    }
}

/// Scales of bytes.
pub(crate) fn decoded_scales(scaling: &Scaling, codes: &[u8]) -> Vec<f64> {
    codes.iter().map(|&code| scaling.scale_value(code)).collect()
}

#[cfg(test)]
mod tests {
    use crate::ops::{ScaleLayout, ScaledDequantize, ScaledQuantize, Scaling};
    use crate::reference::testing::*;
    use crate::types::SmallFloat;
    use alloc::vec::Vec;

    fn op(format: SmallFloat, layout: ScaleLayout) -> ScaledQuantize {
        ScaledQuantize { scaling: Scaling { format, layout } }
    }

    const MX: ScaleLayout = ScaleLayout::Mx;

    #[test]
    fn an_mx_scale_is_the_power_of_two_of_the_largest() {
        let mut x = [0.0f32; 64];
        (x[0], x[1], x[2], x[3]) = (5.0, -2.5, 1.0, 0.3);
        let y = run(op(SmallFloat::F4E2M1, MX), &[&f32s(&[2, 32], &x)]);
        // floor(log2(5)) = 2 and the largest exponent of f4e2m1 is 2: a scale of 1.
        assert_eq!(y[1].bytes, [127, 0]);
        let table = SmallFloat::F4E2M1;
        let values: Vec<f64> = y[0].bytes[..4].iter().map(|&c| table.decode(c)).collect();
        assert_eq!(values, [4.0, -2.0, 1.0, 0.5]);
        assert!(y[0].bytes[4..].iter().all(|&c| c == 0));
        // 7 of 6: saturates, the scale stays.
        x[0] = 7.9;
        let y = run(op(SmallFloat::F4E2M1, MX), &[&f32s(&[2, 32], &x)]);
        assert_eq!((y[1].bytes[0], table.decode(y[0].bytes[0])), (127, 6.0));
    }

    #[test]
    fn scales_of_a_tensor_and_of_blocks_bring_the_largest_to_the_largest() {
        let x: Vec<f32> = (0..12).map(|i| (i as f32 - 4.0) * 8.0).collect();
        let x = f32s(&[3, 4], &x);
        let y = run(op(SmallFloat::F8E4M3, ScaleLayout::Tensor), &[&x]);
        assert_eq!(y[1].f32s(), [56.0 / 448.0]);
        assert_eq!(SmallFloat::F8E4M3.decode(y[0].bytes[11]), 448.0);
        let block = |round| ScaleLayout::Block { rows: 2, columns: 3, round };
        let y = run(op(SmallFloat::F8E4M3, block(false)), &[&x]);
        assert_eq!(y[1].ty, f32s(&[2, 2], &[0.0; 4]).ty);
        let expected = [32.0f32, 24.0, 48.0, 56.0].map(|v| v / 448.0);
        assert_eq!(y[1].f32s(), expected);
        // Up to the next power of two, so that nothing saturates.
        let y = run(op(SmallFloat::F8E4M3, block(true)), &[&x]);
        assert_eq!(y[1].f32s(), [0.125, 0.0625, 0.125, 0.125]);
    }

    #[test]
    fn nvfp4_scales_are_rounded_and_used_as_rounded() {
        let mut x = [0.0f32; 32];
        (x[0], x[1], x[16]) = (6.6, 2.3, 1e-6);
        let y = run(op(SmallFloat::F4E2M1, ScaleLayout::Nvfp4), &[&f32s(&[32], &x)]);
        // 6.6 / 6 = 1.1 is 1.125 in f8e4m3; 1e-6 / 6 is 0.
        let f8 = |c: u8| SmallFloat::F8E4M3.decode(c);
        assert_eq!((f8(y[1].bytes[0]), f8(y[1].bytes[1])), (1.125, 0.0));
        let f4 = |c: u8| SmallFloat::F4E2M1.decode(c);
        assert_eq!((f4(y[0].bytes[0]), f4(y[0].bytes[1]), y[0].bytes[16]), (6.0, 2.0, 0));
    }

    #[test]
    fn a_round_trip_stays_within_half_a_step() {
        let x = f32s(&[4, 64], &noise(256, 9));
        let bounds = [
            (SmallFloat::F8E4M3, 0.125),
            (SmallFloat::F8E5M2, 0.125),
            (SmallFloat::F6E2M3, 0.125),
            (SmallFloat::F6E3M2, 0.125),
            (SmallFloat::F4E2M1, 0.25),
        ];
        for (format, relative) in bounds {
            for layout in [
                ScaleLayout::Tensor,
                ScaleLayout::Block { rows: 3, columns: 24, round: true },
                ScaleLayout::Mx,
                ScaleLayout::Nvfp4,
            ] {
                if layout == ScaleLayout::Nvfp4 && format != SmallFloat::F4E2M1 {
                    continue;
                }
                let scaling = Scaling { format, layout };
                let q = run(ScaledQuantize { scaling }, &[&x]);
                let y = run1(ScaledDequantize { scaling }, &[&q[0], &q[1]]);
                for (y, x) in y.iter().zip(x.f32s()) {
                    let most = relative * x.abs().max(0.1) + 0.13 * f32::from(format.bits() < 8);
                    assert!((y - x).abs() <= most, "{format:?} {layout:?}: {y} {x}");
                }
            }
        }
    }

    #[test]
    fn rows_that_are_no_whole_groups_are_refused() {
        let x = f32s(&[2, 40], &[0.0; 80]);
        let e = fails(op(SmallFloat::F4E2M1, MX), &[&x]);
        assert_eq!(
            e.what,
            "scaled_quantize: x is tensor<2x40xf32>; expected rows of whole groups of 32"
        );
        let e = fails(op(SmallFloat::F8E5M2, ScaleLayout::Nvfp4), &[&x]);
        assert_eq!(
            e.what,
            "scaled_quantize: x is tensor<2x40xf32>; the layout nvfp4 is of f4e2m1, not of f8e5m2"
        );
        let none = ScaleLayout::Block { rows: 0, columns: 1, round: false };
        let e = fails(op(SmallFloat::F8E4M3, none), &[&x]);
        assert_eq!(e.what, "scaled_quantize: x is tensor<2x40xf32>; blocks of 0 x 1 hold nothing");
    }
}
