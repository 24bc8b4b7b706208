//! dot_general y[batch, i, j] = sum_k a[batch, i, k] b[batch, j, k], each index of any axes
//! shapes      a, b f32|f16|bf16, any; y the batch axes, a's free axes, b's free axes
//! bytes       a once for each 16 columns of y, from cache; b once for each share of a batch
//! shares      rows of y
//! numerics    f32 sums in order of k; for one or two rows 16 of them where b's rows go along k

use super::claim;
use super::convert::FLOATS;
use super::product::{Places, Product, Side, listed};
use super::{Planned, sizes};
use rlx_core::Result;
use rlx_core::ir::lir::{Slice, Step};
use rlx_core::ops::DotGeneral;
use rlx_core::target::Target;
use rlx_core::types::Type;

pub(super) fn takes(op: &DotGeneral, operands: &[&Type], _: &Target) -> Result<(), String> {
    let DotGeneral { lhs_batch: _, rhs_batch: _, lhs_contract: _, rhs_contract: _ } = op;
    claim::all_of(operands, FLOATS)?;
    let [a, b] = operands else { return Err("its kernel takes two operands".into()) };
    let sides = [(a, &op.lhs_batch, &op.lhs_contract), (b, &op.rhs_batch, &op.rhs_contract)];
    for (ty, batch, contract) in sides {
        let free = DotGeneral::free(batch, contract, ty.shape.rank());
        for axes in [batch, contract, &free] {
            listed(axes.iter().filter_map(|&i| ty.shape.0.get(i)))?;
        }
    }
    Ok(())
}

/// Sizes and strides of an operand's axes: batch, free and contracted ones.
fn axes(slice: &Slice, batch: &[usize], contract: &[usize]) -> Result<[Vec<(usize, usize)>; 3]> {
    let dims = sizes(slice)?;
    let strides: Vec<usize> = (0..dims.len()).map(|i| dims[i + 1..].iter().product()).collect();
    let free = DotGeneral::free(batch, contract, dims.len());
    let of = |axes: &[usize]| axes.iter().map(|&i| (dims[i], strides[i])).collect();
    Ok([of(batch), of(&free), of(contract)])
}

pub(super) fn plan(op: &DotGeneral, step: &Step) -> Result<Planned> {
    let a = axes(&step.operands[0], &op.lhs_batch, &op.lhs_contract)?;
    let b = axes(&step.operands[1], &op.rhs_batch, &op.rhs_contract)?;
    let size = |axes: &[(usize, usize)]| axes.iter().map(|a| a.0).product::<usize>();
    let starts = |axes: &[(usize, usize)]| {
        let mut out = vec![0];
        for &(n, stride) in axes {
            out = out.iter().flat_map(|at| (0..n).map(move |i| at + i * stride)).collect();
        }
        out
    };
    let batches = starts(&a[0]).into_iter().zip(starts(&b[0])).map(|(a, b)| [a, b]).collect();
    let (m, n, k) = (size(&a[1]), size(&b[1]), size(&a[2]));
    let side = |[_, free, contract]: &[Vec<(usize, usize)>; 3]| Side {
        lines: Places::new(free),
        k: Places::new(contract),
    };
    let dtype = step.results[0].ty.dtype;
    Ok(Product { dtype, m, n, k, batches, a: side(&a), b: side(&b) }.planned())
}
