//! Axes from their ends.

use crate::error::Result;
use crate::ops::Reverse;
use crate::reference::index::{pick, sizes, strides};
use crate::reference::{Run, View, arity};
use alloc::vec;
use alloc::vec::Vec;

impl Run for Reverse {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [x] = operands else { return Err(arity("reverse")) };
        let dims = sizes(&x.ty.shape)?;
        let strides = strides(&dims);
        let from = |index: &[usize]| {
            let at = |(axis, &i): (usize, &usize)| {
                let i = if self.axes.contains(&axis) { dims[axis] - 1 - i } else { i };
                i * strides[axis]
            };
            index.iter().enumerate().map(at).sum()
        };
        Ok(vec![pick(x, &dims, from)?])
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::Reverse;
    use crate::reference::testing::*;
    use crate::reference::type_rules::*;

    fn reverse(axes: &[usize]) -> Reverse {
        Reverse { axes: axes.to_vec() }
    }

    #[test]
    fn elements_come_from_the_end_of_each_axis() {
        let x = f32s(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        assert_eq!(run1(reverse(&[0]), &[&x]), [4.0, 5.0, 6.0, 1.0, 2.0, 3.0]);
        assert_eq!(run1(reverse(&[1]), &[&x]), [3.0, 2.0, 1.0, 6.0, 5.0, 4.0]);
        assert_eq!(run1(reverse(&[0, 1]), &[&x]), [6.0, 5.0, 4.0, 3.0, 2.0, 1.0]);
        assert_eq!(run1(reverse(&[]), &[&x]), x.f32s());
        assert!(run1(reverse(&[0]), &[&f32s(&[0], &[])]).is_empty());
    }

    #[test]
    fn its_parts_are_slices_that_run_backwards() {
        let x = f32s(&[3, 1, 5], &noise(15, 14));
        for axes in [&[0usize][..], &[0, 2], &[1], &[]] {
            decomposes(reverse(axes), &[&x], 0.0);
        }
        decomposes(reverse(&[0]), &[&f32s(&[0], &[])], 0.0);
    }

    #[test]
    fn axes_are_ascending_and_there() {
        assert_eq!(gives(reverse(&[0]), &["SEQxbool"]), ["tensor<SEQxbool>"]);
        assert_eq!(
            refuses(reverse(&[2]), &["2x3xf32"]),
            "reverse: x is tensor<2x3xf32>, it has no axis 2"
        );
        assert!(refuses(reverse(&[1, 1]), &["2x3xf32"]).contains("expected ascending"));
        assert!(refuses(reverse(&[0]), &["2x32xq8_0"]).contains("tensor<2x32xq8_0>"));
        assert_eq!(text(reverse(&[0, 1]), &["2x3xf32"]), "reverse {axes = [0, 1]}");
    }
}
