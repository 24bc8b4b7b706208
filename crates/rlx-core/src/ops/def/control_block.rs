//! The control block and the sampling parameters, states of every language-model program, and the canvas, a state of
//! those that fill blocks, as operators see them: sizes, and where the block has what decompositions read.
//! `sample/control.rs` and `sample/canvas.rs`, which stand above operators, say what the words mean, and that these are
//! the same.

use super::rules::expect;
use crate::error::{Error, Result};
use crate::types::{DType, Kind, Shape, Type};
use alloc::format;

/// Words of the control block.
pub const CONTROL_WORDS: u64 = 16;
/// Words of the sampling parameters, before the mask of tokens that [`Sample`](super::super::Sample) has behind them.
pub const PARAMS_WORDS: u64 = 32;
/// Words of a canvas before its tokens.
pub const CANVAS_WORDS: u64 = 16;

/// Rows in the cache before this submission.
pub(crate) const PAST: usize = 0;
/// Real rows of this submission.
pub(crate) const LEN: usize = 1;
/// [`RUNNING`], or not.
pub(crate) const DONE: usize = 4;
/// The generation goes on.
pub(crate) const RUNNING: u32 = 0;

/// Positions of a canvas, which is a state of its plan's words and a token for each.
pub(crate) fn canvas(name: &str, ty: &Type) -> Result<u64> {
    let words = match ty.shape.0.as_slice() {
        [n] if ty.kind == Kind::State && ty.dtype == DType::U32 => n.as_static(),
        _ => None,
    };
    words.and_then(|n| n.checked_sub(CANVAS_WORDS)).filter(|&n| n > 0).ok_or_else(|| {
        Error::bad_graph(format!(
            "{name}: canvas is {ty}, expected a state of u32, {CANVAS_WORDS} and one for each position"
        ))
    })
}

/// Fails unless the operand is a control block.
pub(crate) fn control(name: &str, ty: &Type) -> Result<()> {
    expect(name, "ctl", ty, &Type::state(DType::U32, Shape::of(&[CONTROL_WORDS])))
}
