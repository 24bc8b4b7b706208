//! `reverse`: axes from their ends.

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
    takes::knows(op, &["axes"])?;
    copy::takes(operands, operands.first().map_or(0, |x| x.shape.rank()))
}

pub(super) fn reverse(step: &Step, _: &Context<'_>, emit: &mut Emit<'_>) -> Result<Option<Launch>> {
    let Op::Reverse(op) = &step.op else { return Err(mismatch(step)) };
    let (x, y) = (&step.operands[0], &step.results[0]);
    let sizes = dims(&x.ty)?;
    let mut strides = row_major(&sizes);
    let mut start = 0;
    for &axis in &op.axes {
        start += strides[axis] * (sizes[axis].max(1) as i64 - 1);
        strides[axis] = -strides[axis];
    }
    copy::copy("reverse", "y[.., i, ..] = x[.., n - 1 - i, ..]", (x, y), start, strides, emit)
}
