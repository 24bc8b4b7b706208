//! Squared absolute values.

use super::fft::rows;
use crate::error::Result;
use crate::ops::ComplexNormSq;
use crate::reference::view::scalar_bytes;
use crate::reference::{Run, View, arity};
use crate::types::DType;
use alloc::vec;
use alloc::vec::Vec;

impl Run for ComplexNormSq {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [x] = operands else { return Err(arity("complex_norm_sq")) };
        let y: Vec<f64> = rows(x)?.iter().flatten().map(|v| v.0 * v.0 + v.1 * v.1).collect();
        let dtype = if x.ty.dtype.is_float() { x.ty.dtype } else { DType::F32 };
        Ok(vec![scalar_bytes(dtype, &y)?])
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::ComplexNormSq;
    use crate::reference::testing::*;
    use crate::types::{DType, Scalar};

    #[test]
    fn both_layouts_give_sums_of_two_squares() {
        let pairs = f32s(&[2, 4], &[3.0, 1.0, 4.0, 0.0, 0.0, 2.0, -1.0, 5.0]);
        let y = &run(ComplexNormSq, &[&pairs])[0];
        assert_eq!(*y, f32s(&[2, 2], &[25.0, 1.0, 1.0, 29.0]));
        let complex = floats(DType::Scalar(Scalar::C64), &[2], &[3.0, 4.0, 0.0, -2.0]);
        assert_eq!(run(ComplexNormSq, &[&complex])[0], f32s(&[2], &[25.0, 4.0]));
    }

    #[test]
    fn an_odd_row_is_refused() {
        let e = fails(ComplexNormSq, &[&f32s(&[3], &[0.0; 3])]);
        assert!(e.what.starts_with("complex_norm_sq: x is tensor<3xf32>, expected rows of c64"));
    }
}
