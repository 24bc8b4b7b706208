//! Axes turned round.

use crate::error::Result;
use crate::ops::Roll;
use crate::reference::index::{pick, sizes, strides};
use crate::reference::{Run, View, arity};
use alloc::vec;
use alloc::vec::Vec;

impl Run for Roll {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [x] = operands else { return Err(arity("roll")) };
        let dims = sizes(&x.ty.shape)?;
        let strides = strides(&dims);
        let from = |index: &[usize]| {
            let at = |(axis, &i): (usize, &usize)| {
                let shift = self.axes.iter().position(|a| *a == axis).map_or(0, |k| self.shifts[k]);
                // In i128, which no difference of two 64-bit integers overflows.
                let i = (i as i128 - i128::from(shift)).rem_euclid(dims[axis] as i128) as usize;
                i * strides[axis]
            };
            index.iter().enumerate().map(at).sum()
        };
        Ok(vec![pick(x, &dims, from)?])
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::Roll;
    use crate::reference::testing::*;
    use crate::reference::type_rules::*;

    fn roll(shifts: &[i64], axes: &[usize]) -> Roll {
        Roll { shifts: shifts.to_vec(), axes: axes.to_vec() }
    }

    #[test]
    fn what_leaves_at_one_end_comes_back_at_the_other() {
        let x = f32s(&[5], &[0.0, 1.0, 2.0, 3.0, 4.0]);
        let y = |shift| run1(roll(&[shift], &[0]), &[&x]);
        assert_eq!(y(2), [3.0, 4.0, 0.0, 1.0, 2.0]);
        assert_eq!(y(-1), [1.0, 2.0, 3.0, 4.0, 0.0]);
        assert_eq!(y(7), y(2));
        assert_eq!(y(i64::MIN), y(i64::MIN.rem_euclid(5)));
        assert_eq!(y(i64::MAX), y(i64::MAX.rem_euclid(5)));
        let x = f32s(&[2, 2], &[1.0, 2.0, 3.0, 4.0]);
        assert_eq!(run1(roll(&[1, 1], &[0, 1]), &[&x]), [4.0, 3.0, 2.0, 1.0]);
        assert!(run1(roll(&[3], &[1]), &[&f32s(&[2, 0], &[])]).is_empty());
    }

    #[test]
    fn its_parts_are_two_slices_an_axis() {
        let x = noise(60, 13);
        for shifts in [[1i64, -2, 7], [0, 4, -5], [i64::MIN, i64::MAX, 1], [0, 0, 0]] {
            decomposes(roll(&shifts, &[0, 1, 2]), &[&f32s(&[3, 4, 5], &x)], 0.0);
        }
        decomposes(roll(&[3], &[1]), &[&f32s(&[2, 0], &[])], 0.0);
        decomposes(roll(&[], &[]), &[&f32s(&[2], &x[..2])], 0.0);
    }

    #[test]
    fn there_is_a_shift_for_each_axis() {
        assert_eq!(gives(roll(&[-1], &[0]), &["SEQx4xi64"]), ["tensor<SEQx4xi64>"]);
        assert_eq!(
            refuses(roll(&[1, 2], &[0]), &["4xf32"]),
            "roll: shifts are [1, 2], axes [0]; expected as many"
        );
        assert_eq!(
            refuses(roll(&[1], &[1]), &["4xf32"]),
            "roll: x is tensor<4xf32>, it has no axis 1"
        );
        assert!(refuses(roll(&[1, 1], &[1, 0]), &["4x4xf32"]).contains("expected ascending"));
        assert_eq!(text(roll(&[-1], &[0]), &["4xf32"]), "roll {shifts = [-1], axes = [0]}");
    }
}
