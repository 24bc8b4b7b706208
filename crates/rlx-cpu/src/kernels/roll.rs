//! roll        y[(i + shift) mod n] = x[i] on each of some axes
//! shapes      any, of any scalar type
//! bytes       x and y once
//! shares      rows of y
//! numerics    a copy

use super::picks::{self, Axis, Segment, strides};
use super::{Planned, sizes};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::Roll;
use rlx_core::target::Target;
use rlx_core::types::Type;

pub(super) fn takes(op: &Roll, _: &[&Type], _: &Target) -> Result<(), String> {
    let Roll { shifts: _, axes: _ } = op;
    Ok(())
}

pub(super) fn plan(op: &Roll, step: &Step) -> Result<Planned> {
    let dims = sizes(&step.operands[0])?;
    let strides = strides(&dims);
    let axes = dims.iter().zip(strides).enumerate().map(|(i, (&n, stride))| {
        let shift = op.axes.iter().position(|&axis| axis == i).map_or(0, |k| op.shifts[k]);
        // In i128, which holds every size and shift; the remainder is below n again.
        let moved = i128::from(shift).rem_euclid(n.max(1) as i128) as usize;
        if moved == 0 {
            return Axis::even(n, 0, stride);
        }
        let first = Segment { len: moved, from: Some((n - moved) as isize * stride), step: stride };
        Axis(vec![first, Segment { len: n - moved, from: Some(0), step: stride }])
    });
    Ok(picks::plan(axes.collect(), step.operands[0].ty.dtype.block_bytes(), [0; 8]))
}
