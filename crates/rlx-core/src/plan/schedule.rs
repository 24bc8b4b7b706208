//! From a legalised graph to a program: places, steps, fingerprint.

use super::arena;
use super::fingerprint::Hasher;
use super::liveness::{Place, is_step, largest_live, liveness};
use crate::error::{Error, Result};
use crate::ir::lir::{
    InputDecl, OutputDecl, Phase, Program, Slice, Space, StateDecl, Step, WeightUse,
};
use crate::ir::mir::{Graph, ParamKind, ValueId};
use crate::ops::Op;
use crate::target::{CompileOptions, Target};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;

/// Plans a graph for a target. `states` is the model's list; every program has all of it.
///
/// # Errors
/// `BadGraph` for unbound symbols, or a state that is not among `states`.
pub fn plan(
    g: Graph,
    states: &[StateDecl],
    target: &Target,
    options: &CompileOptions,
) -> Result<Program> {
    let (place, intervals) = liveness(&g)?;
    let (offsets, arena_bytes) = arena::place(&intervals);
    // Where each root lives.
    let mut homes: BTreeMap<ValueId, (Space, u32, u64)> = BTreeMap::new();
    let (mut weights, mut inputs) = (Vec::new(), Vec::new());
    for p in &g.params {
        let ty = g.ty(p.value).clone();
        let bytes = ty.bytes()?;
        let home = match p.kind {
            ParamKind::Weight => {
                weights.push(WeightUse { name: p.name.clone(), ty, computed: None });
                (Space::Weight, weights.len() as u32 - 1)
            }
            ParamKind::Input => {
                inputs.push(InputDecl { name: p.name.clone(), ty, bytes });
                (Space::Input, inputs.len() as u32 - 1)
            }
            ParamKind::State => {
                let at = states.iter().position(|s| s.name == p.name && s.ty == ty).ok_or_else(
                    || {
                        Error::bad_graph(format!(
                            "state {} : {ty} is not among the model's",
                            p.name
                        ))
                    },
                )?;
                (Space::State, at as u32)
            }
        };
        homes.insert(p.value, (home.0, home.1, 0));
    }
    for node in &g.nodes {
        if let Op::RopeTable(_) = &node.op {
            let operands = node.inputs.iter().map(|v| {
                let param = g.params.iter().find(|p| p.value == *v && p.kind == ParamKind::Weight);
                param.map(|p| p.name.clone()).ok_or_else(|| {
                    Error::bad_graph("rope_table reads a value that is no weight")
                        .at(node.label.clone())
                })
            });
            let operands: Vec<_> = operands.collect::<Result<_>>()?;
            let name = format!("{}({}){}", node.op.name(), operands.join(", "), node.op.attrs());
            let ty = g.ty(node.outputs[0]).clone();
            weights.push(WeightUse { name, ty, computed: Some((node.op.clone(), operands)) });
            homes.insert(node.outputs[0], (Space::Weight, weights.len() as u32 - 1, 0));
        }
    }
    for (interval, offset) in intervals.iter().zip(&offsets) {
        homes.insert(interval.root, (Space::Arena, 0, *offset));
    }
    let slice = |v: ValueId| -> Result<Slice> {
        let Place { root, offset } = place[v.0 as usize];
        let ty = g.ty(v).clone();
        let bytes = ty.bytes()?;
        let (space, index, base) = match homes.get(&root) {
            Some(&home) => home,
            None if bytes == 0 => (Space::Arena, 0, 0),
            None => return Err(Error::internal(format!("value {} has no place", v.0))),
        };
        Ok(Slice { space, index, offset: base + offset, ty, bytes })
    };
    let mut steps = Vec::new();
    for node in g.nodes.iter().filter(|n| is_step(&g, n)) {
        let phase = if matches!(node.op, Op::Sample(_)) { Phase::Epilogue } else { Phase::Steady };
        steps.push(Step {
            op: node.op.clone(),
            operands: node.inputs.iter().map(|&v| slice(v)).collect::<Result<_>>()?,
            results: node.outputs.iter().map(|&v| slice(v)).collect::<Result<_>>()?,
            regions: node.regions.clone(),
            phase,
            label: node.label.clone(),
        });
    }
    let outputs = g
        .outputs
        .iter()
        .map(|o| Ok(OutputDecl { name: o.name.clone(), slice: slice(o.value)? }))
        .collect::<Result<Vec<_>>>()?;
    let mut program = Program {
        name: g.name.clone(),
        steps,
        weights,
        states: states.to_vec(),
        inputs,
        outputs,
        arena_bytes,
        largest_live_bytes: largest_live(&intervals, g.nodes.len()),
        unshared_bytes: intervals.iter().map(|i| i.bytes).sum(),
        fingerprint: 0,
        graph: g.renumbered(),
    };
    let mut hasher = Hasher::new();
    hasher.program(&program);
    hasher.text(&target.describe());
    hasher.text(&format!("{options:?}"));
    program.fingerprint = hasher.finish();
    // A weight that only a constant reads needs no place on the device.
    drop_host_only(&mut program);
    Ok(program)
}

/// Removes weights that no step reads and no output is, and renumbers the rest.
fn drop_host_only(program: &mut Program) {
    let mut used: Vec<Option<u32>> = alloc::vec![None; program.weights.len()];
    let outputs = program.outputs.iter_mut().map(|o| &mut o.slice);
    let operands = program.steps.iter_mut().flat_map(|s| &mut s.operands);
    let mut slices: Vec<&mut Slice> =
        operands.chain(outputs).filter(|s| s.space == Space::Weight).collect();
    for s in &slices {
        used[s.index as usize] = Some(0);
    }
    for (next, u) in used.iter_mut().flatten().enumerate() {
        *u = next as u32;
    }
    for s in &mut slices {
        // Marked above.
        s.index = used[s.index as usize].unwrap_or(0);
    }
    let mut i = 0;
    program.weights.retain(|_| {
        i += 1;
        used[i - 1].is_some()
    });
}
