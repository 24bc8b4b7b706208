//! Where the smallest element stands.

use super::argmax::best;
use crate::error::Result;
use crate::ops::ArgMin;
use crate::reference::{Run, View, arity};
use alloc::vec;
use alloc::vec::Vec;

impl Run for ArgMin {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [x] = operands else { return Err(arity("argmin")) };
        Ok(vec![best(x, self.axis, |new, old| new < old, |new, old| new < old)?])
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::ArgMin;
    use crate::reference::testing::*;
    use crate::reference::type_rules::*;
    use crate::types::DType;

    fn at(axis: usize) -> ArgMin {
        ArgMin { axis, keep: false }
    }

    #[test]
    fn ties_go_to_the_lower_index() {
        let x = [1.0, 3.0, 3.0, 2.0, 2.0, 1.0].map(|x: f32| -x);
        let x = f32s(&[2, 3], &x);
        assert_eq!(run_ints(at(1), &[&x]), [1, 0]);
        assert_eq!(run_ints(at(0), &[&x]), [1, 0, 0]);
        assert_eq!(run_ints(at(0), &[&f32s(&[2], &[-0.0, 0.0])]), [0], "zeros are equal");
    }

    #[test]
    fn a_nan_is_never_the_smallest() {
        let inf = f32::INFINITY;
        assert_eq!(run_ints(at(0), &[&f32s(&[4], &[f32::NAN, 1.0, f32::NAN, -2.0])]), [3]);
        assert_eq!(run_ints(at(0), &[&f32s(&[2], &[f32::NAN, inf])]), [1]);
        assert_eq!(run_ints(at(0), &[&f32s(&[3], &[f32::NAN; 3])]), [0]);
        assert_eq!(run_ints(at(0), &[&f32s(&[2], &[inf; 2])]), [0]);
    }

    #[test]
    fn integers_are_exact() {
        let x = integers(DType::I64, &[2], &[-(1 << 53), -((1 << 53) + 1)]);
        assert_eq!(run_ints(at(0), &[&x]), [1]);
    }

    #[test]
    fn its_parts_give_its_results() {
        let x: alloc::vec::Vec<f32> = noise(60, 8).iter().map(|x| (x * 3.0).round()).collect();
        for axis in 0..3 {
            for keep in [false, true] {
                decomposes(ArgMin { axis, keep }, &[&f32s(&[3, 4, 5], &x)], 0.0);
            }
        }
        for x in [[f32::NAN; 3], [f32::INFINITY; 3], [f32::NAN, 1.0, 1.0]] {
            decomposes(at(0), &[&f32s(&[3], &x)], 0.0);
        }
        decomposes(at(0), &[&integers(DType::I32, &[3], &[-5, 7, -9])], 0.0);
        decomposes(at(1), &[&f32s(&[0, 3], &[])], 0.0);
    }

    #[test]
    fn the_axis_goes_or_stays_and_has_elements() {
        assert_eq!(gives(at(0), &["4xSEQxf16"]), ["tensor<SEQxu32>"]);
        assert_eq!(gives(ArgMin { axis: 1, keep: true }, &["4xSEQxf16"]), ["tensor<4x1xu32>"]);
        assert!(run_ints(at(1), &[&f32s(&[0, 2], &[])]).is_empty());
        assert_eq!(
            refuses(at(1), &["2x0xf32"]),
            "argmin: x is tensor<2x0xf32>, axis 1 has no elements"
        );
        assert_eq!(refuses(at(2), &["2x3xf32"]), "argmin: x is tensor<2x3xf32>, it has no axis 2");
        assert!(refuses(at(0), &["2xbool"]).contains("tensor<2xbool>"));
        assert_eq!(text(at(1), &["2x3xf32"]), "argmin {axis = 1}");
        let keep = ArgMin { axis: 0, keep: true };
        assert_eq!(text(keep, &["2xf32"]), "argmin {axis = 0, keep = true}");
    }
}
