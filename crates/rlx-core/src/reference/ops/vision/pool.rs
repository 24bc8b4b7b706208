//! Pooling.

use super::im2col::windows;
use crate::error::Result;
use crate::ops::{Operator, Pool, PoolKind};
use crate::reference::view::scalar_bytes;
use crate::reference::{Run, View, arity};
use alloc::vec;
use alloc::vec::Vec;

impl Run for Pool {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [x] = operands else { return Err(arity("pool")) };
        let fill = if self.kind == PoolKind::Max { f64::NEG_INFINITY } else { 0.0 };
        let columns = windows(x, &self.window, &self.kernel, fill)?;
        let ones = vec![1.0; x.ty.shape.elements()? as usize];
        let ones: Vec<u8> = scalar_bytes(x.ty.dtype, &ones)?;
        let present = windows(&View::new(x.ty, &ones), &self.window, &self.kernel, 0.0)?;
        let shape = self.infer(&[x.ty])?[0].shape.static_dims()?;
        let positions = shape[2..].iter().product::<u64>() as usize;
        let taps = self.kernel.iter().product::<u64>() as usize;
        let planes = columns.len() / (taps * positions).max(1);
        let mut y = Vec::with_capacity(planes * positions);
        for plane in 0..planes {
            for p in 0..positions {
                let at = |tap: usize| (plane * taps + tap) * positions + p;
                let values = (0..taps).map(|tap| columns[at(tap)]);
                y.push(match self.kind {
                    PoolKind::Max => values.fold(f64::NEG_INFINITY, f64::max),
                    PoolKind::Average if self.count_padding => values.sum::<f64>() / taps as f64,
                    PoolKind::Average => {
                        let real: f64 = (0..taps).map(|tap| present[at(tap)]).sum();
                        values.sum::<f64>() / real.max(1.0)
                    }
                });
            }
        }
        Ok(vec![scalar_bytes(x.ty.dtype, &y)?])
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::{Pool, PoolKind, Window};
    use crate::reference::testing::*;

    fn pool(kind: PoolKind, kernel: &[u64], window: Window, count_padding: bool) -> Pool {
        Pool { kind, kernel: kernel.to_vec(), window, count_padding }
    }

    #[test]
    fn the_largest_and_the_mean_of_each_window() {
        let x = f32s(&[1, 1, 2, 4], &[1.0, -5.0, 3.0, 4.0, 2.0, 6.0, -7.0, 8.0]);
        let two = || Window::new(2).stride(&[2, 2]);
        let y = |kind| run1(pool(kind, &[2, 2], two(), false), &[&x]);
        assert_eq!(y(PoolKind::Max), [6.0, 8.0]);
        assert_eq!(y(PoolKind::Average), [1.0, 2.0]);
    }

    #[test]
    fn padding_is_never_the_largest_and_counts_in_a_mean_only_if_asked() {
        let x = f32s(&[1, 1, 3], &[-1.0, -2.0, -6.0]);
        let window = || Window::new(1).stride(&[2]).pad(&[1], &[1]);
        assert_eq!(run1(pool(PoolKind::Max, &[2], window(), false), &[&x]), [-1.0, -2.0]);
        assert_eq!(run1(pool(PoolKind::Average, &[2], window(), false), &[&x]), [-1.0, -4.0]);
        assert_eq!(run1(pool(PoolKind::Average, &[2], window(), true), &[&x]), [-0.5, -4.0]);
        let far = Window::new(1).pad(&[3], &[0]);
        let y = run1(pool(PoolKind::Max, &[2], far.clone(), false), &[&x]);
        assert_eq!(y[..2], [f32::NEG_INFINITY, f32::NEG_INFINITY]);
        assert_eq!(run1(pool(PoolKind::Average, &[2], far, false), &[&x])[..3], [0.0, 0.0, -1.0]);
    }

    #[test]
    fn steps_of_nothing_are_refused() {
        let x = f32s(&[1, 1, 3], &[0.0; 3]);
        let e = fails(pool(PoolKind::Max, &[2], Window::new(1).stride(&[0]), false), &[&x]);
        assert_eq!(e.what, "pool: stride is [0], expected 1 to 2147483648 on each axis");
        let e = fails(pool(PoolKind::Max, &[0], Window::new(1), false), &[&x]);
        assert_eq!(e.what, "pool: the kernel of spatial axis 0 is 0, expected 1 to 2147483648");
    }
}
