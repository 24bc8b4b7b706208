//! Shares of exponentials along an axis.

use crate::error::Result;
use crate::math;
use crate::ops::Softmax;
use crate::reference::index::{around, sizes};
use crate::reference::view::scalar_bytes;
use crate::reference::{Run, View, arity};
use alloc::vec;
use alloc::vec::Vec;

impl Run for Softmax {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [x] = operands else { return Err(arity("softmax")) };
        let (outer, n, inner) = around(&sizes(&x.ty.shape)?, self.axis)?;
        let mut y = x.f64s()?;
        if y.is_empty() {
            return Ok(vec![Vec::new()]);
        }
        for o in 0..outer {
            for i in 0..inner {
                let at = |k: usize| (o * n + k) * inner + i;
                let largest = (0..n).fold(f64::NEG_INFINITY, |m, k| m.max(y[at(k)]));
                (0..n).for_each(|k| y[at(k)] = math::exp(y[at(k)] - largest));
                let sum: f64 = (0..n).map(|k| y[at(k)]).sum();
                (0..n).for_each(|k| y[at(k)] /= sum);
            }
        }
        Ok(vec![scalar_bytes(x.ty.dtype, &y)?])
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::Softmax;
    use crate::reference::testing::*;
    use crate::reference::type_rules::*;
    use crate::types::DType;

    #[test]
    fn shares_are_of_exponentials_and_sum_to_1() {
        let y = run1(Softmax { axis: 0 }, &[&f32s(&[3], &[0.0, 1.0, 2.0])]);
        close(&y, &[0.09003057317038046, 0.24472847105479764, 0.6652409557748218]);
        let x = f32s(&[2, 2], &[0.0, 5.0, 0.0, 5.0]);
        assert_eq!(run1(Softmax { axis: 0 }, &[&x]), [0.5; 4]);
    }

    #[test]
    fn large_numbers_do_not_overflow_and_masked_ones_have_no_share() {
        let x = f32s(&[3], &[1e30, f32::NEG_INFINITY, 1e30]);
        assert_eq!(run1(Softmax { axis: 0 }, &[&x]), [0.5, 0.0, 0.5]);
        let none = run1(Softmax { axis: 0 }, &[&f32s(&[2], &[f32::NEG_INFINITY; 2])]);
        assert!(none.iter().all(|y| y.is_nan()), "{none:?}");
        assert!(run1(Softmax { axis: 1 }, &[&f32s(&[2, 0], &[])]).is_empty());
        assert!(run1(Softmax { axis: 1 }, &[&f32s(&[0, 2], &[])]).is_empty());
        assert_eq!(
            run_f64s(Softmax { axis: 0 }, &[&numbers(DType::BF16, &[3], &[1.0; 3])])[0],
            0.333984375
        );
    }

    #[test]
    fn its_parts_give_its_results() {
        let x = noise(60, 6).iter().map(|x| x * 20.0).collect::<alloc::vec::Vec<_>>();
        for axis in 0..3 {
            decomposes(Softmax { axis }, &[&f32s(&[3, 4, 5], &x)], 3e-7);
            decomposes(Softmax { axis }, &[&halfs(&[3, 4, 5], &x)], 1e-3);
        }
        decomposes(Softmax { axis: 0 }, &[&f32s(&[2], &[f32::NEG_INFINITY; 2])], 0.0);
        decomposes(Softmax { axis: 1 }, &[&f32s(&[2, 0], &[])], 0.0);
    }

    #[test]
    fn the_axis_must_be_there() {
        assert_eq!(gives(Softmax { axis: 1 }, &["2xSEQxbf16"]), ["tensor<2xSEQxbf16>"]);
        assert_eq!(
            refuses(Softmax { axis: 1 }, &["2xf32"]),
            "softmax: x is tensor<2xf32>, it has no axis 1"
        );
        assert!(refuses(Softmax { axis: 0 }, &["2xi32"]).contains("tensor<2xi32>"));
        assert_eq!(text(Softmax { axis: 1 }, &["2x3xf32"]), "softmax {axis = 1}");
    }
}
