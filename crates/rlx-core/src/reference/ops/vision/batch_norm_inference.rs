//! Batch norm with stored statistics.

use crate::error::Result;
use crate::math;
use crate::ops::BatchNormInference;
use crate::reference::view::scalar_bytes;
use crate::reference::{Run, View, arity};
use alloc::vec;
use alloc::vec::Vec;

impl Run for BatchNormInference {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [x, scale, bias, mean, var] = operands else {
            return Err(arity("batch_norm_inference"));
        };
        let (mut y, dims) = (x.f64s()?, x.sizes()?);
        let (scale, bias, mean, var) = (scale.f64s()?, bias.f64s()?, mean.f64s()?, var.f64s()?);
        let inner: usize = dims.iter().skip(self.axis + 1).product();
        for (i, v) in y.iter_mut().enumerate() {
            let c = i / inner % scale.len();
            *v = (*v - mean[c]) / math::sqrt(var[c] + f64::from(self.eps)) * scale[c] + bias[c];
        }
        Ok(vec![scalar_bytes(x.ty.dtype, &y)?])
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::BatchNormInference;
    use crate::reference::testing::*;

    #[test]
    fn statistics_follow_the_axis_of_channels() {
        let x = f32s(&[2, 2], &[1.0, 2.0, 3.0, 4.0]);
        let (scale, bias) = (f32s(&[2], &[2.0, 1.0]), f32s(&[2], &[0.0, 10.0]));
        let (mean, var) = (f32s(&[2], &[1.0, 2.0]), f32s(&[2], &[3.0, 0.0]));
        let y = |axis| {
            let op = BatchNormInference { axis, eps: 1.0 };
            run1(op, &[&x, &scale, &bias, &mean, &var])
        };
        close(&y(1), &[0.0, 10.0, 2.0, 12.0]);
        close(&y(0), &[0.0, 1.0, 11.0, 12.0]);
    }

    #[test]
    fn an_axis_that_is_not_there_is_refused() {
        let (x, v) = (f32s(&[1, 2], &[0.0; 2]), f32s(&[2], &[0.0; 2]));
        let op = BatchNormInference { axis: 2, eps: 0.0 };
        let e = fails(op, &[&x, &v, &v, &v, &v]);
        assert_eq!(e.what, "batch_norm_inference: x is tensor<1x2xf32>, it has no axis 2");
    }
}
