//! `transpose`: axes in another order.

use crate::kernels::elements::copy;
use crate::kernels::elements::indices::{dims, row_major};
use crate::kernels::emit::Emit;
use crate::kernels::takes::{self, Taken};
use crate::kernels::{Context, Launch, mismatch};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::Op;
use rlx_core::target::Target;
use rlx_core::types::Type;

/// A tensor of any scalar type.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["perm"])?;
    copy::takes(operands, operands.first().map_or(0, |x| x.shape.rank()))
}

pub(super) fn transpose(
    step: &Step,
    _: &Context<'_>,
    emit: &mut Emit<'_>,
) -> Result<Option<Launch>> {
    let Op::Transpose(op) = &step.op else { return Err(mismatch(step)) };
    let (x, y) = (&step.operands[0], &step.results[0]);
    let own = row_major(&dims(&x.ty)?);
    let strides = op.perm.iter().map(|&axis| own[axis]).collect();
    copy::copy("transpose", "y[.., j, .., i, ..] = x[.., i, .., j, ..]", (x, y), 0, strides, emit)
}
