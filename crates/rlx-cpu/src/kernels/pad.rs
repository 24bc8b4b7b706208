//! pad         y = x with elements before and behind each axis: a constant, mirrored, the edge, or from the
//!             other end
//! shapes      any, of f32, f16, bf16, integers and bool
//! bytes       x and y once
//! shares      rows of y
//! numerics    a copy; the constant is rounded once

use super::elementwise::layout::put_integers;
use super::picks::{self, Axis, Segment, strides};
use super::{Planned, reduce, sizes};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::{Pad, PadMode};
use rlx_core::target::Target;
use rlx_core::types::{DType, Scalar, Type};

pub(super) fn takes(op: &Pad, operands: &[&Type], _: &Target) -> Result<(), String> {
    let Pad { low: _, high: _, mode: _ } = op;
    match operands.first() {
        Some(x) if matches!(x.dtype, DType::Scalar(Scalar::F64 | Scalar::C64)) => {
            Err(super::claim::refused(x, 0))
        }
        _ => Ok(()),
    }
}

pub(super) fn plan(op: &Pad, step: &Step) -> Result<Planned> {
    let dims = sizes(&step.operands[0])?;
    let strides = strides(&dims);
    let axes = dims.iter().zip(strides).enumerate().map(|(i, (&n, stride))| {
        let (low, high) = (op.low[i] as usize, op.high[i] as usize);
        let from = |at: isize| Some(at * stride);
        let end = n as isize - 1;
        let (before, behind) = match op.mode {
            PadMode::Constant(_) => ((None, 0), (None, 0)),
            PadMode::Reflect => ((from(low as isize), -1), (from(end - 1), -1)),
            PadMode::Replicate => ((from(0), 0), (from(end), 0)),
            PadMode::Circular => ((from(n as isize - low as isize), 1), (from(0), 1)),
        };
        let segment = |len: usize, (from, step): (Option<isize>, isize)| Segment {
            len,
            from,
            step: step * stride,
        };
        let all = [segment(low, before), segment(n, (Some(0), 1)), segment(high, behind)];
        Axis(all.into_iter().filter(|s| s.len > 0).collect())
    });
    let dtype = step.operands[0].ty.dtype;
    let mut value = [0; 8];
    if let PadMode::Constant(constant) = op.mode {
        let value = &mut value[..dtype.block_bytes()];
        match dtype {
            _ if dtype.is_float() => reduce::put(dtype, &[constant.into()], value),
            DType::BOOL => value[0] = (constant != 0.0).into(),
            _ => put_integers(dtype, &[saturated(dtype, constant)], value),
        }
    }
    Ok(picks::plan(axes.collect(), dtype.block_bytes(), value))
}

/// A number as an integer type holds it: cut off towards 0, within its ends.
fn saturated(dtype: DType, x: f32) -> i64 {
    match dtype {
        DType::Scalar(Scalar::I32) => (x as i32).into(),
        DType::Scalar(Scalar::I16) => (x as i16).into(),
        DType::Scalar(Scalar::I8) => (x as i8).into(),
        DType::Scalar(Scalar::U32) => (x as u32).into(),
        DType::Scalar(Scalar::U8) => (x as u8).into(),
        _ => x as i64,
    }
}
