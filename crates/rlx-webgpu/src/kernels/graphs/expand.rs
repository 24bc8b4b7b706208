//! `expand`: elements repeated to a larger shape.

use crate::kernels::elements::copy;
use crate::kernels::elements::indices::{dims, repeated};
use crate::kernels::emit::Emit;
use crate::kernels::takes::{self, Taken};
use crate::kernels::{Context, Launch};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::Op;
use rlx_core::target::Target;
use rlx_core::types::Type;

/// A tensor of any scalar type.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["dims"])?;
    let rank = if let Op::Expand(op) = op { op.dims.rank() } else { 0 };
    copy::takes(operands, rank)
}

pub(super) fn expand(step: &Step, _: &Context<'_>, emit: &mut Emit<'_>) -> Result<Option<Launch>> {
    let (x, y) = (&step.operands[0], &step.results[0]);
    let strides = repeated(&dims(&x.ty)?, &dims(&y.ty)?);
    copy::copy("expand", "y[i] = x[i on the axes that x has]", (x, y), 0, strides, emit)
}
