//! Floats to 8-bit integers.

use crate::error::{Error, Result};
use crate::math;
use crate::ops::{Quantize, byte_range};
use crate::reference::view::scalar_bytes;
use crate::reference::{Run, View, arity};
use alloc::vec;
use alloc::vec::Vec;

impl Run for Quantize {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [x, scales, zeros] = operands else { return Err(arity("quantize")) };
        let (scales, zeros, group) = (scales.f64s()?, zeros.f64s()?, inner(x, self.axis)?);
        let (least, most) = byte_range(self.to).ok_or_else(|| Error::internal("quantize: type"))?;
        let code = |(i, v): (usize, f64)| {
            let c = i / group % scales.len();
            (math::rint(v / scales[c]) + zeros[c]).clamp(least, most)
        };
        let codes: Vec<f64> = x.f64s()?.into_iter().enumerate().map(code).collect();
        Ok(vec![scalar_bytes(self.to, &codes)?])
    }
}

/// Neighbouring elements that share an index of the axis; all of them without one.
pub(crate) fn inner(x: &View<'_>, axis: Option<usize>) -> Result<usize> {
    let from = axis.map_or(0, |a| a + 1);
    Ok(x.sizes()?.iter().skip(from).product::<usize>().max(1))
}

#[cfg(test)]
mod tests {
    use crate::ops::Quantize;
    use crate::reference::testing::*;
    use crate::types::{DType, Scalar};

    const I8: DType = DType::Scalar(Scalar::I8);
    const U8: DType = DType::Scalar(Scalar::U8);

    #[test]
    fn halves_round_to_even_and_what_is_too_large_saturates() {
        let x = f32s(&[8], &[0.25, 0.75, 1.25, -0.25, -0.75, 1000.0, -1000.0, 0.0]);
        let scale = f32s(&[], &[0.5]);
        let y = run(Quantize { to: I8, axis: None }, &[&x, &scale, &floats(I8, &[], &[0.0])]);
        assert_eq!(y[0], floats(I8, &[8], &[0.0, 2.0, 2.0, -0.0, -2.0, 127.0, -128.0, 0.0]));
        let y = run(Quantize { to: U8, axis: None }, &[&x, &scale, &floats(U8, &[], &[3.0])]);
        assert_eq!(y[0], floats(U8, &[8], &[3.0, 5.0, 5.0, 3.0, 1.0, 255.0, 0.0, 3.0]));
    }

    #[test]
    fn an_axis_has_scales_and_zero_points_of_its_own() {
        let x = f32s(&[2, 2, 1], &[1.0, 2.0, 3.0, 4.0]);
        let (scales, zeros) = (f32s(&[2], &[1.0, 0.5]), floats(I8, &[2], &[0.0, -10.0]));
        let y = |axis| run(Quantize { to: I8, axis: Some(axis) }, &[&x, &scales, &zeros])[0].f64s();
        assert_eq!(y(1), [1.0, -6.0, 3.0, -2.0]);
        assert_eq!(y(0), [1.0, 2.0, -4.0, -2.0]);
    }

    #[test]
    fn scales_and_types_that_do_not_fit_are_refused() {
        let (x, scale, zero) = (f32s(&[2], &[0.0; 2]), f32s(&[], &[1.0]), floats(I8, &[], &[0.0]));
        assert_eq!(
            fails(Quantize { to: DType::I32, axis: None }, &[&x, &scale, &zero]).what,
            "quantize: to is i32, expected i8 or u8"
        );
        assert_eq!(
            fails(Quantize { to: U8, axis: None }, &[&x, &scale, &zero]).what,
            "quantize: zero_points is tensor<i8>, expected tensor<u8>"
        );
        assert_eq!(
            fails(Quantize { to: I8, axis: Some(0) }, &[&x, &scale, &zero]).what,
            "quantize: scales is tensor<f32>, expected tensor<2xf32>"
        );
        assert_eq!(
            fails(Quantize { to: I8, axis: Some(1) }, &[&x, &scale, &zero]).what,
            "quantize: x is tensor<2xf32>, it has no axis 1"
        );
    }
}
