//! reverse     y[i] = x[n - 1 - i] on each of some axes
//! shapes      any, of any scalar type
//! bytes       x and y once
//! shares      rows of y
//! numerics    a copy

use super::picks::{self, Axis, strides};
use super::{Planned, sizes};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::Reverse;
use rlx_core::target::Target;
use rlx_core::types::Type;

pub(super) fn takes(op: &Reverse, _: &[&Type], _: &Target) -> Result<(), String> {
    let Reverse { axes: _ } = op;
    Ok(())
}

pub(super) fn plan(op: &Reverse, step: &Step) -> Result<Planned> {
    let dims = sizes(&step.operands[0])?;
    let strides = strides(&dims);
    let axes =
        dims.iter().zip(strides).enumerate().map(|(i, (&n, stride))| match op.axes.contains(&i) {
            true => Axis::even(n, (n as isize - 1) * stride, -stride),
            false => Axis::even(n, 0, stride),
        });
    Ok(picks::plan(axes.collect(), step.operands[0].ty.dtype.block_bytes(), [0; 8]))
}
