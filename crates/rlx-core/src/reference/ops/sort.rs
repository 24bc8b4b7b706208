//! Elements in order.

use crate::error::Result;
use crate::ops::Sort;
use crate::reference::index::{around, filled, sizes};
use crate::reference::view::word_bytes;
use crate::reference::{Run, View, arity};
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Ordering;

impl Run for Sort {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [x] = operands else { return Err(arity("sort")) };
        let (outer, n, inner) = around(&sizes(&x.ty.shape)?, self.axis)?;
        let orders = orders(x, (outer, n, inner), self.descending)?;
        let size = x.ty.dtype.block_bytes();
        let (mut values, mut indices) =
            (filled(x.bytes.len(), 0u8)?, filled(x.bytes.len() / size, 0)?);
        for (run, order) in orders.iter().enumerate() {
            let at = |k: usize| (run / inner * n + k) * inner + run % inner;
            for (to, &from) in order.iter().enumerate() {
                values[at(to) * size..][..size]
                    .copy_from_slice(&x.bytes[at(from) * size..][..size]);
                indices[at(to)] = from as u32;
            }
        }
        Ok(vec![values, word_bytes(&indices)])
    }
}

/// For every place around the axis the indices along it, in order of their elements.
pub(crate) fn orders(
    x: &View<'_>,
    (outer, n, inner): (usize, usize, usize),
    descending: bool,
) -> Result<Vec<Vec<usize>>> {
    if outer == 0 || n == 0 || inner == 0 {
        return Ok(Vec::new());
    }
    let sort = |compare: &dyn Fn(usize, usize) -> Ordering| {
        let mut orders = Vec::new();
        for o in 0..outer {
            for i in 0..inner {
                let at = |k: usize| (o * n + k) * inner + i;
                let mut order: Vec<usize> = (0..n).collect();
                order.sort_by(|&a, &b| {
                    let order = compare(at(a), at(b));
                    if descending { order.reverse() } else { order }
                });
                orders.push(order);
            }
        }
        orders
    };
    if x.ty.dtype.is_float() {
        let x = x.f64s()?;
        let by_nan = |a: f64, b: f64| a.is_nan().cmp(&b.is_nan());
        return Ok(sort(&|a, b| x[a].partial_cmp(&x[b]).unwrap_or_else(|| by_nan(x[a], x[b]))));
    }
    let x = x.i64s()?;
    Ok(sort(&|a, b| x[a].cmp(&x[b])))
}

#[cfg(test)]
mod tests {
    use crate::ops::Sort;
    use crate::reference::testing::*;
    use crate::reference::type_rules::*;
    use crate::types::DType;
    use alloc::vec::Vec;

    fn sort(descending: bool, x: &Value) -> (Vec<f64>, Vec<u32>) {
        let y = run(Sort { axis: 0, descending }, &[x]);
        (y[0].f64s(), y[1].u32s())
    }

    #[test]
    fn equal_elements_keep_their_order_both_ways() {
        let x = f32s(&[5], &[2.0, 1.0, 2.0, 3.0, 1.0]);
        assert_eq!(
            sort(false, &x),
            (alloc::vec![1.0, 1.0, 2.0, 2.0, 3.0], alloc::vec![1, 4, 0, 2, 3])
        );
        assert_eq!(
            sort(true, &x),
            (alloc::vec![3.0, 2.0, 2.0, 1.0, 1.0], alloc::vec![3, 0, 2, 1, 4])
        );
        let zeros = f32s(&[3], &[0.0, -0.0, 0.0]);
        assert_eq!(sort(false, &zeros).1, [0, 1, 2]);
        assert!(sort(false, &zeros).0[1].is_sign_negative(), "values are the elements themselves");
    }

    #[test]
    fn a_nan_is_larger_than_all_numbers() {
        let x = f32s(&[4], &[f32::NAN, 1.0, f32::INFINITY, f32::NAN]);
        assert_eq!(sort(false, &x).1, [1, 2, 0, 3]);
        assert_eq!(sort(true, &x).1, [0, 3, 2, 1]);
    }

    #[test]
    fn any_axis_any_number_and_none() {
        let x = f32s(&[2, 3], &[3.0, 1.0, 2.0, 0.0, 5.0, 2.0]);
        let y = run(Sort { axis: 1, descending: false }, &[&x]);
        assert_eq!(y[0].f32s(), [1.0, 2.0, 3.0, 0.0, 2.0, 5.0]);
        assert_eq!(y[1].u32s(), [1, 2, 0, 0, 2, 1]);
        let y = run(Sort { axis: 0, descending: true }, &[&x]);
        assert_eq!(y[0].f32s(), [3.0, 5.0, 2.0, 0.0, 1.0, 2.0]);
        assert_eq!(y[1].u32s(), [0, 1, 0, 1, 0, 1]);
        let big = integers(DType::I64, &[2], &[(1 << 53) + 1, 1 << 53]);
        assert_eq!(sort(false, &big).1, [1, 0]);
        assert!(sort(false, &f32s(&[0, 2], &[])).1.is_empty());
        let op = Sort { axis: 0, descending: false };
        assert_eq!(gives(op.clone(), &["SEQx2xf16"]), ["tensor<SEQx2xf16>", "tensor<SEQx2xu32>"]);
        assert_eq!(refuses(op.clone(), &["f32"]), "sort: x is tensor<f32>, it has no axis 0");
        assert!(refuses(op.clone(), &["2xbool"]).contains("tensor<2xbool>"));
        assert_eq!(text(op, &["2xf32"]), "sort {axis = 0}");
        let down = Sort { axis: 0, descending: true };
        assert_eq!(text(down, &["2xf32"]), "sort {axis = 0, descending = true}");
    }
}
