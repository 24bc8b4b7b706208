//! From a legalised graph to a program: places, steps, phases, fingerprint.

use super::arena::{self, Rules, Span};
use super::at_run::upper_bytes;
use super::fingerprint::Hasher;
use super::live::{self, Live};
use super::liveness::{Liveness, largest_live, liveness};
use super::{constants, parts};
use crate::error::{Code, Error, Result};
use crate::ir::lir::{
    InputDecl, OutputDecl, Phase, Program, Slice, Space, StateDecl, Step, Template, WeightUse,
};
use crate::ir::mir::{Graph, Node, ParamKind, ValueId};
use crate::ir::recipe::Recipe;
use crate::ops::{Class, Op};
use crate::sorted::Map;
use crate::target::{CompileOptions, Target};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// Where the bytes of a root are.
#[derive(Clone, Copy)]
struct Home {
    space: Space,
    index: u32,
    offset: u64,
}

/// Plans a graph for a target. `states` is the model's list; every program has all of them.
///
/// # Errors
/// `BadGraph` for unbound symbols, sizes that overflow, or a state that is not among `states`;
/// `Usage` for an alignment that is not a power of two from 64 on; `Unsupported` for an arena or a
/// weight above the binding limit of a target without arena segments or row parts.
pub fn plan(
    g: Graph,
    states: &[StateDecl],
    target: &Target,
    options: &CompileOptions,
) -> Result<Program> {
    schedule(g, None, states, target, options)
}

/// As [`plan`], for a graph whose symbols are bound to their upper bounds; `template` has the symbols.
pub(super) fn schedule(
    g: Graph,
    template: Option<Box<Template>>,
    states: &[StateDecl],
    target: &Target,
    options: &CompileOptions,
) -> Result<Program> {
    let alignment = options.alignment;
    if !alignment.is_power_of_two() || alignment < arena::ALIGNMENT {
        return Err(Error::usage(format!(
            "an arena alignment of {alignment} bytes: it is a power of two, 64 or more"
        )));
    }
    let recipes = constants::recipes(&g, options.whole_weights)?;
    let made: Vec<bool> = recipes.iter().map(Option::is_some).collect();
    let mut live = liveness(&g, &made, alignment)?;
    if let Some(template) = &template {
        for (root, span) in live.roots.iter().zip(&mut live.spans) {
            // A size with a remainder may be larger below the bound than at it.
            span.bytes = span.bytes.max(upper_bytes(template.graph.ty(*root), &template.bounds)?);
        }
    }
    let (offsets, segments) = place(&g, &live, target, alignment)?;
    let mut homes: Vec<Option<Home>> = vec![None; g.types.len()];
    let (mut weights, mut inputs) = (Vec::new(), Vec::new());
    for p in &g.params {
        let ty = g.ty(p.value).clone();
        let bytes = live.bytes[p.value.0 as usize];
        let (space, index) = match p.kind {
            ParamKind::Weight => {
                weights.push(WeightUse { name: p.name.clone(), ty, made: None });
                (Space::Weight, weights.len() - 1)
            }
            ParamKind::Input => {
                inputs.push(InputDecl { name: p.name.clone(), ty, bytes });
                (Space::Input, inputs.len() - 1)
            }
            ParamKind::State => {
                let at = states.iter().position(|s| s.name == p.name && s.ty == ty);
                let at = at.ok_or_else(|| {
                    Error::bad_graph(format!("state {} : {ty} is not among the model's", p.name))
                })?;
                (Space::State, at)
            }
        };
        homes[p.value.0 as usize] = Some(Home { space, index: index as u32, offset: 0 });
    }
    for (v, recipe) in recipes.into_iter().enumerate() {
        if let Some(recipe) = recipe {
            homes[v] = Some(Home { space: Space::Weight, index: weights.len() as u32, offset: 0 });
            weights.push(WeightUse::new(recipe));
        }
    }
    for (root, &(segment, offset)) in live.roots.iter().zip(&offsets) {
        homes[root.0 as usize] = Some(Home { space: Space::Arena, index: segment, offset });
    }
    let slice = |v: ValueId| -> Result<Slice> {
        let at = live.places[v.0 as usize];
        let (ty, bytes) = (g.ty(v).clone(), live.bytes[v.0 as usize]);
        let Home { space, index, offset } = match homes[at.root.0 as usize] {
            Some(home) => home,
            None if bytes == 0 => Home { space: Space::Arena, index: 0, offset: 0 },
            None => return Err(Error::internal(format!("value {} has no place", v.0))),
        };
        Ok(Slice { space, index, offset: offset + at.offset, ty, bytes })
    };
    let Live { control, nodes: live_rows } = live::live(&g, states)?;
    let mut steps = Vec::new();
    let last = last_compute(&g, &live);
    for (i, node) in g.nodes.iter().enumerate().filter(|(i, _)| live.steps[*i]) {
        let step = Step {
            op: node.op.clone(),
            operands: node.inputs.iter().map(|&v| slice(v)).collect::<Result<_>>()?,
            results: node.outputs.iter().map(|&v| slice(v)).collect::<Result<_>>()?,
            regions: node.regions.clone(),
            part: None,
            live: live_rows[i],
            phase: phase(node, i, last),
            label: node.label.clone(),
        };
        parts::split(step, &mut weights, target, &mut steps)?;
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
        control,
        inputs,
        outputs,
        arena_bytes: segments.iter().sum(),
        arena_segments: segments,
        alignment,
        largest_live_bytes: largest_live(&live.spans, g.nodes.len()).0,
        unshared_bytes: live.spans.iter().map(|s| s.bytes).sum(),
        template,
        fingerprint: 0,
        graph: g.renumbered(),
    };
    let mut hasher = Hasher::new();
    hasher.program(&program);
    hasher.text(&target.describe());
    hasher.text(&format!("{options:?}"));
    if let Some(template) = &program.template {
        hasher.text(&format!("{} {:?}", template.graph, template.bounds));
    }
    program.fingerprint = hasher.finish();
    // A weight needs no place if only a constant reads it, or if it is read in parts.
    drop_unread(&mut program);
    Ok(program)
}

/// Segment and offset of each root, and the bytes of the segments.
type Places = (Vec<(u32, u64)>, Vec<u64>);

/// Places every root in the arena.
fn place(g: &Graph, live: &Liveness, target: &Target, alignment: u64) -> Result<Places> {
    let most = target.limits.binding.min(target.limits.buffer) / alignment * alignment;
    let mut rules = Rules { alignment, segment: None };
    let (offsets, total) = arena::place(&live.spans, rules);
    if total <= most {
        let segments = if total > 0 { vec![total] } else { Vec::new() };
        return Ok((offsets.into_iter().map(|at| (0, at)).collect(), segments));
    }
    let too_large = |what: String, hint: &str| {
        let what = format!("@{}: {what}, the {} device binds at most {most}", g.name, target.name);
        Err(Error::new(Code::Unsupported, what).hint(hint))
    };
    if !target.arena_segments {
        let (bytes, node) = largest_live(&live.spans, g.nodes.len());
        let label = g.nodes.get(node).map_or("the results", |n| n.label.as_str());
        return too_large(
            format!("the arena has {total} bytes, {bytes} of them in use at once at {label}"),
            "use a smaller context or chunk, or a device with larger bindings",
        );
    }
    let (together, within) = results_together(&live.spans, rules);
    for (root, &(group, _)) in live.roots.iter().zip(&within) {
        let Span { bytes, from, .. } = together[group];
        if rules.slot(bytes) > most {
            let (ty, label) = (g.ty(*root), g.nodes.get(from).map_or("", |n| n.label.as_str()));
            let what = match within.iter().filter(|w| w.0 == group).count() {
                1 => format!("the {ty} of {label} has {bytes} bytes"),
                _ => format!("the results of {label} have {bytes} bytes"),
            };
            return too_large(what, "use a smaller chunk: what a step makes lies in one binding");
        }
    }
    if most.checked_mul(live.spans.len() as u64).is_none_or(|n| n > u64::MAX / 2) {
        return Err(Error::bad_graph("the bytes of all arena segments overflow"));
    }
    rules.segment = Some(most);
    let (offsets, total) = arena::place(&together, rules);
    let mut segments = vec![0; total.div_ceil(most) as usize];
    let places = within.iter().zip(&live.spans).map(|(&(group, after), span)| {
        let at = offsets[group] + after;
        let (segment, offset) = (at / most, at % most);
        let size: &mut u64 = &mut segments[segment as usize];
        *size = (*size).max(offset + rules.slot(span.bytes));
        (segment as u32, offset)
    });
    let places = places.collect();
    Ok((places, segments))
}

/// One span for the values that a step makes, which lie in one segment so that its kernel binds them once; and of each
/// value its span, and where it begins in it.
fn results_together(spans: &[Span], rules: Rules) -> (Vec<Span>, Vec<(usize, u64)>) {
    let mut together: Vec<Span> = Vec::new();
    let mut of_step: Map<usize, usize> = Map::new();
    let within = spans.iter().map(|span| match of_step.get(&span.from) {
        Some(&group) => {
            let all = &mut together[group];
            let after = rules.slot(all.bytes);
            (all.bytes, all.to) = (after + span.bytes, all.to.max(span.to));
            (group, after)
        }
        None => {
            together.push(*span);
            of_step.insert(span.from, together.len() - 1);
            (together.len() - 1, 0)
        }
    });
    let within = within.collect();
    (together, within)
}

/// The last step that computes or samples, if any.
fn last_compute(g: &Graph, live: &Liveness) -> Option<usize> {
    (0..g.nodes.len()).rev().find(|&i| {
        let op = &g.nodes[i].op;
        live.steps[i] && (op.class() == Class::Compute || is_epilogue(op))
    })
}

/// True for an operator that samples from the model's result.
fn is_epilogue(op: &Op) -> bool {
    matches!(
        op,
        Op::Sample(_)
            | Op::Predict(_)
            | Op::Unmask(_)
            | Op::TopK(_)
            | Op::RandomUniform(_)
            | Op::RandomNormal(_)
    )
}

fn phase(node: &Node, i: usize, last_compute: Option<usize>) -> Phase {
    match last_compute {
        _ if is_epilogue(&node.op) => Phase::Epilogue,
        Some(last) if i > last => Phase::Epilogue,
        _ => Phase::Steady,
    }
}

/// Removes weights that neither a step reads nor an output is, and renumbers the rest.
fn drop_unread(program: &mut Program) {
    let mut used: Vec<Option<u32>> = vec![None; program.weights.len()];
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
        // The loop above marked every weight that is used.
        s.index = used[s.index as usize].unwrap_or(0);
    }
    let mut i = 0;
    program.weights.retain(|_| {
        i += 1;
        used[i - 1].is_some()
    });
}

impl WeightUse {
    /// The use of a weight that a recipe makes.
    pub(crate) fn new(recipe: Recipe) -> WeightUse {
        let (name, ty) = (recipe.name(), recipe.ty().clone());
        let made = (!matches!(recipe, Recipe::Tensor { .. })).then_some(recipe);
        WeightUse { name, ty, made }
    }
}
