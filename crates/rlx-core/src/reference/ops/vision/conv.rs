//! Convolution.

use super::room::filled;
use crate::error::Result;
use crate::ops::{Conv, Grid, Operator, Window};
use crate::reference::view::{dot, scalar_bytes};
use crate::reference::{Run, View, arity};
use crate::types::Type;
use alloc::vec;
use alloc::vec::Vec;

impl Run for Conv {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [x, w, bias @ ..] = operands else { return Err(arity("conv")) };
        let types: Vec<&Type> = operands.iter().map(|v| v.ty).collect();
        let bias = bias.first().map(View::f64s).transpose()?;
        let y = convolve(
            &self.window,
            self.groups,
            (x, &x.f64s()?),
            (w, &w.f64s()?),
            &self.infer(&types)?,
        )?;
        let places = y.len() / (x.sizes()?[0] * w.sizes()?[0]).max(1);
        let y: Vec<f64> = match bias {
            None => y,
            Some(b) => y.iter().enumerate().map(|(i, v)| v + b[i / places % b.len()]).collect(),
        };
        Ok(vec![scalar_bytes(x.ty.dtype, &y)?])
    }
}

/// Sums of products of x's elements and w's, each given with its type; padding adds nothing.
pub(crate) fn convolve(
    window: &Window,
    groups: u64,
    (x_view, x): (&View<'_>, &[f64]),
    (w_view, w): (&View<'_>, &[f64]),
    results: &[Type],
) -> Result<Vec<f64>> {
    let (input, kernel) = (x_view.ty.shape.static_dims()?, w_view.ty.shape.static_dims()?);
    let output = results.first().ok_or_else(|| arity("conv"))?.shape.static_dims()?;
    let grid = Grid::new(window, &input[2..], &kernel[2..], &output[2..]);
    let (channels, outputs) = (input[1] as usize, kernel[0] as usize);
    let (depth, taps) = (kernel[1] as usize, kernel[2..].iter().product::<u64>() as usize);
    let places: usize = input[2..].iter().product::<u64>() as usize;
    let mut y = filled(&output, 0.0)?;
    let (positions, per_group) = (grid.positions(), outputs / groups as usize);
    let (mut sources, mut patch) = (Vec::new(), vec![0.0; depth * taps]);
    for p in 0..positions {
        grid.sources(p, &mut sources);
        for n in 0..input[0] as usize {
            for group in 0..groups as usize {
                for c in 0..depth {
                    let plane = &x[(n * channels + group * depth + c) * places..][..places];
                    for (slot, source) in patch[c * taps..].iter_mut().zip(&sources) {
                        *slot = source.map_or(0.0, |at| plane[at]);
                    }
                }
                for o in group * per_group..(group + 1) * per_group {
                    let filter = &w[o * depth * taps..][..depth * taps];
                    y[(n * outputs + o) * positions + p] = dot(&patch, filter);
                }
            }
        }
    }
    Ok(y)
}

#[cfg(test)]
mod tests {
    use crate::ops::{Conv, Op, Window};
    use crate::reference::testing::*;
    use crate::types::{DType, Dim, Shape, Type};
    use alloc::string::ToString;

    fn conv(window: Window, groups: u64) -> Conv {
        Conv { window, groups, bias: false }
    }

    #[test]
    fn a_row_meets_its_filter_with_padding_stride_and_dilation() {
        let x = f32s(&[1, 1, 5], &[1.0, 2.0, 3.0, 4.0, 5.0]);
        let w = f32s(&[1, 1, 2], &[10.0, 1.0]);
        let y = |window| run1(conv(window, 1), &[&x, &w]);
        assert_eq!(y(Window::new(1)), [12.0, 23.0, 34.0, 45.0]);
        assert_eq!(y(Window::new(1).stride(&[2])), [12.0, 34.0]);
        assert_eq!(y(Window::new(1).dilation(&[3])), [14.0, 25.0]);
        assert_eq!(y(Window::new(1).pad(&[1], &[2])), [1.0, 12.0, 23.0, 34.0, 45.0, 50.0, 0.0]);
    }

    #[test]
    fn groups_see_their_own_channels_and_a_bias_is_added() {
        let x = f32s(&[1, 2, 1, 2], &[1.0, 2.0, 3.0, 4.0]);
        let w = f32s(&[2, 1, 1, 2], &[1.0, 1.0, 1.0, -1.0]);
        let op = Conv { window: Window::new(2), groups: 2, bias: true };
        assert_eq!(run1(op, &[&x, &w, &f32s(&[2], &[0.5, 0.25])]), [3.5, -0.75]);
    }

    #[test]
    fn batch_and_image_sizes_may_be_symbols() {
        let dims = ["BATCH", "H"].map(Dim::symbol);
        let [batch, h] = dims;
        let x = Type::tensor(DType::F32, Shape([batch, 3u64.into(), h.clone(), h].to_vec()));
        let w = Type::tensor(DType::F32, Shape::of(&[8, 3, 14, 14]));
        let op = Op::from(conv(Window::new(2).stride(&[14, 14]), 1));
        let y = op.infer(&[&x, &w]).unwrap();
        assert_eq!(y[0].to_string(), "tensor<BATCHx8xfloordiv(H,14)xfloordiv(H,14)xf32>");
    }

    #[test]
    fn operands_that_do_not_fit_are_refused_with_both_types() {
        let x = f32s(&[1, 4, 3], &[0.0; 12]);
        let w = |dims: &[u64]| f32s(dims, &alloc::vec![0.0; dims.iter().product::<u64>() as usize]);
        let say = |w: &Value, groups| fails(conv(Window::new(1), groups), &[&x, w]).what;
        let both = |w: &str, why: &str| {
            alloc::format!("conv: x is tensor<1x4x3xf32>, w is tensor<{w}xf32>; {why}")
        };
        assert_eq!(
            say(&w(&[4, 3, 1]), 1),
            both("4x3x1", "with 1 groups x needs 3 channels for each")
        );
        assert_eq!(say(&w(&[3, 2, 1]), 2), both("3x2x1", "3 filters do not split into 2 groups"));
        assert_eq!(say(&w(&[4, 4, 1]), 0), both("4x4x1", "4 filters do not split into 0 groups"));
        assert_eq!(say(&w(&[4, 4]), 1), both("4x4", "expected tensors with 1 spatial axes each"));
        assert_eq!(
            say(&w(&[4, 4, 0]), 1),
            "conv: the kernel of spatial axis 0 is 0, expected 1 to 2147483648"
        );
        assert_eq!(
            say(&w(&[4, 4, 5]), 1),
            "conv: spatial axis 0 is 3; a window of 5 elements does not fit, with 0 of padding"
        );
        let huge = Type::tensor(DType::F32, Shape::of(&[1, u64::MAX, 3]));
        let w = Type::tensor(DType::F32, Shape::of(&[4, u64::MAX / 2, 1]));
        assert!(Op::from(conv(Window::new(1), 4)).infer(&[&huge, &w]).is_err());
    }
}
