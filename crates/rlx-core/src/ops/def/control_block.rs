//! The control block and the sampling parameters, states of every language-model program, as operators
//! see them: sizes, and where the block has what decompositions read. `sample/control.rs`, which
//! stands above operators, says what the words mean, and that these are the same.

use super::rules::expect;
use crate::error::Result;
use crate::types::{DType, Shape, Type};

/// Words of the control block.
pub const CONTROL_WORDS: u64 = 16;
/// Words of the sampling parameters.
pub const PARAMS_WORDS: u64 = 32;

/// Rows in the cache before this submission.
pub(crate) const PAST: usize = 0;
/// Real rows of this submission.
pub(crate) const LEN: usize = 1;
/// [`RUNNING`], or not.
pub(crate) const DONE: usize = 4;
/// The generation goes on.
pub(crate) const RUNNING: u32 = 0;

/// Fails unless the operand is a control block.
pub(crate) fn control(name: &str, ty: &Type) -> Result<()> {
    expect(name, "ctl", ty, &Type::state(DType::U32, Shape::of(&[CONTROL_WORDS])))
}
