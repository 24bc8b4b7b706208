//! When each arena value of a program lives, told from its graph and its steps.
//!
//! `check` and `replay` use this instead of the planner's own liveness, so that a fault in one is
//! not a fault in the other. On the way it proves that the steps are the graph's nodes, in order,
//! and that every operand is read from where its value was written.

use crate::error::{Error, Result};
use crate::ir::lir::{Program, Slice, Space, Step};
use crate::ir::mir::{Graph, Node, ParamKind, ValueId};
use crate::ops::{Alias, Op};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// A value in the arena.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lifetime {
    /// The value; views of it count as it.
    pub value: ValueId,
    /// Bytes from the arena's start.
    pub offset: u64,
    /// How many.
    pub bytes: u64,
    /// The step that writes it.
    pub from: usize,
    /// The last step that reads it: `from` if none does, the number of steps for an output.
    pub to: usize,
    /// The lifetime whose memory the writing step may take over, because each element depends on
    /// the same element of that value alone.
    pub in_place: Option<ValueId>,
}

impl Lifetime {
    pub fn end(&self) -> u64 {
        self.offset + self.bytes
    }
}

/// Where a value's first byte is.
type Place = (Space, u32, u64);

struct Walk<'a> {
    program: &'a Program,
    g: &'a Graph,
    /// Place of each value, once known. A weight's is known at its first reading.
    places: Vec<Option<Place>>,
    /// The value whose memory a value is, itself unless it is a view.
    roots: Vec<ValueId>,
    lifetimes: Vec<Lifetime>,
}

/// Lifetimes of every arena value, in the order they are written.
///
/// # Errors
/// `BadGraph` naming the step where steps and graph differ.
pub(super) fn lifetimes(program: &Program) -> Result<Vec<Lifetime>> {
    let g = &program.graph;
    let mut walk = Walk {
        program,
        g,
        places: vec![None; g.types.len()],
        roots: (0..g.types.len() as u32).map(ValueId).collect(),
        lifetimes: Vec::new(),
    };
    walk.params()?;
    let mut steps = program.steps.iter().enumerate();
    for node in &g.nodes {
        if let Alias::View { operand, byte_offset } = program.graph.alias(node) {
            walk.view(node, operand, byte_offset);
        } else if !matches!(node.op, Op::RopeTable(_)) && !walk.is_empty(node) {
            let (s, step) = steps.next().ok_or_else(|| {
                Error::bad_graph(format!("no step for node {} {}", node.op.name(), node.label))
            })?;
            walk.step(s, step, node)?;
        }
    }
    if let Some((s, step)) = steps.next() {
        return Err(Error::bad_graph("the graph has no node for this step").at(place_of(s, step)));
    }
    if program.outputs.len() != g.outputs.len() {
        return Err(Error::bad_graph("program and graph differ in their outputs"));
    }
    for (o, node) in program.outputs.iter().zip(&g.outputs) {
        let at = format!("output {}", o.name);
        walk.read(node.value, &o.slice, program.steps.len(), &at)?;
    }
    Ok(walk.lifetimes)
}

/// `step 12 matmul blk.0.attn_q`.
pub(super) fn place_of(s: usize, step: &Step) -> String {
    format!("step {s} {} {}", step.op.name(), step.label)
}

/// `%12 of matmul blk.0.attn_q`, or the parameter's name.
pub(super) fn name_of(g: &Graph, v: ValueId) -> String {
    if let Some(node) = g.nodes.iter().find(|n| n.outputs.contains(&v)) {
        return format!("%{} of {} {}", v.0, node.op.name(), node.label);
    }
    match g.params.iter().find(|p| p.value == v) {
        Some(p) => p.name.clone(),
        None => format!("%{}", v.0),
    }
}

impl Walk<'_> {
    fn params(&mut self) -> Result<()> {
        for p in &self.g.params {
            let missing =
                || Error::bad_graph(format!("{} is not among the program's memories", p.name));
            let place = match p.kind {
                ParamKind::Weight => continue,
                ParamKind::Input => {
                    (Space::Input, self.program.input(&p.name).ok_or_else(missing)? as u32, 0)
                }
                ParamKind::State => {
                    (Space::State, self.program.state(&p.name).ok_or_else(missing)? as u32, 0)
                }
            };
            self.places[p.value.0 as usize] = Some(place);
        }
        Ok(())
    }

    fn is_empty(&self, node: &Node) -> bool {
        node.outputs.iter().all(|&v| self.g.ty(v).bytes() == Ok(0))
    }

    fn view(&mut self, node: &Node, operand: usize, byte_offset: u64) {
        let (x, y) = (node.inputs[operand].0 as usize, node.outputs[0].0 as usize);
        self.roots[y] = self.roots[x];
        self.places[y] = self.places[x].map(|(space, index, at)| (space, index, at + byte_offset));
    }

    fn step(&mut self, s: usize, step: &Step, node: &Node) -> Result<()> {
        let at = place_of(s, step);
        if step.op != node.op
            || step.operands.len() != node.inputs.len()
            || step.results.len() != node.outputs.len()
        {
            return Err(Error::bad_graph(format!(
                "the graph has {} {} here",
                node.op.name(),
                node.label
            ))
            .at(at));
        }
        for (&v, slice) in node.inputs.iter().zip(&step.operands) {
            self.read(v, slice, s, &at)?;
        }
        let in_place = match self.g.alias(node) {
            Alias::Elementwise { operand } => {
                let root = |v: &ValueId| self.roots[v.0 as usize];
                let x = root(&node.inputs[operand]);
                // Read by another operand too, it is not element by element any more.
                (node.inputs.iter().filter(|v| root(v) == x).count() == 1).then_some(x)
            }
            _ => None,
        };
        for (i, (&v, slice)) in node.outputs.iter().zip(&step.results).enumerate() {
            let wrong = |what: String| Error::bad_graph(what).at(at.clone());
            let name = || name_of(self.g, v);
            if slice.ty != *self.g.ty(v) {
                return Err(wrong(format!("{} is {}, not {}", name(), self.g.ty(v), slice.ty)));
            }
            let place = (slice.space, slice.index, slice.offset);
            if let Some((operand, _)) = node.op.writes().iter().find(|w| w.1 == i) {
                let old = node.inputs[*operand];
                if self.places[old.0 as usize] != Some(place) {
                    return Err(wrong(format!(
                        "{} is not at the place of {}, the state it replaces",
                        name(),
                        name_of(self.g, old)
                    )));
                }
                self.roots[v.0 as usize] = self.roots[old.0 as usize];
            } else if slice.bytes > 0 {
                if slice.space != Space::Arena {
                    return Err(wrong(format!("{} is written outside the arena", name())));
                }
                self.lifetimes.push(Lifetime {
                    value: v,
                    offset: slice.offset,
                    bytes: slice.bytes,
                    from: s,
                    to: s,
                    in_place,
                });
            }
            self.places[v.0 as usize] = Some(place);
        }
        Ok(())
    }

    /// `reader` reads `v` at `slice`.
    fn read(&mut self, v: ValueId, slice: &Slice, reader: usize, at: &str) -> Result<()> {
        let name = || name_of(self.g, v);
        if slice.ty != *self.g.ty(v) {
            let what = format!("{} is {}, read as {}", name(), self.g.ty(v), slice.ty);
            return Err(Error::bad_graph(what).at(at));
        }
        if slice.bytes == 0 {
            return Ok(());
        }
        let place = (slice.space, slice.index, slice.offset);
        match self.places[v.0 as usize] {
            Some(home) if home == place => {}
            Some(home) => {
                return Err(Error::bad_graph(format!(
                    "{} is at {}, read at {}",
                    name(),
                    place_name(home),
                    place_name(place)
                ))
                .at(at));
            }
            None if slice.space == Space::Weight => self.places[v.0 as usize] = Some(place),
            None => {
                let what =
                    format!("{} is read at {}, where nothing put it", name(), place_name(place));
                return Err(Error::bad_graph(what).at(at));
            }
        }
        let root = self.roots[v.0 as usize];
        if let Some(l) = self.lifetimes.iter_mut().find(|l| l.value == root) {
            l.to = l.to.max(reader);
        }
        Ok(())
    }
}

fn place_name((space, index, offset): Place) -> String {
    match space {
        Space::Arena => format!("arena byte {offset}"),
        Space::Weight => format!("weight {index} byte {offset}"),
        Space::State => format!("state {index} byte {offset}"),
        Space::Input => format!("input {index} byte {offset}"),
    }
}
