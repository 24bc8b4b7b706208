//! Proves that no step reads a row that another step may skip.
//!
//! 1. Every step that reads a control block reads the program's.
//! 2. A step that computes only the rows of present tokens has equally many rows for each token. At least one of
//!    its operands has rows by token too: an input, or a value computed from one token by token.
//! 3. Every reader of such a result also reads it token by token, or reads the control block itself. Outputs may be
//!    such results: the host reads only the rows of its tokens.

use super::lifetimes::{name_of, place_of};
use super::live::{split, types};
use crate::error::{Error, Result};
use crate::ir::lir::{ControlDecl, Program, Space, Step};
use crate::ir::mir::ParamKind;
use crate::ops::{CONTROL_WORDS, RowUse};
use crate::types::{DType, Kind};
use alloc::format;
use alloc::vec;

/// Checks a program's control block and the rows that its steps skip.
///
/// # Errors
/// `BadGraph` naming the step that breaks a rule.
pub(super) fn check_rows(program: &Program) -> Result<()> {
    control(program)?;
    let g = &program.graph;
    let mut steps = vec![None; g.nodes.len()];
    for (s, n) in program.step_nodes().into_iter().enumerate() {
        steps[n].get_or_insert(s);
    }
    // Values with rows for tokens, and those of them with skipped rows.
    let (mut counted, mut partial) = (vec![false; g.types.len()], vec![false; g.types.len()]);
    for p in g.params.iter().filter(|p| p.kind == ParamKind::Input) {
        counted[p.value.0 as usize] = true;
    }
    for (node, s) in g.nodes.iter().zip(steps) {
        let types = types(g, node);
        let step = s.map(|s| &program.steps[s]);
        let at = || s.map_or(node.label.clone(), |s| place_of(s, &program.steps[s]));
        let live = step.and_then(|step| step.live);
        if let (Some(per), Some(step)) = (live, step) {
            rows(program, step, per).map_err(|e| e.at(at()))?;
        }
        let same = |k: usize| node.op.row_use(k, &types) == RowUse::Same;
        for (k, v) in node.inputs.iter().enumerate().filter(|(_, v)| partial[v.0 as usize]) {
            // A view skips the rows that its operand skips.
            let by_token = same(k) && (live.is_some() || s.is_none());
            if !by_token && node.op.row_use(k, &types) != RowUse::Live {
                let what = format!("{} is read whole, and rows of it are left out", name_of(g, *v));
                return Err(Error::bad_graph(what).at(at()));
            }
        }
        let by_token =
            |of: &[bool]| node.inputs.iter().enumerate().any(|(k, v)| of[v.0 as usize] && same(k));
        let (from_tokens, left_out) = (by_token(&counted), by_token(&partial));
        if live.is_some() && !from_tokens {
            let what = "rows are left out, and no operand has rows for tokens";
            return Err(Error::bad_graph(what).at(at()));
        }
        for y in node.outputs.iter().filter(|&&y| g.ty(y).kind == Kind::Tensor) {
            counted[y.0 as usize] = from_tokens;
            partial[y.0 as usize] = live.is_some() || (s.is_none() && left_out);
        }
    }
    Ok(())
}

/// Checks that the program's control block is the one that its steps read.
fn control(program: &Program) -> Result<()> {
    if let Some(ControlDecl { state, slots, .. }) = program.control {
        let ty = program.states.get(state as usize).map(|s| &s.ty);
        let words = u64::from(slots) * CONTROL_WORDS;
        let is_block =
            |ty: &&crate::types::Type| ty.dtype == DType::U32 && ty.shape.elements() == Ok(words);
        if slots == 0 || ty.filter(is_block).is_none() {
            let what = format!("state {state} is no control block of {slots} slots");
            return Err(Error::bad_graph(what));
        }
    }
    let state = program.control.map(|c| c.state);
    for (s, step) in program.steps.iter().enumerate() {
        let Some(k) = step.op.control(step.operands.len()) else { continue };
        let slice = step.operands.get(k).filter(|x| x.space == Space::State);
        if slice.map(|x| x.index) != state || state.is_none() {
            let what = "the step reads a control block that is not the program's";
            return Err(Error::bad_graph(what).at(place_of(s, step)));
        }
    }
    Ok(())
}

/// Checks that a step's first result has this many rows for each token.
fn rows(program: &Program, step: &Step, per: u64) -> Result<()> {
    let tokens = program.control.map(|c| c.tokens).filter(|&n| n > 1);
    let Some(tokens) = tokens else {
        return Err(Error::bad_graph("rows are left out, and nothing counts tokens"));
    };
    let first = step.results.first().map(|r| &r.ty);
    if first.and_then(|ty| split(ty, tokens)) != Some(per) {
        let what = format!("result 0 has not {per} rows for each of {tokens} tokens");
        return Err(Error::bad_graph(what));
    }
    Ok(())
}
