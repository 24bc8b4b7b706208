//! Sums, means, extremes and products along axes.

use crate::error::{Error, Result};
use crate::ops::{Reduce, Reduction};
use crate::reference::index::{each_index, filled, sizes, strides};
use crate::reference::view::{int_bytes, scalar_bytes};
use crate::reference::{Run, View, arity};
use crate::types::{DType, Scalar};
use alloc::vec;
use alloc::vec::Vec;

impl Run for Reduce {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [x] = operands else { return Err(arity("reduce")) };
        let dims = sizes(&x.ty.shape)?;
        // Sizes with 1 where an axis goes: the result's elements in the same order.
        let kept: Vec<usize> = dims
            .iter()
            .enumerate()
            .map(|(i, &n)| if self.axes.contains(&i) { 1 } else { n })
            .collect();
        let strides = strides(&kept);
        let n = kept.iter().try_fold(1usize, |n, d| n.checked_mul(*d));
        let n = n.ok_or_else(|| Error::bad_graph("reduce: the result is too large"))?;
        let to = |index: &[usize]| -> usize {
            let own = index.iter().zip(&kept).zip(&strides);
            own.map(|((&i, &n), &stride)| if n == 1 { 0 } else { i * stride }).sum()
        };
        let dtype = x.ty.dtype;
        let mut from = 0;
        if dtype.is_float() {
            let x = x.f64s()?;
            let mut y = filled(n, self.f.start())?;
            each_index(&dims, |index| {
                let y = &mut y[to(index)];
                *y = self.f.step().eval(*y, x[from]);
                from += 1;
            });
            if self.f == Reduction::Mean {
                let count: f64 = self.axes.iter().map(|&axis| dims[axis] as f64).product();
                y.iter_mut().for_each(|y| *y /= count);
            }
            return Ok(vec![scalar_bytes(dtype, &y)?]);
        }
        let x = x.i64s()?;
        let mut y = filled(n, start(self.f, dtype))?;
        each_index(&dims, |index| {
            let y = &mut y[to(index)];
            // Neither a division nor a power: there is always a value.
            *y = self.f.step().eval_int(*y, x[from]).unwrap_or(*y);
            from += 1;
        });
        Ok(vec![int_bytes(dtype, &y)?])
    }
}

/// What a fold of integers begins with.
fn start(f: Reduction, dtype: DType) -> i64 {
    let (least, largest) = match dtype {
        DType::Scalar(Scalar::I32) => (i32::MIN.into(), i32::MAX.into()),
        DType::Scalar(Scalar::I16) => (i16::MIN.into(), i16::MAX.into()),
        DType::Scalar(Scalar::I8) => (i8::MIN.into(), i8::MAX.into()),
        DType::Scalar(Scalar::U32) => (0, u32::MAX.into()),
        DType::Scalar(Scalar::U8) => (0, u8::MAX.into()),
        _ => (i64::MIN, i64::MAX),
    };
    match f {
        Reduction::Sum | Reduction::Mean => 0,
        Reduction::Max => least,
        Reduction::Min => largest,
        Reduction::Prod => 1,
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::{Reduce, Reduction};
    use crate::reference::testing::*;
    use crate::reference::type_rules::*;
    use crate::types::{DType, Scalar};
    use alloc::vec;

    fn reduce(f: Reduction, axes: &[usize], keep: bool) -> Reduce {
        Reduce { f, axes: axes.to_vec(), keep }
    }

    #[test]
    fn every_function_over_one_axis_some_and_all() {
        let x = f32s(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, -6.0]);
        let y = |f, axes: &[usize]| run1(reduce(f, axes, false), &[&x]);
        assert_eq!(y(Reduction::Sum, &[1]), [6.0, 3.0]);
        assert_eq!(y(Reduction::Sum, &[0]), [5.0, 7.0, -3.0]);
        assert_eq!(y(Reduction::Mean, &[1]), [2.0, 1.0]);
        assert_eq!(y(Reduction::Max, &[0, 1]), [5.0]);
        assert_eq!(y(Reduction::Min, &[0, 1]), [-6.0]);
        assert_eq!(y(Reduction::Prod, &[1]), [6.0, -120.0]);
        assert_eq!(y(Reduction::Sum, &[]), [1.0, 2.0, 3.0, 4.0, 5.0, -6.0]);
    }

    #[test]
    fn a_reduction_of_nothing_is_its_neutral_element() {
        let x = f32s(&[2, 0], &[]);
        let y = |f| run1(reduce(f, &[1], false), &[&x]);
        assert_eq!(y(Reduction::Sum), [0.0, 0.0]);
        assert_eq!(y(Reduction::Prod), [1.0, 1.0]);
        assert_eq!(y(Reduction::Max), [f32::NEG_INFINITY; 2]);
        assert_eq!(y(Reduction::Min), [f32::INFINITY; 2]);
        assert!(y(Reduction::Mean)[0].is_nan());
        let ends: [(DType, i64, i64); 2] =
            [(DType::I32, i32::MIN.into(), i32::MAX.into()), (DType::U32, 0, u32::MAX.into())];
        for (dtype, least, largest) in ends {
            let x = integers(dtype, &[0], &[]);
            assert_eq!(run_ints(reduce(Reduction::Max, &[0], false), &[&x]), [least]);
            assert_eq!(run_ints(reduce(Reduction::Min, &[0], false), &[&x]), [largest]);
        }
        assert!(run1(reduce(Reduction::Sum, &[0], false), &[&x]).is_empty());
    }

    #[test]
    fn a_nan_is_in_sums_and_loses_extremes() {
        let x = f32s(&[3], &[f32::NAN, 1.0, -2.0]);
        assert!(run1(reduce(Reduction::Sum, &[0], false), &[&x])[0].is_nan());
        assert_eq!(run1(reduce(Reduction::Max, &[0], false), &[&x]), [1.0]);
        assert_eq!(run1(reduce(Reduction::Min, &[0], false), &[&x]), [-2.0]);
    }

    #[test]
    fn sums_are_wide_and_round_once() {
        let mut x = vec![2f64.powi(-9); 513];
        x[0] = 1.0;
        let y =
            |dtype| run_f64s(reduce(Reduction::Sum, &[0], false), &[&numbers(dtype, &[513], &x)]);
        assert_eq!(y(DType::BF16), [2.0]);
        assert_eq!(y(DType::F16), [2.0]);
        let mean = reduce(Reduction::Mean, &[0], false);
        assert_eq!(run_f64s(mean, &[&numbers(DType::F16, &[2], &[65504.0, 65504.0])]), [65504.0]);
    }

    #[test]
    fn integers_are_exact_and_wrap() {
        let sum = |dtype, x: &[i64]| {
            run_ints(reduce(Reduction::Sum, &[0], false), &[&integers(dtype, &[x.len() as u64], x)])
                [0]
        };
        assert_eq!(sum(DType::I64, &[1 << 53, 1]), (1 << 53) + 1);
        assert_eq!(sum(DType::I32, &[i32::MAX.into(), 1]), i64::from(i32::MIN));
        assert_eq!(sum(DType::Scalar(Scalar::U8), &[200, 100]), 44);
        let x = integers(DType::I64, &[2], &[-(1 << 53) - 1, -(1 << 53)]);
        assert_eq!(run_ints(reduce(Reduction::Min, &[0], false), &[&x]), [-(1 << 53) - 1]);
    }

    #[test]
    fn a_mean_is_a_sum_and_a_product() {
        let x = noise(60, 5);
        for axes in [&[0usize][..], &[1, 2], &[2]] {
            decomposes(reduce(Reduction::Mean, axes, true), &[&f32s(&[3, 4, 5], &x)], 3e-7);
            decomposes(reduce(Reduction::Mean, axes, false), &[&halfs(&[3, 4, 5], &x)], 1e-3);
        }
        decomposes(reduce(Reduction::Mean, &[0], false), &[&f32s(&[0], &[])], 0.0);
    }

    #[test]
    fn axes_go_or_stay_and_are_ascending() {
        let sum = |axes: &[usize], keep| reduce(Reduction::Sum, axes, keep);
        assert_eq!(gives(sum(&[0, 2], false), &["2xSEQx4xf16"]), ["tensor<SEQxf16>"]);
        assert_eq!(gives(sum(&[0, 2], true), &["2xSEQx4xi32"]), ["tensor<1xSEQx1xi32>"]);
        assert_eq!(
            refuses(sum(&[2], false), &["2x3xf32"]),
            "reduce: x is tensor<2x3xf32>, it has no axis 2"
        );
        assert_eq!(
            refuses(sum(&[1, 0], false), &["2x3xf32"]),
            "reduce: axes are [1, 0], expected ascending ones"
        );
        assert!(refuses(sum(&[0, 0], false), &["2x3xf32"]).contains("expected ascending"));
        assert_eq!(
            refuses(reduce(Reduction::Mean, &[0], false), &["2xi32"]),
            "reduce: x is tensor<2xi32>, a mean is of floats"
        );
        assert!(
            refuses(sum(&[0], false), &["2xbool"])
                .contains("expected a tensor of floats or integers")
        );
        for (f, name) in Reduction::ALL {
            assert_eq!(
                text(reduce(f, &[0], false), &["2xf32"]),
                alloc::format!("reduce {{f = {name}, axes = [0]}}")
            );
        }
        assert_eq!(text(sum(&[0], true), &["2xf32"]), "reduce {f = sum, axes = [0], keep = true}");
    }
}
