//! What a well-formed MIR graph is. Tests and debug builds run this after every pass.
//!
//! 1. Every operand is a parameter or the result of an earlier node; every value has one definer.
//! 2. A node's results have the types its operator's rule gives for its operands.
//! 3. A state is linear: at most one node writes a version, and every reader of that version
//!    stands before the writer.
//! 4. Results of the graph are defined.
//! 5. Parameter names are unique within their kind.

use super::mir::{Graph, ParamKind, ValueId};
use crate::error::{Error, Result};
use crate::types::{Kind, Type};
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// Checks a graph.
///
/// # Errors
/// `BadGraph` naming the first node or value that breaks a rule.
pub fn verify(g: &Graph) -> Result<()> {
    let fail = |what: alloc::string::String, at: &str| {
        Err(Error::bad_graph(what).at(if at.is_empty() {
            format!("@{}", g.name)
        } else {
            format!("@{}, {at}", g.name)
        }))
    };
    let mut defined = vec![false; g.types.len()];
    let mut names: BTreeSet<(ParamKind, &str)> = BTreeSet::new();
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
        if !names.insert((p.kind, &p.name)) {
            return fail(format!("parameter {} occurs twice", p.name), "");
        }
    }
    let mut written: Vec<Option<usize>> = vec![None; g.types.len()];
    for (i, node) in g.nodes.iter().enumerate() {
        let place = format!("node {i} {} {}", node.op.name(), node.label);
        for (k, v) in node.inputs.iter().enumerate() {
            if !defined.get(v.0 as usize).copied().unwrap_or(false) {
                return fail(format!("operand {k} is used before it is defined"), &place);
            }
            if let Some(writer) = written[v.0 as usize] {
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
        let types = node.op.infer(&operands).map_err(|e| e.at(format!("@{}, {place}", g.name)))?;
        if types.len() != node.outputs.len() {
            return fail(
                format!("{} results, the operator gives {}", node.outputs.len(), types.len()),
                &place,
            );
        }
        for (v, ty) in node.outputs.iter().zip(&types) {
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
        }
        for &(operand, _) in node.op.writes() {
            written[node.inputs[operand].0 as usize] = Some(i);
        }
    }
    for o in &g.outputs {
        let ValueId(v) = o.value;
        if !defined.get(v as usize).copied().unwrap_or(false) {
            return fail(format!("output {} is not defined", o.name), "");
        }
    }
    Ok(())
}
