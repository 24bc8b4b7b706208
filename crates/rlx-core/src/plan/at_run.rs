//! Runtime symbols: planned once for their upper bounds, bound before each run.
//!
//! A size such as `SEQ <= 128` is planned as if it were 128. A run with 5 rows has the same steps at the
//! same addresses, with smaller values.

use super::live::{self, Live};
use super::schedule::schedule;
use super::{Hasher, liveness};
use crate::error::{Error, Result};
use crate::ir::lir::{Program, Slice, Space, StateDecl, Template};
use crate::ir::mir::{Graph, ValueId};
use crate::ir::verify::verify;
use crate::ops::Alias;
use crate::target::{CompileOptions, Target};
use crate::types::{Binding, DimBinding, Type};
use alloc::boxed::Box;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// Plans a graph whose symbols are bound before each run; each symbol has an upper bound.
///
/// # Errors
/// As [`plan`](super::plan); `BadGraph` for a symbol without a bound, a bound for an unknown symbol,
/// or a state with a symbol.
pub fn plan_bounded(
    g: Graph,
    bounds: &Binding,
    states: &[StateDecl],
    target: &Target,
    options: &CompileOptions,
) -> Result<Program> {
    let place = format!("@{}", g.name);
    bounds.only(&g.symbols()).map_err(|e| e.at(place.clone()))?;
    for v in g.params.iter().map(|p| p.value).chain(g.nodes.iter().flat_map(|n| n.outputs.clone()))
    {
        upper_bytes(g.ty(v), bounds).map_err(|e| e.at(place.clone()))?;
    }
    let bound = g.specialize(&g.name, bounds)?;
    verify(&bound)?;
    let template = (!bounds.is_empty()).then(|| Template { graph: g, bounds: bounds.clone() });
    schedule(bound, template.map(Box::new), states, target, options)
}

/// The most bytes of a value within these bounds.
pub(super) fn upper_bytes(ty: &Type, bounds: &Binding) -> Result<u64> {
    let mut upper = ty.clone();
    for d in &mut upper.shape.0 {
        *d = d.upper(bounds)?.into();
    }
    upper.bytes()
}

/// The program for these sizes of its runtime symbols: the same steps at the same addresses, with
/// values of other sizes.
///
/// # Errors
/// `BadGraph` for a symbol that is unknown, not bound, or above its bound; for a size that
/// contradicts a type rule; for a view that is no view at these sizes.
pub fn at_run(program: &Program, binding: &Binding) -> Result<Program> {
    let place = format!("@{}", program.name);
    let Some(template) = &program.template else {
        binding.only(&[]).map_err(|e| e.at(place))?;
        return Ok(program.clone());
    };
    let symbols = template.graph.symbols();
    binding.only(&symbols).map_err(|e| e.at(place.clone()))?;
    for symbol in &symbols {
        let bound = template.bounds.get(symbol).copied().unwrap_or(0);
        match binding.get(symbol) {
            Some(&n) if n <= bound => {}
            Some(n) => {
                let what = format!("{symbol} is {n}, the program is planned for at most {bound}");
                return Err(Error::bad_graph(what).at(place));
            }
            None => return Err(Error::bad_graph(format!("{symbol} is not bound")).at(place)),
        }
    }
    let g = template.graph.specialize(&program.graph.name, binding)?;
    verify(&g)?;
    let nodes = program.step_nodes();
    let mut is_step = vec![false; g.nodes.len()];
    for &n in &nodes {
        is_step[n] = true;
    }
    let (old, new) = (views(&program.graph, &is_step)?, views(&g, &is_step)?);
    let slice = |v: ValueId, slice: &Slice| -> Result<Slice> {
        let ty = g.ty(v).clone();
        let bytes = ty.bytes()?;
        // Weights have no symbols; a view of another value may begin elsewhere at these sizes.
        let offset = match slice.space {
            Space::Weight => slice.offset,
            _ => slice.offset - old[v.0 as usize] + new[v.0 as usize],
        };
        Ok(Slice { ty, bytes, offset, ..slice.clone() })
    };
    let mut out = program.clone();
    for (step, &n) in out.steps.iter_mut().zip(&nodes) {
        let node = &g.nodes[n];
        step.op = node.op.clone();
        step.regions = node.regions.clone();
        for (v, s) in node.inputs.iter().zip(&mut step.operands) {
            if step.part.is_none() || s.space != Space::Weight {
                *s = slice(*v, s)?;
            }
        }
        for (v, s) in node.outputs.iter().zip(&mut step.results) {
            *s = slice(*v, s)?;
        }
    }
    for input in &mut out.inputs {
        if let Some(p) = g.params.iter().find(|p| p.name == input.name) {
            input.ty = g.ty(p.value).clone();
            input.bytes = input.ty.bytes()?;
        }
    }
    for (o, node) in out.outputs.iter_mut().zip(&g.outputs) {
        o.slice = slice(node.value, &o.slice)?;
    }
    let Live { control, nodes: live } = live::live(&g, &out.states)?;
    out.control = control;
    for (step, &n) in out.steps.iter_mut().zip(&nodes) {
        step.live = live[n];
    }
    out.graph = g;
    out.template = None;
    let mut hasher = Hasher::new();
    hasher.text(&format!("{:016x} {binding:?}", program.fingerprint));
    out.fingerprint = hasher.finish();
    Ok(out)
}

/// Offset in bytes of each view from its root's start. `is_step` says which nodes are steps, and no views.
fn views(g: &Graph, is_step: &[bool]) -> Result<Vec<u64>> {
    let mut offsets = vec![0; g.types.len()];
    for (node, _) in g.nodes.iter().zip(is_step).filter(|(_, is_step)| !**is_step) {
        let Some(&y) = node.outputs.first() else { continue };
        match g.alias(node) {
            Alias::View { operand, byte_offset } => {
                let at = offsets[node.inputs[operand].0 as usize] + byte_offset;
                if !at.is_multiple_of(liveness::view_alignment(g.ty(y))) {
                    let what = format!("{} lies at byte {at} of its operand", g.ty(y));
                    return Err(Error::bad_graph(what).at(node.label.clone()));
                }
                offsets[y.0 as usize] = at;
            }
            // No bytes, or made while loading.
            _ if g.ty(y).bytes() == Ok(0) || node.inputs.iter().all(|v| g.is_fixed(*v)) => {}
            _ => {
                let what = format!("{} is no view of its operand at these sizes", g.ty(y));
                return Err(Error::bad_graph(what).at(node.label.clone()));
            }
        }
    }
    Ok(offsets)
}
