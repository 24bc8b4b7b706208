//! compare     y = a f b
//! shapes      any that broadcast; a and b of one type, y bool
//! bytes       each operand and y once
//! shares      runs of y's elements
//! numerics    exact; only `ne` holds for a NaN

use super::{Planned, elementwise};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::{Compare, Operator, StepFn};
use rlx_core::target::Target;
use rlx_core::types::Type;

pub(super) fn takes(op: &Compare, operands: &[&Type], _: &Target) -> Result<(), String> {
    elementwise::takes(operands, &op.infer(operands).map_err(|e| e.what)?)
}

pub(super) fn plan(op: &Compare, step: &Step) -> Result<Planned> {
    elementwise::plan_one(StepFn::Compare(op.f), step)
}
