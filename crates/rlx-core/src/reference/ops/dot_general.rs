//! Products over any axes.

use crate::error::Result;
use crate::ops::DotGeneral;
use crate::reference::view::scalar_bytes;
use crate::reference::{Run, View, arity};
use alloc::vec;
use alloc::vec::Vec;

impl Run for DotGeneral {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [a, b] = operands else { return Err(arity("dot_general")) };
        let (a_sizes, b_sizes) = (a.sizes()?, b.sizes()?);
        let free = (
            DotGeneral::free(&self.lhs_batch, &self.lhs_contract, a_sizes.len()),
            DotGeneral::free(&self.rhs_batch, &self.rhs_contract, b_sizes.len()),
        );
        let (x, w) = (a.f64s()?, b.f64s()?);
        // Offsets of every index of a group of axes, in order of the indices.
        let (a_batch, b_batch) =
            (offsets(&a_sizes, &self.lhs_batch), offsets(&b_sizes, &self.rhs_batch));
        let (a_free, b_free) = (offsets(&a_sizes, &free.0), offsets(&b_sizes, &free.1));
        let a_sum = offsets(&a_sizes, &self.lhs_contract);
        let b_sum = offsets(&b_sizes, &self.rhs_contract);
        let mut y = Vec::with_capacity(a_batch.len() * a_free.len() * b_free.len());
        for (a_at, b_at) in a_batch.iter().zip(&b_batch) {
            for i in &a_free {
                for j in &b_free {
                    let terms = a_sum.iter().zip(&b_sum);
                    y.push(terms.map(|(p, q)| x[a_at + i + p] * w[b_at + j + q]).sum());
                }
            }
        }
        Ok(vec![scalar_bytes(a.ty.dtype, &y)?])
    }
}

/// Offset of each index of these axes, the last one fastest.
fn offsets(sizes: &[usize], axes: &[usize]) -> Vec<usize> {
    let mut out = vec![0];
    for &axis in axes {
        let stride: usize = sizes[axis + 1..].iter().product();
        out = out.iter().flat_map(|at| (0..sizes[axis]).map(move |i| at + i * stride)).collect();
    }
    out
}

#[cfg(test)]
mod tests {
    use crate::ops::{BatchMatMul, DotGeneral};
    use crate::reference::testing::*;
    use alloc::string::ToString;
    use alloc::vec;

    #[test]
    fn a_matrix_product_is_one_contraction() {
        let (a, b) = (f32s(&[2, 5], &noise(10, 1)), f32s(&[5, 3], &noise(15, 2)));
        let op = DotGeneral { lhs_contract: vec![1], rhs_contract: vec![0], ..Default::default() };
        assert_eq!(run(op, &[&a, &b]), run(BatchMatMul::default(), &[&a, &b]));
    }

    #[test]
    fn batch_axes_stand_first_then_free_axes_of_a_then_of_b() {
        // y[b, i, j] = sum over p, q of a[p, b, i, q] w[j, q, b, p]
        let (a, w) = (noise(2 * 3 * 4 * 5, 1), noise(6 * 5 * 3 * 2, 2));
        let op = DotGeneral {
            lhs_batch: vec![1],
            rhs_batch: vec![2],
            lhs_contract: vec![0, 3],
            rhs_contract: vec![3, 1],
        };
        let y = &run(op, &[&f32s(&[2, 3, 4, 5], &a), &f32s(&[6, 5, 3, 2], &w)])[0];
        assert_eq!(y.ty.to_string(), "tensor<3x4x6xf32>");
        let mut expected = vec![];
        for b in 0..3 {
            for i in 0..4 {
                for j in 0..6 {
                    let mut sum = 0.0f64;
                    for p in 0..2 {
                        for q in 0..5 {
                            let x = f64::from(a[((p * 3 + b) * 4 + i) * 5 + q]);
                            sum += x * f64::from(w[((j * 5 + q) * 3 + b) * 2 + p]);
                        }
                    }
                    expected.push(sum);
                }
            }
        }
        close(&y.f32s(), &expected);
    }

    #[test]
    fn no_contraction_is_an_outer_product() {
        let y = run1(DotGeneral::default(), &[&f32s(&[2], &[2.0, 3.0]), &f32s(&[2], &[5.0, 7.0])]);
        assert_eq!(y, [10.0, 14.0, 15.0, 21.0]);
    }

    #[test]
    fn axes_of_two_sizes_and_axes_named_twice_are_refused() {
        let (a, b) = (f32s(&[2, 3], &[0.0; 6]), f32s(&[2, 3], &[0.0; 6]));
        let op = DotGeneral { lhs_contract: vec![1], rhs_contract: vec![0], ..Default::default() };
        assert_eq!(
            fails(op, &[&a, &b]).what,
            "dot_general: a is tensor<2x3xf32>, b is tensor<2x3xf32>; expected axes [1] of a to \
             have the sizes of axes [0] of b"
        );
        let op = DotGeneral {
            lhs_batch: vec![1],
            rhs_batch: vec![1],
            lhs_contract: vec![1],
            rhs_contract: vec![0],
        };
        assert!(fails(op, &[&a, &b]).what.contains("expected each once, and below 2"));
    }
}
