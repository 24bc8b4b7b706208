//! transpose   y[i_0, i_1, ..] = x with axis perm[0], perm[1], .. at these indices
//! shapes      any, of any scalar type
//! bytes       x and y once; squares of 16 elements where neighbours move apart
//! shares      rows of y
//! numerics    a copy

use super::picks::{self, Axis, strides};
use super::{Planned, sizes};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::Transpose;
use rlx_core::target::Target;
use rlx_core::types::Type;

pub(super) fn takes(op: &Transpose, _: &[&Type], _: &Target) -> Result<(), String> {
    let Transpose { perm: _ } = op;
    Ok(())
}

pub(super) fn plan(op: &Transpose, step: &Step) -> Result<Planned> {
    let dims = sizes(&step.operands[0])?;
    let strides = strides(&dims);
    let axes = op.perm.iter().map(|&axis| Axis::even(dims[axis], 0, strides[axis])).collect();
    Ok(picks::plan(axes, step.operands[0].ty.dtype.block_bytes(), [0; 8]))
}
