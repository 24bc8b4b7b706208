//! Matrix products of two tensors, batch by batch.

use crate::error::Result;
use crate::ops::BatchMatMul;
use crate::reference::view::{dot, scalar_bytes};
use crate::reference::{Run, View, arity};
use alloc::vec;
use alloc::vec::Vec;

impl Run for BatchMatMul {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [a, b] = operands else { return Err(arity("batch_matmul")) };
        let (a_sizes, b_sizes) = (a.sizes()?, b.sizes()?);
        let ([a_batch @ .., m, k], [b_batch @ .., b0, b1]) =
            (a_sizes.as_slice(), b_sizes.as_slice())
        else {
            return Err(arity("batch_matmul"));
        };
        let (m, k) = (*m, *k);
        let n = if self.transpose_b { *b0 } else { *b1 };
        let (x, w) = (a.f64s()?, b.f64s()?);
        let mut y = Vec::new();
        let mut column = vec![0.0; k];
        for (at_a, at_b) in pairs(a_batch, b_batch) {
            let first = y.len();
            y.resize(first + m * n, 0.0);
            let (x, w) = (&x[at_a * m * k..][..m * k], &w[at_b * k * n..][..k * n]);
            for j in 0..n {
                for (i, slot) in column.iter_mut().enumerate() {
                    *slot = if self.transpose_b { w[j * k + i] } else { w[i * n + j] };
                }
                for i in 0..m {
                    y[first + i * n + j] = dot(&x[i * k..][..k], &column);
                }
            }
        }
        Ok(vec![scalar_bytes(a.ty.dtype, &y)?])
    }
}

/// Which matrix of each operand every matrix of the result is of, in order: the batch axes aligned
/// at the last, and those of size 1 repeated.
fn pairs(a: &[usize], b: &[usize]) -> Vec<(usize, usize)> {
    let rank = a.len().max(b.len());
    let size = |dims: &[usize], i: usize| {
        (i + dims.len()).checked_sub(rank).and_then(|j| dims.get(j)).copied().unwrap_or(1)
    };
    let mut out = vec![(0, 0)];
    for i in 0..rank {
        let (n, m) = (size(a, i), size(b, i));
        let most = if n == 1 { m } else { n };
        let step = |at: usize, size: usize, j: usize| at * size + if size == 1 { 0 } else { j };
        let grown =
            out.iter().flat_map(|&(x, y)| (0..most).map(move |j| (step(x, n, j), step(y, m, j))));
        out = grown.collect();
    }
    out
}

#[cfg(test)]
mod tests {
    use crate::ops::BatchMatMul;
    use crate::reference::testing::*;
    use alloc::string::ToString;

    #[test]
    fn rows_meet_columns_of_b_or_its_rows() {
        let a = f32s(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let b = f32s(&[3, 2], &[1.0, 0.0, 0.0, 1.0, 10.0, 100.0]);
        let y = run1(BatchMatMul::default(), &[&a, &b]);
        assert_eq!(y, [31.0, 302.0, 64.0, 605.0]);
        let b = f32s(&[2, 3], &[1.0, 0.0, 10.0, 0.0, 1.0, 100.0]);
        assert_eq!(run1(BatchMatMul { transpose_b: true }, &[&a, &b]), y);
    }

    #[test]
    fn batch_axes_broadcast_from_the_last() {
        // a [2, 1, 1, 2] and b [3, 2, 1] give [2, 3, 1, 1].
        let a = f32s(&[2, 1, 1, 2], &[1.0, 2.0, 3.0, 4.0]);
        let b = f32s(&[3, 2, 1], &[1.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
        let y = &run(BatchMatMul::default(), &[&a, &b])[0];
        assert_eq!(y.ty.to_string(), "tensor<2x3x1x1xf32>");
        assert_eq!(y.f32s(), [1.0, 2.0, 3.0, 3.0, 4.0, 7.0]);
    }

    #[test]
    fn half_floats_accumulate_wide_and_round_once() {
        // 2048 + 1 is no f16: adding ones in f16 would stay at 2048.
        let ones = [1.0f32; 4];
        let a = halfs(&[1, 5], &[2048.0, 1.0, 1.0, 1.0, 1.0]);
        let b = halfs(&[5, 1], &[&[1.0], ones.as_slice()].concat());
        assert_eq!(run1(BatchMatMul::default(), &[&a, &b]), [2052.0]);
    }

    #[test]
    fn matrices_that_do_not_fit_are_named_with_both_shapes() {
        let fails = |a: &[u64], b: &[u64], transpose_b| {
            let value = |d: &[u64]| f32s(d, &alloc::vec![0.0; d.iter().product::<u64>() as usize]);
            fails(BatchMatMul { transpose_b }, &[&value(a), &value(b)]).what
        };
        assert_eq!(
            fails(&[2, 3], &[2, 3], false),
            "batch_matmul: a is tensor<2x3xf32>, b is tensor<2x3xf32>; expected [.., M, K] and \
             [.., K, N] with batch axes that broadcast"
        );
        assert!(fails(&[2, 3], &[3, 2], true).contains("[.., N, K]"));
        assert!(fails(&[2, 2, 3], &[3, 3, 2], false).contains("tensor<3x3x2xf32>"));
        assert!(fails(&[3], &[3, 2], false).contains("at least two axes"));
    }
}
