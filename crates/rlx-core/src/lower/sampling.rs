//! The control block, and what follows the logits.

use super::Lowering;
use crate::error::Result;
use crate::ir::mir::{Graph, ParamKind, ValueId};
use crate::ops::{CONTROL_WORDS, PARAMS_WORDS, Sample, Token};
use crate::types::{DType, Shape, Type};

/// Name of the control block's state.
pub const CTL: &str = "ctl";
/// Name of the sampling parameters' state.
pub const PARAMS: &str = "params";
/// Name of the state that counts tokens for penalties.
pub const COUNTS: &str = "counts";

/// The control block, a state of every program.
pub(super) fn control(g: &mut Graph) -> Result<ValueId> {
    g.param_once(ParamKind::State, CTL, Type::state(DType::U32, Shape::of(&[CONTROL_WORDS])))
}

/// Samples the one row of logits and returns `token`, a view of the advanced control block.
pub(super) fn sample(cx: &mut Lowering<'_>, logits: ValueId) -> Result<()> {
    let ctl = cx.control()?;
    let words = |n: u64| Type::state(DType::U32, Shape::of(&[n]));
    let params = cx.g.param_once(ParamKind::State, PARAMS, words(PARAMS_WORDS))?;
    let counts = cx.g.param_once(ParamKind::State, COUNTS, words(cx.module.vocab))?;
    let results = cx.g.push(Sample, &[logits, params, counts, ctl], "sample")?;
    let token = cx.g.push1(Token, &[results[1]], "token")?;
    cx.g.output("token", token);
    Ok(())
}
