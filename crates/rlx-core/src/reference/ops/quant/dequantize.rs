//! 8-bit integers to floats: the operator `dequantize` ([`dequantize`](crate::reference::dequantize) has the
//! packed formats of model files).

use super::quantize::inner;
use crate::error::Result;
use crate::ops::Dequantize;
use crate::reference::view::scalar_bytes;
use crate::reference::{Run, View, arity};
use alloc::vec;
use alloc::vec::Vec;

impl Run for Dequantize {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [x, scales, zeros] = operands else { return Err(arity("dequantize")) };
        let (dtype, group) = (scales.ty.dtype, inner(x, self.axis)?);
        let (scales, zeros) = (scales.f64s()?, zeros.f64s()?);
        let value = |(i, v): (usize, f64)| {
            let c = i / group % scales.len();
            (v - zeros[c]) * scales[c]
        };
        let values: Vec<f64> = x.f64s()?.into_iter().enumerate().map(value).collect();
        Ok(vec![scalar_bytes(dtype, &values)?])
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::{Dequantize, Quantize};
    use crate::reference::testing::*;
    use crate::types::{DType, Scalar};

    const U8: DType = DType::Scalar(Scalar::U8);

    #[test]
    fn codes_are_shifted_and_scaled_along_the_axis() {
        let x = floats(U8, &[2, 2], &[0.0, 255.0, 10.0, 12.0]);
        let (scales, zeros) = (f32s(&[2], &[0.5, 2.0]), floats(U8, &[2], &[128.0, 10.0]));
        let y = run1(Dequantize { axis: Some(0) }, &[&x, &scales, &zeros]);
        assert_eq!(y, [-64.0, 63.5, 0.0, 4.0]);
    }

    #[test]
    fn a_round_trip_is_off_by_half_a_step_at_most() {
        let x = f32s(&[4, 16], &noise(64, 5));
        let (scale, zero) = (f32s(&[], &[1.0 / 100.0]), floats(U8, &[], &[120.0]));
        let codes = &run(Quantize { to: U8, axis: None }, &[&x, &scale, &zero])[0];
        let y = run1(Dequantize { axis: None }, &[codes, &scale, &zero]);
        for (y, x) in y.iter().zip(x.f32s()) {
            assert!((y - x).abs() <= 0.005 + 1e-6, "{y} {x}");
        }
    }

    #[test]
    fn floats_are_refused() {
        let (x, s) = (f32s(&[2], &[0.0; 2]), f32s(&[], &[1.0]));
        let e = fails(Dequantize { axis: None }, &[&x, &s, &s]);
        assert_eq!(e.what, "dequantize: x is tensor<2xf32>, expected a tensor of i8 or u8");
    }
}
