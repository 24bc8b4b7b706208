//! Group norm.

use crate::error::Result;
use crate::ops::GroupNorm;
use crate::reference::ops::layer_norm::normalise;
use crate::reference::view::scalar_bytes;
use crate::reference::{Run, View, arity};
use alloc::vec;
use alloc::vec::Vec;

impl Run for GroupNorm {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [x, scale, bias] = operands else { return Err(arity("group_norm")) };
        let (mut y, dims) = (x.f64s()?, x.sizes()?);
        let (scale, bias) = (scale.f64s()?, bias.f64s()?);
        let places: usize = dims.iter().skip(2).product();
        let group = scale.len() / self.groups as usize * places;
        for run in y.chunks_exact_mut(group.max(1)) {
            normalise(run, f64::from(self.eps), true);
        }
        for (i, v) in y.iter_mut().enumerate() {
            let c = i / places % scale.len();
            *v = *v * scale[c] + bias[c];
        }
        Ok(vec![scalar_bytes(x.ty.dtype, &y)?])
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::GroupNorm;
    use crate::reference::testing::*;

    #[test]
    fn channels_of_a_group_share_mean_and_variance() {
        // Two groups of two channels with one place: (1, 3) and (0, 8).
        let x = f32s(&[1, 4, 1], &[1.0, 3.0, 0.0, 8.0]);
        let scale = f32s(&[4], &[1.0, 1.0, 2.0, 2.0]);
        let bias = f32s(&[4], &[0.0, 0.0, 0.0, 1.0]);
        let y = run1(GroupNorm { groups: 2, eps: 0.0 }, &[&x, &scale, &bias]);
        close(&y, &[-1.0, 1.0, -2.0, 3.0]);
    }

    #[test]
    fn groups_that_do_not_divide_the_channels_are_refused() {
        let (x, v) = (f32s(&[1, 4, 2], &[0.0; 8]), f32s(&[4], &[0.0; 4]));
        for groups in [0, 3, 8] {
            let e = fails(GroupNorm { groups, eps: 0.0 }, &[&x, &v, &v]);
            assert_eq!(
                e.what,
                alloc::format!(
                    "group_norm: x is tensor<1x4x2xf32>, its channels do not split into {groups} groups"
                )
            );
        }
    }
}
