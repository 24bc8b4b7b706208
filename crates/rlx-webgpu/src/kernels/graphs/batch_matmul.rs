//! `batch_matmul`: matrix products, batch by batch.

use super::product::{self, Axes, Product};
use crate::kernels::elements::indices::{dims, repeated, row_major};
use crate::kernels::emit::Emit;
use crate::kernels::takes::{self, Taken};
use crate::kernels::{Context, Launch, mismatch};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::Op;
use rlx_core::target::Target;
use rlx_core::types::Type;

/// Tensors of f32, f16 or bf16.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["transpose_b"])?;
    let columns = match (op, operands) {
        (Op::BatchMatMul(op), [_, b]) => b.shape.0.iter().rev().nth(usize::from(op.transpose_b)),
        _ => None,
    };
    product::takes(operands, columns)
}

pub(super) fn batch_matmul(
    step: &Step,
    _: &Context<'_>,
    emit: &mut Emit<'_>,
) -> Result<Option<Launch>> {
    let Op::BatchMatMul(op) = &step.op else { return Err(mismatch(step)) };
    let [a, b] = step.operands.as_slice() else { return Err(mismatch(step)) };
    let y = &step.results[0];
    let (a_dims, b_dims, y_dims) = (dims(&a.ty)?, dims(&b.ty)?, dims(&y.ty)?);
    let (a_steps, b_steps) = (row_major(&a_dims), row_major(&b_dims));
    let batch_dims = &y_dims[..y_dims.len() - 2];
    let batch = |own: &[u64], steps: &[i64]| {
        let own = &own[..own.len() - 2];
        // A matrix of an operand is as many elements as its last batch axis steps over.
        let one = if own.is_empty() { 0 } else { steps[own.len() - 1] };
        let strides = repeated(own, batch_dims).into_iter().map(|s| s * one).collect();
        Axes { dims: batch_dims.to_vec(), strides }
    };
    let (ra, rb) = (a_dims.len(), b_dims.len());
    let (bk, bn) = if op.transpose_b { (rb - 1, rb - 2) } else { (rb - 2, rb - 1) };
    Product {
        entry: "batch_matmul",
        a,
        b,
        y,
        batch: [batch(&a_dims, &a_steps), batch(&b_dims, &b_steps)],
        rows: Axes::of(&[ra - 2], &a_dims, &a_steps),
        columns: Axes::of(&[bn], &b_dims, &b_steps),
        k: [Axes::of(&[ra - 1], &a_dims, &a_steps), Axes::of(&[bk], &b_dims, &b_steps)],
    }
    .launch(emit)
}
