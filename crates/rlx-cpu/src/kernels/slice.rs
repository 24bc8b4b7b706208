//! slice       y[.., i, ..] = x[.., start + i step, ..]
//! shapes      any, of any type; packed rows stay whole
//! bytes       y twice
//! shares      rows of y
//! numerics    a copy

use super::picks::{self, Axis, strides};
use super::{Planned, sizes};
use rlx_core::ir::lir::Step;
use rlx_core::ops::Slice;
use rlx_core::target::Target;
use rlx_core::types::Type;
use rlx_core::{Error, Result};

pub(super) fn takes(op: &Slice, _: &[&Type], _: &Target) -> Result<(), String> {
    let Slice { axis: _, start: _, len: _, step: _ } = op;
    Ok(())
}

pub(super) fn plan(op: &Slice, step: &Step) -> Result<Planned> {
    let x = &step.operands[0];
    let (mut dims, mut size) = (sizes(x)?, x.ty.dtype.block_bytes());
    if x.ty.dtype.is_block() {
        // A packed row is its bytes.
        let row = dims.last().and_then(|n| x.ty.dtype.row_bytes(*n as u64));
        let (last, bytes) = (dims.last_mut(), row.map(|n| n as usize));
        let (Some(last), Some(bytes)) = (last, bytes) else {
            return Err(Error::internal(format!("{} has no rows", x.ty)));
        };
        (*last, size) = (bytes, 1);
    }
    let (start, len) = (op.start.as_static().unwrap_or(0), op.len.as_static().unwrap_or(0));
    let strides = strides(&dims);
    let axes = dims.iter().zip(&strides).enumerate().map(|(i, (&n, &stride))| match i == op.axis {
        true => Axis::even(len as usize, start as isize * stride, op.step as isize * stride),
        false => Axis::even(n, 0, stride),
    });
    Ok(picks::plan(axes.collect(), size, [0; 8]))
}
