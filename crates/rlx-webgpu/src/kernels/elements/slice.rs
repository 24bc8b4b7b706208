//! `slice`: a range of an axis, in steps.

use super::copy;
use super::indices::row_major;
use crate::kernels::emit::Emit;
use crate::kernels::takes::{self, Taken};
use crate::kernels::{Context, Launch, mismatch};
use rlx_core::ir::lir::Step;
use rlx_core::ops::Op;
use rlx_core::target::Target;
use rlx_core::types::Type;
use rlx_core::{Error, Result};

/// A tensor or a state of any scalar type, or whole rows of a packed one.
pub(in crate::kernels) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["axis", "start", "len", "step"])?;
    let rank = operands.first().map_or(0, |x| x.shape.rank());
    match (op, operands) {
        (Op::Slice(slice), [x]) if x.dtype.is_block() && slice.axis + 1 < rank => Ok(()),
        _ => copy::takes(operands, rank),
    }
}

pub(in crate::kernels) fn slice(
    step: &Step,
    _: &Context<'_>,
    emit: &mut Emit<'_>,
) -> Result<Option<Launch>> {
    let Op::Slice(op) = &step.op else { return Err(mismatch(step)) };
    let (x, y) = (&step.operands[0], &step.results[0]);
    let (_, _, dims) = copy::pieces(&x.ty)?;
    let mut strides = row_major(&dims);
    let first = op.start.as_static().and_then(|n| i64::try_from(n).ok());
    let far = || Error::internal("a slice that starts nowhere");
    let start = first.ok_or_else(far)?.checked_mul(strides[op.axis]).ok_or_else(far)?;
    strides[op.axis] = strides[op.axis].checked_mul(op.step).ok_or_else(far)?;
    let formula = "y[.., i, ..] = x[.., start + i * step, ..]";
    copy::copy("slice", formula, (x, y), start, strides, emit)
}
