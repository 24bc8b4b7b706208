//! Transposed convolution: every element is added where a convolution would read it.

use super::room::filled;
use crate::error::Result;
use crate::ops::{ConvTranspose, Grid, Operator};
use crate::reference::view::scalar_bytes;
use crate::reference::{Run, View, arity};
use crate::types::Type;
use alloc::vec;
use alloc::vec::Vec;

impl Run for ConvTranspose {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [x_view, w_view, bias @ ..] = operands else { return Err(arity("conv_transpose")) };
        let types: Vec<&Type> = operands.iter().map(|v| v.ty).collect();
        let output = self.infer(&types)?[0].shape.static_dims()?;
        let (input, kernel) = (x_view.ty.shape.static_dims()?, w_view.ty.shape.static_dims()?);
        let (x, w) = (x_view.f64s()?, w_view.f64s()?);
        let mut y = filled(&output, 0.0)?;
        // The convolution whose adjoint this is: from the output's size to the input's.
        let grid = Grid::new(&self.window, &output[2..], &kernel[2..], &input[2..]);
        let (channels, outputs) = (input[1] as usize, output[1] as usize);
        let (per_group, taps) = (kernel[1] as usize, kernel[2..].iter().product::<u64>() as usize);
        let depth = channels / self.groups as usize;
        let (places, positions) = (output[2..].iter().product::<u64>() as usize, grid.positions());
        if let Some(bias) = bias.first() {
            let bias = bias.f64s()?;
            y.iter_mut().enumerate().for_each(|(i, v)| *v = bias[i / places % outputs]);
        }
        let mut sources = Vec::new();
        for p in 0..positions {
            grid.sources(p, &mut sources);
            for n in 0..input[0] as usize {
                for c in 0..channels {
                    let element = x[(n * channels + c) * positions + p];
                    for o in 0..per_group {
                        let filter = &w[(c * per_group + o) * taps..][..taps];
                        let plane = (n * outputs + c / depth * per_group + o) * places;
                        for (source, weight) in sources.iter().zip(filter) {
                            if let Some(at) = source {
                                y[plane + at] += element * weight;
                            }
                        }
                    }
                }
            }
        }
        Ok(vec![scalar_bytes(x_view.ty.dtype, &y)?])
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::{ConvTranspose, Op, Window};
    use crate::reference::testing::*;
    use crate::types::{DType, Dim, Shape, Type};
    use alloc::string::ToString;

    fn op(window: Window, extra: u64) -> ConvTranspose {
        ConvTranspose { window, extra: [extra].to_vec(), groups: 1, bias: false }
    }

    #[test]
    fn elements_spread_by_stride_and_what_is_padding_is_cut_off() {
        let x = f32s(&[1, 1, 2], &[1.0, 2.0]);
        let w = f32s(&[1, 1, 3], &[1.0, 10.0, 100.0]);
        let y = |window, extra| run1(op(window, extra), &[&x, &w]);
        assert_eq!(y(Window::new(1), 0), [1.0, 12.0, 120.0, 200.0]);
        let two = Window::new(1).stride(&[2]);
        assert_eq!(y(two.clone(), 0), [1.0, 10.0, 102.0, 20.0, 200.0]);
        assert_eq!(y(two.clone().pad(&[1], &[1]), 0), [10.0, 102.0, 20.0]);
        assert_eq!(y(two.pad(&[1], &[1]), 1), [10.0, 102.0, 20.0, 200.0]);
    }

    #[test]
    fn a_symbolic_axis_grows_by_the_stride() {
        let x =
            Type::tensor(DType::F32, Shape([1u64.into(), 4u64.into(), Dim::symbol("W")].to_vec()));
        let w = Type::tensor(DType::F32, Shape::of(&[4, 2, 2]));
        let y = Op::from(op(Window::new(1).stride(&[2]), 0)).infer(&[&x, &w]).unwrap();
        assert_eq!(y[0].to_string(), "tensor<1x2x2*WxF32>".replace("F32", "f32"));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let (x, w) = (f32s(&[1, 2, 2], &[0.0; 4]), f32s(&[2, 1, 3], &[0.0; 6]));
        let w3 = f32s(&[3, 1, 3], &[0.0; 9]);
        let both = "conv_transpose: x is tensor<1x2x2xf32>, w is tensor<2x1x3xf32>; ";
        let say = |op, w| fails(op, &[&x, w]).what;
        assert_eq!(
            say(op(Window::new(1), 1), &w),
            both.to_string()
                + "extra is [1], expected one number less than stride or dilation for each axis"
        );
        assert_eq!(
            say(op(Window::new(1), 0), &w3),
            "conv_transpose: x is tensor<1x2x2xf32>, w is tensor<3x1x3xf32>; w is for 3 channels"
        );
        assert_eq!(
            say(ConvTranspose { groups: 3, ..op(Window::new(1), 0) }, &w),
            both.to_string() + "2 channels do not split into 3 groups"
        );
        assert_eq!(
            say(op(Window::new(1).pad(&[2], &[2]), 0), &w),
            "conv_transpose: spatial axis 0 is 2, the padding is 2 and 2; nothing is left"
        );
    }
}
