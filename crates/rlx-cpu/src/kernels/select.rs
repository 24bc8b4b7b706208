//! select      y = cond ? a : b
//! shapes      any that broadcast; cond bool, a and b of one type; y and a may be one
//! bytes       each operand and y once
//! shares      runs of y's elements
//! numerics    a copy

use super::{Planned, elementwise};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::{Operator, Select, StepFn};
use rlx_core::target::Target;
use rlx_core::types::Type;

pub(super) fn takes(op: &Select, operands: &[&Type], _: &Target) -> Result<(), String> {
    elementwise::takes(operands, &op.infer(operands).map_err(|e| e.what)?)
}

pub(super) fn plan(_: &Select, step: &Step) -> Result<Planned> {
    elementwise::plan_one(StepFn::Select, step)
}
