//! cast        y = x in another element type
//! shapes      any, of f32, f16, bf16, integers and bool; x and y may be one
//! bytes       x and y once
//! shares      runs of y's elements
//! numerics    rounded once; see the operator for what does not fit

use super::{Planned, elementwise};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::{Cast, Operator, StepFn};
use rlx_core::target::Target;
use rlx_core::types::Type;

pub(super) fn takes(op: &Cast, operands: &[&Type], _: &Target) -> Result<(), String> {
    elementwise::takes(operands, &op.infer(operands).map_err(|e| e.what)?)
}

pub(super) fn plan(op: &Cast, step: &Step) -> Result<Planned> {
    elementwise::plan_one(StepFn::Cast(op.to), step)
}
