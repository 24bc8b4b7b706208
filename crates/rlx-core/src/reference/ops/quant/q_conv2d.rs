//! Convolution of 8-bit integers.

use super::q_matmul::{centred, requantised};
use crate::error::Result;
use crate::ops::{Operator, QConv2d};
use crate::reference::ops::vision::conv::convolve;
use crate::reference::{Run, View, arity};
use crate::types::Type;
use alloc::vec;
use alloc::vec::Vec;

impl Run for QConv2d {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [x, w, bias @ ..] = operands else { return Err(arity("q_conv2d")) };
        let types: Vec<&Type> = operands.iter().map(|v| v.ty).collect();
        let results = self.infer(&types)?;
        let (x_data, w_data) =
            (centred(x, self.requantize.x_zero)?, centred(w, self.requantize.w_zero)?);
        let sums = convolve(&self.window, self.groups, (x, &x_data), (w, &w_data), &results)?;
        let places = results[0].shape.static_dims()?[2..].iter().product::<u64>() as usize;
        Ok(vec![requantised(&self.requantize, &sums, bias.first(), places.max(1))?])
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::{QConv2d, Requantize, Window};
    use crate::reference::testing::*;
    use crate::types::{DType, Scalar};

    const I8: DType = DType::Scalar(Scalar::I8);

    #[test]
    fn padding_is_the_zero_point_of_x() {
        let x = floats(I8, &[1, 1, 1, 3], &[5.0, 6.0, 7.0]);
        let w = floats(I8, &[2, 1, 1, 2], &[1.0, 2.0, -3.0, 0.0]);
        let requantize =
            Requantize { x_zero: 5, w_zero: 0, out_zero: 1, multiplier: 0.5, bias: true };
        let op = QConv2d { window: Window::new(2).pad(&[0, 1], &[0, 0]), groups: 1, requantize };
        let y = run(op, &[&x, &w, &floats(DType::I32, &[2], &[0.0, 10.0])]);
        // x less zero is 0 | 0 1 2: sums 0, 2, 5 and 0, 0, -3 plus 10; halves to even.
        assert_eq!(y[0], floats(I8, &[1, 2, 1, 3], &[1.0, 2.0, 3.0, 6.0, 6.0, 5.0]));
    }

    #[test]
    fn a_window_of_one_axis_is_refused() {
        let x = floats(I8, &[1, 1, 3], &[0.0; 3]);
        let requantize =
            Requantize { x_zero: 0, w_zero: 0, out_zero: 0, multiplier: 1.0, bias: false };
        let op = QConv2d { window: Window::new(1), groups: 1, requantize };
        assert_eq!(fails(op, &[&x, &x]).what, "q_conv2d: the window has 1 axes, expected 2");
    }
}
