//! Live rows: which rows of a step must be computed. If a prompt's chunk has room for more tokens than it has, the
//! other tokens' rows can be skipped. This is decided here, once, and [`check`](super::check) proves it.
//!
//! 1. Operators that read the control block say how many tokens a submission has ([`RowUse::Live`], or
//!    [`RowUse::Same`] beside a control block).
//! 2. Backwards from there, through operators that keep a token's rows together, we find the inputs with rows for
//!    each token. Forwards from those inputs, we find all values that are computed token by token.
//! 3. A value with a reader of all its rows is computed whole, and so are the values it depends on.
//!
//! Rows past `len` depend on inputs that nobody wrote, and reach no state. In an output they are undefined.

use crate::error::{Error, Result};
use crate::ir::lir::{ControlDecl, StateDecl};
use crate::ir::mir::{Graph, Node, ParamKind};
use crate::ops::RowUse;
use crate::types::{Kind, Type};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// The control block of a graph and, for each node, rows per token of its first result.
pub(super) struct Live {
    pub control: Option<ControlDecl>,
    pub nodes: Vec<Option<u64>>,
}

/// Finds both. `states` are the model's.
///
/// # Errors
/// `BadGraph` for operators that read different control blocks, or see different numbers of tokens.
pub(super) fn live(g: &Graph, states: &[StateDecl]) -> Result<Live> {
    let none = Live { control: None, nodes: vec![None; g.nodes.len()] };
    let Some(state) = control_state(g, states)? else { return Ok(none) };
    let tokens = tokens(g)?.unwrap_or(1);
    let control = Some(ControlDecl { state, slots: 1, tokens });
    if tokens < 2 {
        return Ok(Live { control, ..none });
    }
    let rows = per_token(g, tokens);
    let whole = whole(g, &rows);
    let of = |node: &Node| {
        let read_whole = node.outputs.iter().any(|y| whole[y.0 as usize]);
        if read_whole { None } else { rows[node.outputs.first()?.0 as usize] }
    };
    Ok(Live { control, nodes: g.nodes.iter().map(of).collect() })
}

/// The types of a node's operands.
pub(super) fn types<'a>(g: &'a Graph, node: &Node) -> Vec<&'a Type> {
    node.inputs.iter().map(|&v| g.ty(v)).collect()
}

/// The state that the graph's operators read as their control block.
fn control_state(g: &Graph, states: &[StateDecl]) -> Result<Option<u32>> {
    let mut found = None;
    for p in g.params.iter().filter(|p| p.kind == ParamKind::State) {
        let reads = |node: &&Node| {
            let control = node.op.control(node.inputs.len());
            control.is_some_and(|k| node.inputs.get(k) == Some(&p.value))
        };
        let Some(reader) = g.nodes.iter().find(reads) else { continue };
        let at = states.iter().position(|s| s.name == p.name);
        let at =
            at.ok_or_else(|| Error::bad_graph(format!("state {} is not the model's", p.name)))?;
        if found.replace(at as u32).is_some() {
            let what = format!("{} is a second control block", p.name);
            return Err(Error::bad_graph(what).at(reader.label.clone()));
        }
    }
    Ok(found)
}

/// Rows of the operands that have rows for each token.
fn tokens(g: &Graph) -> Result<Option<u64>> {
    let mut tokens = None;
    for node in g.nodes.iter().filter(|n| n.op.control(n.inputs.len()).is_some()) {
        let types = types(g, node);
        // Some operands of a recurrence have a row for each head of a token.
        let counted = (0..types.len()).filter(|&k| node.op.row_use(k, &types) != RowUse::All);
        let rows = counted.filter_map(|k| types[k].shape.rows().ok()?.as_static()).min();
        let Some(rows) = rows else { continue };
        let others = *tokens.get_or_insert(rows);
        if others != rows {
            let name = node.op.name();
            let what = format!("{name} has {rows} tokens, operators before it have {others}");
            return Err(Error::bad_graph(what).at(node.label.clone()));
        }
    }
    Ok(tokens)
}

/// The rows per token of each value whose rows are those of the tokens, in order.
fn per_token(g: &Graph, tokens: u64) -> Vec<Option<u64>> {
    let mut wanted = vec![false; g.types.len()];
    for node in g.nodes.iter().rev() {
        let types = types(g, node);
        let counted = node.op.control(node.inputs.len()).is_some();
        let read = node.outputs.iter().any(|v| wanted[v.0 as usize]);
        for (k, v) in node.inputs.iter().enumerate() {
            wanted[v.0 as usize] |= match node.op.row_use(k, &types) {
                RowUse::All => false,
                RowUse::Same => counted || read,
                RowUse::Live => true,
            };
        }
    }
    let mut rows = vec![None; g.types.len()];
    for p in g.params.iter().filter(|p| p.kind == ParamKind::Input && wanted[p.value.0 as usize]) {
        rows[p.value.0 as usize] = split(g.ty(p.value), tokens);
    }
    for node in &g.nodes {
        let types = types(g, node);
        let mut uses = (0..types.len())
            .filter(|&k| rows[node.inputs[k].0 as usize].is_some())
            .map(|k| node.op.row_use(k, &types));
        if uses.clone().any(|used| used == RowUse::Same) && uses.all(|used| used != RowUse::All) {
            for &y in &node.outputs {
                rows[y.0 as usize] = split(g.ty(y), tokens);
            }
        }
    }
    rows
}

/// The rows of a tensor per token, if every token has equally many.
pub(super) fn split(ty: &Type, tokens: u64) -> Option<u64> {
    // The rows of a vector, such as token ids, are its elements.
    let rows = match ty.shape.rank() {
        1 => ty.shape.last().as_static()?,
        _ => ty.shape.rows().ok()?.as_static()?,
    };
    (ty.kind == Kind::Tensor && rows > 0 && rows % tokens == 0).then(|| rows / tokens)
}

/// The values of which some reader needs every row.
fn whole(g: &Graph, rows: &[Option<u64>]) -> Vec<bool> {
    let mut whole = vec![false; g.types.len()];
    for node in g.nodes.iter().rev() {
        let types = types(g, node);
        // A result without rows for tokens depends on every row. A state has rows of its own.
        let mut tensors = node.outputs.iter().filter(|&&v| g.ty(v).kind == Kind::Tensor);
        let all = tensors.any(|v| whole[v.0 as usize] || rows[v.0 as usize].is_none());
        for (k, v) in node.inputs.iter().enumerate() {
            let tensor = g.ty(*v).kind == Kind::Tensor;
            whole[v.0 as usize] |= tensor
                && match node.op.row_use(k, &types) {
                    RowUse::All => true,
                    RowUse::Same => all,
                    RowUse::Live => false,
                };
        }
    }
    whole
}
