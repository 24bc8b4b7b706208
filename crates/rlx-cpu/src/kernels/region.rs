//! region      y = the last of a chain of elementwise steps
//! shapes      any that broadcast, of f32, f16, bf16, integers and bool; y and an operand of its shape may be one
//! bytes       each operand and y once: what is between has no memory
//! shares      runs of y's elements
//! numerics    those of the steps one by one, each rounded to its own type

use super::{Planned, elementwise};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::Region;
use rlx_core::target::Target;
use rlx_core::types::Type;

pub(super) fn takes(op: &Region, operands: &[&Type], _: &Target) -> Result<(), String> {
    let types = op.types(operands).map_err(|e| e.what)?;
    elementwise::takes(operands, &types)
}

pub(super) fn plan(op: &Region, step: &Step) -> Result<Planned> {
    let operands: Vec<&Type> = step.operands.iter().map(|s| &s.ty).collect();
    elementwise::plan(&op.steps, &op.types(&operands)?, step)
}
