//! The control block, the canvas, and what follows the logits.

use super::Lowering;
use crate::error::{Error, Result};
use crate::ir::hir::Module;
use crate::ir::mir::{Graph, ParamKind, ValueId};
use crate::ops::{
    CANVAS_WORDS, CONTROL_WORDS, PARAMS_WORDS, Predict, Sample, StateRead, Token, Unmask,
};
use crate::types::{DType, Shape, Type};
use alloc::format;

/// Name of the control block's state.
pub const CTL: &str = "ctl";
/// Name of the sampling parameters' state.
pub const PARAMS: &str = "params";
/// Name of the state with a block's tokens, and its output.
pub const CANVAS: &str = "canvas";
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
    let params = cx.g.param_once(ParamKind::State, PARAMS, params_type(cx.module))?;
    let counts = cx.g.param_once(ParamKind::State, COUNTS, words(cx.module.vocab))?;
    let results = cx.g.push(Sample, &[logits, params, counts, ctl], "sample")?;
    let token = cx.g.push1(Token, &[results[1]], "token")?;
    cx.g.output("token", token);
    Ok(())
}

/// The type of the sampling parameters, with a mask of tokens behind them.
pub(super) fn params_type(module: &Module) -> Type {
    Type::state(DType::U32, Shape::of(&[PARAMS_WORDS + module.vocab.div_ceil(32)]))
}

/// The type of a canvas of so many positions.
pub(super) fn canvas_type(block: u64) -> Type {
    Type::state(DType::U32, Shape::of(&[CANVAS_WORDS.saturating_add(block)]))
}

/// The canvas of a program that fills blocks.
pub(super) fn canvas(cx: &mut Lowering<'_>, block: u64) -> Result<ValueId> {
    if cx.module.block() != Some(block) {
        let what = format!("a program fills blocks of {block} positions, which the model does not");
        return Err(Error::bad_graph(what));
    }
    cx.g.param_once(ParamKind::State, CANVAS, canvas_type(block))
}

/// Places tokens by the logits of a block, and returns `canvas`, a view of it.
pub(super) fn denoise(cx: &mut Lowering<'_>, logits: ValueId, block: u64) -> Result<()> {
    let onto = canvas(cx, block)?;
    let params = cx.g.param_once(ParamKind::State, PARAMS, params_type(cx.module))?;
    let predicted = cx.g.push(Predict, &[logits, params, onto], "predict")?;
    let onto = cx.g.push1(Unmask, &[predicted[0], predicted[1], onto], "unmask")?;
    let words = cx.g.push1(StateRead, &[onto], CANVAS)?;
    cx.g.output(CANVAS, words);
    Ok(())
}
