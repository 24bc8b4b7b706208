//! Windows as columns.

use super::room::filled;
use crate::error::Result;
use crate::ops::{Grid, Im2Col, Operator};
use crate::reference::view::scalar_bytes;
use crate::reference::{Run, View, arity};
use alloc::vec;
use alloc::vec::Vec;

impl Run for Im2Col {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [x] = operands else { return Err(arity("im2col")) };
        let columns = windows(x, &self.window, &self.kernel, 0.0)?;
        let types = self.infer(&[x.ty])?;
        Ok(vec![scalar_bytes(types[0].dtype, &columns)?])
    }
}

/// `[N, C, K, L]`: the elements under the kernel at every position, `fill` in the padding.
pub(crate) fn windows(
    x: &View<'_>,
    window: &crate::ops::Window,
    kernel: &[u64],
    fill: f64,
) -> Result<Vec<f64>> {
    let (data, input) = (x.f64s()?, x.ty.shape.static_dims()?);
    let spatial = &input[2..];
    let output: Vec<u64> = window
        .outputs("im2col", &x.ty.shape.0[2..], kernel)?
        .iter()
        .filter_map(crate::types::Dim::as_static)
        .collect();
    let sizes: Vec<u64> = input[..2].iter().chain(kernel).chain(&output).copied().collect();
    let mut out = filled(&sizes, fill)?;
    let grid = Grid::new(window, spatial, kernel, &output);
    let (positions, taps) = (grid.positions(), kernel.iter().product::<u64>() as usize);
    let (planes, places) =
        ((input[0] * input[1]) as usize, spatial.iter().product::<u64>() as usize);
    let mut sources = Vec::new();
    for p in 0..positions {
        grid.sources(p, &mut sources);
        for plane in 0..planes {
            for (tap, source) in sources.iter().enumerate() {
                if let Some(at) = source {
                    out[(plane * taps + tap) * positions + p] = data[plane * places + at];
                }
            }
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use crate::ops::{Im2Col, Window};
    use crate::reference::testing::*;

    #[test]
    fn a_column_holds_a_window_channel_by_channel() {
        let x = f32s(&[1, 2, 2, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
        let op = Im2Col { kernel: [1, 2].to_vec(), window: Window::new(2).pad(&[0, 1], &[0, 0]) };
        let y = &run(op, &[&x])[0];
        assert_eq!(y.ty, f32s(&[1, 4, 4], &[0.0; 16]).ty);
        let expected =
            [0.0, 1.0, 0.0, 3.0, 1.0, 2.0, 3.0, 4.0, 0.0, 5.0, 0.0, 7.0, 5.0, 6.0, 7.0, 8.0];
        assert_eq!(y.f32s(), expected);
    }

    #[test]
    fn a_kernel_of_nothing_or_with_other_axes_is_refused() {
        let x = f32s(&[1, 1, 2, 2], &[0.0; 4]);
        let say =
            |kernel: &[u64], window| fails(Im2Col { kernel: kernel.to_vec(), window }, &[&x]).what;
        assert_eq!(
            say(&[2, 0], Window::new(2)),
            "im2col: the kernel of spatial axis 1 is 0, expected 1 to 2147483648"
        );
        assert_eq!(
            say(&[2], Window::new(1)),
            "im2col: the window has 1 spatial axes, x has 2 and the kernel has 1"
        );
    }
}
