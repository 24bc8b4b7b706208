//! clamp       y = min(max(x, low), high)
//! shapes      any, of floats; x and y may be one
//! bytes       x and y once
//! shares      runs of y's elements
//! numerics    exact; a NaN becomes the lower bound

use super::{Planned, elementwise};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::{Clamp, Operator, StepFn};
use rlx_core::target::Target;
use rlx_core::types::Type;

pub(super) fn takes(op: &Clamp, operands: &[&Type], _: &Target) -> Result<(), String> {
    elementwise::takes(operands, &op.infer(operands).map_err(|e| e.what)?)
}

pub(super) fn plan(op: &Clamp, step: &Step) -> Result<Planned> {
    elementwise::plan_one(StepFn::Clamp(op.min, op.max), step)
}
