//! batch_matmul y[.., i, j] = sum_k a[.., i, k] b[.., k, j]; b's last two axes may be the other way round
//! shapes      a f32|f16|bf16[.., m, k]   b [.., k, n] or [.., n, k]   y [.., m, n]; batches broadcast [NumPy]
//! bytes       a once for each 16 columns of b, from cache; b once for each share of a batch
//! shares      rows of y
//! numerics    f32 sums in order of k; for one or two rows 16 of them where b's rows go along k

use super::claim;
use super::convert::FLOATS;
use super::product::{Places, Product, Side, listed};
use super::{Planned, sizes};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::{BatchMatMul, Operator};
use rlx_core::target::Target;
use rlx_core::types::Type;

pub(super) fn takes(op: &BatchMatMul, operands: &[&Type], _: &Target) -> Result<(), String> {
    let BatchMatMul { transpose_b: _ } = op;
    claim::all_of(operands, FLOATS)?;
    let result = op.infer(operands).map_err(|e| e.what)?;
    result.iter().try_for_each(|y| listed(y.shape.0.iter().rev().skip(2)))
}

pub(super) fn plan(op: &BatchMatMul, step: &Step) -> Result<Planned> {
    let [a, b, y] = [&step.operands[0], &step.operands[1], &step.results[0]].map(sizes);
    let (a, b, y) = (a?, b?, y?);
    let last = |dims: &[usize], i: usize| dims[dims.len() - i];
    let (m, n, k) = (last(&y, 2), last(&y, 1), last(&a, 1));
    let batch = &y[..y.len() - 2];
    let (of_a, of_b) =
        (starts(&a[..a.len() - 2], batch, m * k), starts(&b[..b.len() - 2], batch, k * n));
    let (lines, along) = if op.transpose_b { (k, 1) } else { (1, n) };
    let product = Product {
        dtype: step.results[0].ty.dtype,
        m,
        n,
        k,
        batches: of_a.into_iter().zip(of_b).map(|(a, b)| [a, b]).collect(),
        a: Side { lines: Places::Step(k), k: Places::Step(1) },
        b: Side { lines: Places::Step(lines), k: Places::Step(along) },
    };
    Ok(product.planned())
}

/// Where each batch of the result begins in an operand whose batch axes are `own`, of matrices of `size`.
fn starts(own: &[usize], result: &[usize], size: usize) -> Vec<usize> {
    let mut stride = size;
    let mut axes: Vec<(usize, usize)> = Vec::with_capacity(result.len());
    for (i, &n) in result.iter().enumerate().rev() {
        let have = (i + own.len()).checked_sub(result.len()).map_or(1, |k| own[k]);
        axes.push((n, if have == 1 { 0 } else { stride }));
        stride *= have;
    }
    let mut out = vec![0];
    for (n, stride) in axes.into_iter().rev() {
        out = out.iter().flat_map(|at| (0..n).map(move |i| at + i * stride)).collect();
    }
    out
}
