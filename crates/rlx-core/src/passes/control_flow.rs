//! Straight lines instead of branches and loops, for targets that run none.
//!
//! ```text
//! %y = if %p, %x [then, else]        =>    %t = <then of %x>
//!                                          %e = <else of %x>
//!                                          %y = select %p, %t, %e
//! ```
//!
//! | node | becomes | when |
//! |---|---|---|
//! | `if` of a constant | the body that is taken | always |
//! | `if` | both bodies, and a `select` of each result | `if` is not claimed |
//! | `while` that never runs | its operands | always |
//! | `while` of a counter | its body as often as the counter says | `while` is not claimed |
//! | `while` with a `max` | its body `max` times, results selected while the condition held | the same |
//! | `scan` of a static length | its body as often, between slices and a concat | `scan` is not claimed |
//!
//! A counter is a carried integer that starts at a constant, that the body adds a constant to and
//! that the condition compares with a constant. Loops are unrolled up to [`TRIPS`] times and
//! [`NODES`] nodes. A program without control flow is one list of steps, which a GPU takes in one
//! submission; it is all that kernels, fusions and the memory plan know.
//!
//! A loop of which the condition still holds after `max` trips is an error where loops are run;
//! unrolled, it gives what it had after `max`.
//!
//! Runs before everything, as [`resolve`]: other passes see into straight lines only. Then again
//! whenever they have changed something, since a predicate or the start of a counter may be a
//! constant only once it is folded. Leaves alone: bodies that may fail where the graph would not
//! have run them (a division of integers, a user's operator, a loop of its own); packed types, which
//! `select` does not read. [`control_flow`] ends it: what is left and is not claimed is an error that
//! names the node.

mod counter;
mod inline;

use super::Context;
use crate::error::{Code, Error, Result};
use crate::ir::mir::{Graph, Node, ValueId};
use crate::ops::{Binary, Concat, Constant, Op, Reshape, Scan, Select, Slice, While};
use crate::types::{DType, Dim, Kind, Shape, Type};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use inline::Inline;

/// Runs of a body that are unrolled at most.
pub const TRIPS: u64 = 64;
/// Nodes that a loop may become at most.
pub const NODES: usize = 16_384;
/// Nodes of a graph or body up to which loops are unrolled.
pub const GRAPH_NODES: usize = 131_072;

/// Lowers in place what has a straight form by now; returns the number of nodes of control flow that
/// are gone, those in regions too.
pub fn resolve(g: &mut Graph, cx: &mut Context<'_>) -> Result<usize> {
    lower(g, &|name| claims(cx, name), false)
}

/// Lowers in place; returns the number of nodes of control flow that are gone, those in regions too.
///
/// # Errors
/// `Unsupported` for the first node of control flow that is left and that the target does not
/// claim.
pub fn control_flow(g: &mut Graph, cx: &mut Context<'_>) -> Result<usize> {
    lower(g, &|name| claims(cx, name), true)
}

/// True if the target runs the operator of that name. A list of no names is no claim: everything
/// is taken to run.
fn claims(cx: &Context<'_>, name: &str) -> bool {
    match &cx.options.supported_ops {
        Some(ops) => ops.is_empty() || ops.iter().any(|op| op == name),
        None => cx.target.claims_name(name),
    }
}

/// `all`: what the target does not claim may not be left.
fn lower(g: &mut Graph, claims: &dyn Fn(&str) -> bool, all: bool) -> Result<usize> {
    if g.nodes.iter().all(|n| n.regions.is_empty()) {
        return Ok(0);
    }
    let mut changed = 0;
    let nodes = core::mem::take(&mut g.nodes);
    let mut out = Inline::new(g, nodes.len());
    for mut node in nodes {
        for v in &mut node.inputs {
            *v = out.stands(*v);
        }
        // A body that never runs may have anything in it.
        let runs = runs(&out, &node);
        for (body, _) in node.regions.iter_mut().zip(runs).filter(|(_, runs)| *runs) {
            changed += lower(body, claims, all)?;
        }
        if node.regions.is_empty() {
            out.push(node);
            continue;
        }
        let claimed = claims(node.op.name());
        match straight(&mut out, &node, claimed)? {
            Some((nodes, results)) => {
                nodes.into_iter().for_each(|n| out.push(n));
                out.replace(&node.outputs, &results);
                changed += 1;
            }
            None if claimed || !all => out.push(node),
            None => return Err(no_straight_form(&node)),
        }
    }
    out.finish();
    Ok(changed)
}

/// Which of the node's regions may run.
fn runs(out: &Inline<'_>, node: &Node) -> [bool; 2] {
    match (&node.op, &node.regions[..]) {
        (Op::If(_), _) => match node.inputs.first().and_then(|&pred| out.constant(pred)) {
            Some(pred) => [pred != 0, pred == 0],
            None => [true, true],
        },
        (Op::While(op), [cond, body]) => {
            let trips = counter::trips(op, cond, body, &node.inputs, &|v| out.constant(v));
            [trips != Some(0); 2]
        }
        _ => [true, true],
    }
}

fn no_straight_form(node: &Node) -> Error {
    let name = node.op.name();
    let what = format!("the target runs no {name}, and this one has no straight form");
    Error::new(Code::Unsupported, what).at(node.label.clone()).hint(match &node.op {
        Op::If(_) => "both branches would run, so neither may divide integers or call a user's \
                      operator; results are of scalar types"
            .into(),
        Op::While(_) => format!(
            "it needs a counter that ends within {TRIPS} trips, or a max of at most {TRIPS} and \
             bodies that never fail"
        ),
        _ => format!("it needs a static length of at most {TRIPS}"),
    })
}

type Straight = Option<(Vec<Node>, Vec<ValueId>)>;

/// The node's straight form, where there is one and it is wanted.
fn straight(out: &mut Inline<'_>, node: &Node, claimed: bool) -> Result<Straight> {
    let form = match &node.op {
        Op::If(_) => branch(out, node, claimed)?,
        Op::While(op) => repeat(out, op, node, claimed)?,
        Op::Scan(op) if !claimed => each(out, op, node)?,
        _ => None,
    };
    // A view of a state that comes out as it went in would be read later than it may be.
    Ok(form.filter(|(_, results)| !results.iter().any(|&v| out.stateful(v))))
}

fn branch(out: &mut Inline<'_>, node: &Node, claimed: bool) -> Result<Straight> {
    let (Some((&pred, captures)), [then, other]) = (node.inputs.split_first(), &node.regions[..])
    else {
        return Ok(None);
    };
    if let Some(pred) = out.constant(pred) {
        let taken = if pred != 0 { then } else { other };
        let mut nodes = Vec::new();
        let results = out.inline(&mut nodes, taken, captures, &node.label);
        // A view of a state that comes out as it went in is selected, which copies it.
        if !results.iter().any(|&v| out.stateful(v)) {
            return Ok(Some((nodes, results)));
        }
    }
    if claimed || !total(then) || !total(other) || !selectable(out, &node.outputs) {
        return Ok(None);
    }
    let mut nodes = Vec::new();
    let pred = scalar(out, &mut nodes, pred, &node.label)?;
    let yes = out.inline(&mut nodes, then, captures, &node.label);
    let no = out.inline(&mut nodes, other, captures, &node.label);
    let results = select(out, &mut nodes, pred, &yes, &no, &node.label)?;
    Ok(Some((nodes, results)))
}

fn repeat(out: &mut Inline<'_>, op: &While, node: &Node, claimed: bool) -> Result<Straight> {
    let [cond, body] = &node.regions[..] else { return Ok(None) };
    let constant = |v| out.constant(v);
    let trips = counter::trips(op, cond, body, &node.inputs, &constant);
    if trips == Some(0) {
        return Ok(Some((Vec::new(), node.inputs[..op.carried].to_vec())));
    }
    if claimed {
        return Ok(None);
    }
    let (mut carried, captures) = (node.inputs[..op.carried].to_vec(), &node.inputs[op.carried..]);
    let mut nodes = Vec::new();
    if let Some(trips) = trips.filter(|&n| op.max.is_none_or(|max| n <= max)) {
        if !fits(out, trips, body.nodes.len()) {
            return Ok(None);
        }
        for i in 0..trips {
            let operands = [&carried[..], captures].concat();
            carried = out.inline(&mut nodes, body, &operands, &format!("{}.{i}", node.label));
        }
        return Ok(Some((nodes, carried)));
    }
    let size = cond.nodes.len() + body.nodes.len() + op.carried + 2;
    let max = match op.max {
        Some(max) if fits(out, max, size) => max,
        _ => return Ok(None),
    };
    if !total(cond) || !total(body) || !selectable(out, &node.outputs) {
        return Ok(None);
    }
    let mut active: Option<ValueId> = None;
    for i in 0..max {
        let label = format!("{}.{i}", node.label);
        let operands = [&carried[..], captures].concat();
        let holds = out.inline(&mut nodes, cond, &operands, &label);
        let holds = scalar(out, &mut nodes, holds[0], &label)?;
        // What has ended stays ended, whatever the condition says of the values it ended with.
        let held = match active {
            None => holds,
            Some(held) => out.emit(&mut nodes, Select, &[held, holds, held], &label)?,
        };
        active = Some(held);
        let next = out.inline(&mut nodes, body, &operands, &label);
        carried = select(out, &mut nodes, held, &next, &carried, &label)?;
    }
    Ok(Some((nodes, carried)))
}

fn each(out: &mut Inline<'_>, op: &Scan, node: &Node) -> Result<Straight> {
    let [body] = &node.regions[..] else { return Ok(None) };
    let size = body.nodes.len() + 2 * op.xs + body.outputs.len();
    let Some(length) = op.length.as_static().filter(|&n| fits(out, n, size)) else {
        return Ok(None);
    };
    let (mut carried, rest) = (node.inputs[..op.carried].to_vec(), &node.inputs[op.carried..]);
    let (xs, captures) = rest.split_at(op.xs);
    let mut nodes = Vec::new();
    let mut rows: Vec<Vec<ValueId>> = vec![Vec::new(); node.outputs.len() - op.carried];
    for i in 0..length {
        let at = if op.reverse { length - 1 - i } else { i };
        let label = format!("{}.{at}", node.label);
        let mut operands = carried;
        for &x in xs {
            let (start, len) = (Dim::from(at), Dim::from(1u64));
            let slice = Slice { axis: 0, start, len, step: 1 };
            let row = out.emit(&mut nodes, slice, &[x], &label)?;
            let dims = Shape(out.ty(x).shape.0[1..].to_vec());
            operands.push(out.emit(&mut nodes, Reshape { dims }, &[row], &label)?);
        }
        operands.extend(captures);
        carried = out.inline(&mut nodes, body, &operands, &label);
        for (y, rows) in carried.split_off(op.carried).into_iter().zip(&mut rows) {
            let mut dims = out.ty(y).shape.clone();
            dims.0.insert(0, Dim::from(1u64));
            rows.push(out.emit(&mut nodes, Reshape { dims }, &[y], &label)?);
        }
    }
    let mut results = carried;
    for (mut rows, &y) in rows.into_iter().zip(&node.outputs[op.carried..]) {
        if op.reverse {
            rows.reverse();
        }
        results.push(if rows.is_empty() {
            let empty = Constant { ty: out.ty(y).clone(), data: Vec::new().into() };
            out.emit(&mut nodes, empty, &[], &node.label)?
        } else {
            out.emit(&mut nodes, Concat { axis: 0 }, &rows, &node.label)?
        });
    }
    Ok(Some((nodes, results)))
}

/// True if a body of `nodes` may be unrolled `trips` times.
fn fits(out: &Inline<'_>, trips: u64, nodes: usize) -> bool {
    let more = nodes.saturating_mul(trips.min(TRIPS) as usize);
    trips <= TRIPS && more <= NODES && out.len().saturating_add(more) <= GRAPH_NODES
}

/// True if no operator of the body can fail, whatever its operands hold.
fn total(body: &Graph) -> bool {
    body.nodes.iter().all(|node| match (&node.op, &node.inputs[..]) {
        (Op::Zip(zip), &[a, b]) if matches!(zip.f, Binary::Div | Binary::Mod) => {
            body.ty(a).dtype.is_float() || never_zero(body, b)
        }
        (Op::Custom(_), _) => false,
        _ => node.regions.is_empty(),
    })
}

/// True for a constant of the body without a zero.
fn never_zero(body: &Graph, v: ValueId) -> bool {
    body.nodes.iter().any(|node| match &node.op {
        Op::Constant(c) if node.outputs[0] == v => {
            let mut elements = c.data.chunks_exact(c.ty.dtype.block_bytes());
            elements.all(|bytes| bytes.iter().any(|&b| b != 0))
        }
        _ => false,
    })
}

/// True if `select` gives values of these types.
fn selectable(out: &Inline<'_>, results: &[ValueId]) -> bool {
    results.iter().all(|&v| {
        let ty = out.ty(v);
        ty.kind == Kind::Tensor && matches!(ty.dtype, DType::Scalar(_))
    })
}

/// A bool without axes, so that it repeats over any shape.
fn scalar(
    out: &mut Inline<'_>,
    nodes: &mut Vec<Node>,
    pred: ValueId,
    label: &str,
) -> Result<ValueId> {
    match out.ty(pred) {
        Type { shape: Shape(dims), .. } if dims.is_empty() => Ok(pred),
        _ => out.emit(nodes, Reshape { dims: Shape(Vec::new()) }, &[pred], label),
    }
}

/// Each of `yes` where `pred` holds, else that of `no`.
fn select(
    out: &mut Inline<'_>,
    nodes: &mut Vec<Node>,
    pred: ValueId,
    yes: &[ValueId],
    no: &[ValueId],
    label: &str,
) -> Result<Vec<ValueId>> {
    let pairs = yes.iter().zip(no);
    pairs.map(|(&a, &b)| out.emit(nodes, Select, &[pred, a, b], label)).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn goldens() {
        crate::passes::testing::goldens("control_flow", super::control_flow);
    }
}
