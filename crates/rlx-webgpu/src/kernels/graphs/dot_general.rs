//! `dot_general`: products over any axes.

use super::product::{self, Axes, Product};
use crate::kernels::elements::indices::{dims, row_major};
use crate::kernels::emit::Emit;
use crate::kernels::takes::{self, Taken};
use crate::kernels::{Context, Launch, mismatch};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::{DotGeneral, Op};
use rlx_core::target::Target;
use rlx_core::types::Type;

/// Tensors of f32, f16 or bf16.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["lhs_batch", "rhs_batch", "lhs_contract", "rhs_contract"])?;
    let (Op::DotGeneral(op), [_, b]) = (op, operands) else {
        return Err("it takes two operands".into());
    };
    let free = DotGeneral::free(&op.rhs_batch, &op.rhs_contract, b.shape.rank());
    // An even last axis makes an even number of columns.
    product::takes(operands, free.last().and_then(|&axis| b.shape.0.get(axis)))
}

pub(super) fn dot_general(
    step: &Step,
    _: &Context<'_>,
    emit: &mut Emit<'_>,
) -> Result<Option<Launch>> {
    let Op::DotGeneral(op) = &step.op else { return Err(mismatch(step)) };
    let [a, b] = step.operands.as_slice() else { return Err(mismatch(step)) };
    let (a_dims, b_dims) = (dims(&a.ty)?, dims(&b.ty)?);
    let (a_steps, b_steps) = (row_major(&a_dims), row_major(&b_dims));
    let of_a = |axes: &[usize]| Axes::of(axes, &a_dims, &a_steps);
    let of_b = |axes: &[usize]| Axes::of(axes, &b_dims, &b_steps);
    Product {
        entry: "dot_general",
        a,
        b,
        y: &step.results[0],
        batch: [of_a(&op.lhs_batch), of_b(&op.rhs_batch)],
        rows: of_a(&DotGeneral::free(&op.lhs_batch, &op.lhs_contract, a_dims.len())),
        columns: of_b(&DotGeneral::free(&op.rhs_batch, &op.rhs_contract, b_dims.len())),
        k: [of_a(&op.lhs_contract), of_b(&op.rhs_contract)],
    }
    .launch(emit)
}
