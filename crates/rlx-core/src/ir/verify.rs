//! What a well-formed MIR graph is. Tests and debug builds run this after every pass.
//!
//! 1. Every operand is a parameter or the result of an earlier node; every value has one definer.
//! 2. A node's results have the types its operator's rule gives for its operands.
//! 3. A state is linear: at most one node writes a version, as one operand, and every reader of that
//!    version, or of a view of it, stands before the writer. Only a write makes a new version.
//! 4. Results of the graph are defined, and no later node overwrites them.
//! 5. A region is a graph of its own over inputs, one for each capture; it has no weights or states.
//! 6. Names are words that text IR can hold. No two parameters share one, nor do two results of the
//!    graph; no parameter has a node's number for a name. Labels are one line.

use super::mir::{Graph, ParamKind, ValueId};
use crate::error::{Error, Result};
use crate::ops::{Alias, Signature};
use crate::types::{Kind, Type};
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// True for a name that text IR can hold: `blk.0.attn_q.weight`.
pub fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(is_name_char)
}

/// True for a character that a name may have.
pub(super) fn is_name_char(c: char) -> bool {
    c.is_alphanumeric() || "_.-/()+".contains(c)
}

/// Checks a graph.
///
/// # Errors
/// `BadGraph` naming the first node or value that breaks a rule.
pub fn verify(g: &Graph) -> Result<()> {
    let fail = |what: String, at: &str| {
        Err(Error::bad_graph(what).at(if at.is_empty() {
            format!("@{}", g.name)
        } else {
            format!("@{}, {at}", g.name)
        }))
    };
    if !is_name(&g.name) {
        return fail(format!("{:?} is no name for a function", g.name), "");
    }
    let mut defined = vec![false; g.types.len()];
    let mut names: BTreeSet<&str> = BTreeSet::new();
    for p in &g.params {
        let Some(slot) = defined.get_mut(p.value.0 as usize) else {
            return fail(format!("parameter {} has no type", p.name), "");
        };
        if core::mem::replace(slot, true) {
            return fail(format!("parameter {} shares its value with another", p.name), "");
        }
        if (g.ty(p.value).kind == Kind::State) != (p.kind == ParamKind::State) {
            return fail(format!("parameter {} is {}", p.name, g.ty(p.value)), "");
        }
        if !is_name(&p.name) || p.name.bytes().all(|b| b.is_ascii_digit()) {
            return fail(format!("{:?} is no name for a parameter", p.name), "");
        }
        if !names.insert(&p.name) {
            return fail(format!("parameter {} occurs twice", p.name), "");
        }
    }
    // What each value is a view of, and who has overwritten it.
    let mut root: Vec<usize> = (0..g.types.len()).collect();
    let mut written: Vec<Option<usize>> = vec![None; g.types.len()];
    for (i, node) in g.nodes.iter().enumerate() {
        let place = format!("node {i} {} {}", node.op.name(), node.label);
        if node.label.contains(['\n', '\r']) {
            return fail("a label has more than one line".into(), &place);
        }
        for (k, v) in node.inputs.iter().enumerate() {
            if !defined.get(v.0 as usize).copied().unwrap_or(false) {
                return fail(format!("operand {k} is used before it is defined"), &place);
            }
            if let Some(writer) = written[root[v.0 as usize]] {
                return fail(
                    format!(
                        "operand {k} is a state that node {writer} {} has overwritten",
                        g.nodes[writer].label
                    ),
                    &place,
                );
            }
        }
        let operands: Vec<&Type> = node.inputs.iter().map(|&v| g.ty(v)).collect();
        let bodies: Vec<Signature> = node.regions.iter().map(Graph::signature).collect();
        let types = node
            .op
            .infer_regions(&operands, &bodies)
            .map_err(|e| e.at(format!("@{}, {place}", g.name)))?;
        for body in &node.regions {
            if let Some(p) = body.params.iter().find(|p| p.kind != ParamKind::Input) {
                return fail(format!("region @{} has {}, not an input", body.name, p.name), &place);
            }
            verify(body)
                .map_err(|e| e.at(format!("@{}, {place}, region @{}", g.name, body.name)))?;
        }
        if types.len() != node.outputs.len() {
            return fail(
                format!("{} results, the operator gives {}", node.outputs.len(), types.len()),
                &place,
            );
        }
        let writes = node.op.writes();
        for (k, (v, ty)) in node.outputs.iter().zip(&types).enumerate() {
            match g.types.get(v.0 as usize) {
                Some(have) if have == ty => {}
                Some(have) => {
                    return fail(format!("a result is {have}, its rule gives {ty}"), &place);
                }
                None => return fail("a result has no type".into(), &place),
            }
            if core::mem::replace(&mut defined[v.0 as usize], true) {
                return fail("a result is defined twice".into(), &place);
            }
            if ty.kind == Kind::State && !writes.iter().any(|w| w.1 == k) {
                return fail(format!("result {k} is a state that nothing writes"), &place);
            }
        }
        if let Alias::View { operand, .. } = g.alias(node) {
            root[node.outputs[0].0 as usize] = root[node.inputs[operand].0 as usize];
        }
        for &(operand, _) in writes {
            let version = node.inputs[operand];
            if node.inputs.iter().filter(|&&v| v == version).count() > 1 {
                return fail(format!("operand {operand} is written and is another too"), &place);
            }
            written[version.0 as usize] = Some(i);
        }
    }
    let mut outputs: BTreeSet<&str> = BTreeSet::new();
    for o in &g.outputs {
        let ValueId(v) = o.value;
        if !defined.get(v as usize).copied().unwrap_or(false) {
            return fail(format!("output {} is not defined", o.name), "");
        }
        if let Some(writer) = written[root[v as usize]] {
            return fail(
                format!(
                    "output {} is a state that node {writer} {} has overwritten",
                    o.name, g.nodes[writer].label
                ),
                "",
            );
        }
        if !is_name(&o.name) || !outputs.insert(&o.name) {
            return fail(format!("{:?} is no name for an output, or is one twice", o.name), "");
        }
    }
    Ok(())
}
