//! Running sums along an axis.

use crate::error::Result;
use crate::ops::CumSum;
use crate::reference::index::{around, sizes};
use crate::reference::view::{int_bytes, scalar_bytes};
use crate::reference::{Run, View, arity};
use alloc::vec;
use alloc::vec::Vec;

impl Run for CumSum {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [x] = operands else { return Err(arity("cumsum")) };
        let around = around(&sizes(&x.ty.shape)?, self.axis)?;
        if x.ty.dtype.is_float() {
            let mut y = x.f64s()?;
            scan(&mut y, around, self.exclusive, 0.0, |a, b| a + b);
            return Ok(vec![scalar_bytes(x.ty.dtype, &y)?]);
        }
        let mut y = x.i64s()?;
        scan(&mut y, around, self.exclusive, 0, i64::wrapping_add);
        Ok(vec![int_bytes(x.ty.dtype, &y)?])
    }
}

fn scan<T: Copy>(
    y: &mut [T],
    (outer, n, inner): (usize, usize, usize),
    exclusive: bool,
    zero: T,
    add: impl Fn(T, T) -> T,
) {
    if y.is_empty() {
        return;
    }
    for o in 0..outer {
        for i in 0..inner {
            let mut sum = zero;
            for k in 0..n {
                let y = &mut y[(o * n + k) * inner + i];
                let next = add(sum, *y);
                *y = if exclusive { sum } else { next };
                sum = next;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::CumSum;
    use crate::reference::testing::*;
    use crate::reference::type_rules::*;
    use crate::types::DType;

    #[test]
    fn sums_run_along_the_axis_with_or_without_the_element() {
        let x = f32s(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let y = |axis, exclusive| run1(CumSum { axis, exclusive }, &[&x]);
        assert_eq!(y(1, false), [1.0, 3.0, 6.0, 4.0, 9.0, 15.0]);
        assert_eq!(y(1, true), [0.0, 1.0, 3.0, 0.0, 4.0, 9.0]);
        assert_eq!(y(0, false), [1.0, 2.0, 3.0, 5.0, 7.0, 9.0]);
    }

    #[test]
    fn halves_are_summed_wide_and_integers_wrap() {
        let x = numbers(DType::F16, &[3], &[2048.0, 1.0, 1.0]);
        assert_eq!(run_f64s(CumSum { axis: 0, exclusive: false }, &[&x]), [2048.0, 2048.0, 2050.0]);
        let x = integers(DType::I64, &[3], &[1 << 53, 1, i64::MAX - (1 << 53)]);
        let y = run_ints(CumSum { axis: 0, exclusive: false }, &[&x]);
        assert_eq!(y, [1 << 53, (1 << 53) + 1, i64::MIN]);
        let x = integers(DType::U32, &[2], &[0xffff_ffff, 2]);
        assert_eq!(run_ints(CumSum { axis: 0, exclusive: false }, &[&x]), [0xffff_ffff, 1]);
        assert!(run1(CumSum { axis: 0, exclusive: true }, &[&f32s(&[0, 2], &[])]).is_empty());
    }

    #[test]
    fn its_parts_give_its_results_infinities_included() {
        let x = noise(60, 7);
        for axis in 0..3 {
            for exclusive in [false, true] {
                let op = CumSum { axis, exclusive };
                decomposes(op.clone(), &[&f32s(&[3, 4, 5], &x)], 3e-7);
                decomposes(op.clone(), &[&halfs(&[3, 4, 5], &x)], 1e-3);
            }
        }
        let op = CumSum { axis: 0, exclusive: true };
        decomposes(op.clone(), &[&f32s(&[3], &[1.0, f32::INFINITY, 2.0])], 0.0);
        decomposes(op, &[&integers(DType::I32, &[3], &[5, -7, 9])], 0.0);
    }

    #[test]
    fn the_axis_must_be_there() {
        let op = |axis| CumSum { axis, exclusive: false };
        assert_eq!(gives(op(0), &["SEQxi64"]), ["tensor<SEQxi64>"]);
        assert_eq!(refuses(op(1), &["2xf32"]), "cumsum: x is tensor<2xf32>, it has no axis 1");
        assert!(refuses(op(0), &["2xbool"]).contains("tensor<2xbool>"));
        assert_eq!(text(op(0), &["2xf32"]), "cumsum {axis = 0}");
        let op = CumSum { axis: 0, exclusive: true };
        assert_eq!(text(op, &["2xf32"]), "cumsum {axis = 0, exclusive = true}");
    }
}
