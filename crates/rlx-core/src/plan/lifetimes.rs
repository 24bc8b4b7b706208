//! When each arena value of a program lives, computed from its graph and its steps.
//!
//! `check` and `replay` use this instead of the planner's own liveness, so that a bug in one is not a
//! bug in the other. It also proves that the steps are the graph's nodes, in order, and that every
//! operand is read from where its value was written.

use super::liveness::view_alignment;
use crate::error::{Error, Result};
use crate::ir::lir::{Part, Program, Slice, Space, Step};
use crate::ir::mir::{Graph, Node, ParamKind, ValueId};
use crate::ops::Alias;
use crate::types::Dim;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// A value in the arena.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lifetime {
    /// The value; its views count as the value.
    pub value: ValueId,
    /// Bytes from the arena's start, with its segments concatenated.
    pub offset: u64,
    /// How many.
    pub bytes: u64,
    /// The step that writes it; the first one, if several write parts of it.
    pub from: usize,
    /// The last step that reads it; `from` if none does, the number of steps for an output.
    pub to: usize,
    /// The value whose memory the writing step may reuse, because each element depends only on the same
    /// element of that value.
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
    /// Place of each value, once known. A weight's is known at its first read.
    places: Vec<Option<Place>>,
    /// The value whose memory each value uses: itself, unless it is a view.
    roots: Vec<ValueId>,
    /// Bytes of a view from its root's start.
    offsets: Vec<u64>,
    /// Values that depend only on weights and constants: loading may make them.
    fixed: Vec<bool>,
    lifetimes: Vec<Lifetime>,
    /// Index of each value's lifetime.
    lives: Vec<Option<usize>>,
}

/// The lifetime of every arena value, in the order of writes.
///
/// # Errors
/// `BadGraph` with the step at which steps and graph differ.
pub(super) fn lifetimes(program: &Program) -> Result<Vec<Lifetime>> {
    let g = &program.graph;
    let n = g.types.len();
    let mut walk = Walk {
        program,
        g,
        places: vec![None; n],
        roots: (0..n as u32).map(ValueId).collect(),
        offsets: vec![0; n],
        fixed: vec![false; n],
        lifetimes: Vec::new(),
        lives: vec![None; n],
    };
    walk.params()?;
    let mut steps = program.steps.iter().enumerate().peekable();
    for node in &g.nodes {
        let fixed = node.inputs.iter().all(|v| walk.fixed[v.0 as usize]);
        for v in &node.outputs {
            walk.fixed[v.0 as usize] = fixed;
        }
        // Two casts for one operator share a label, and only one of them may be a step. The cast of a weight is
        // made while loading: its operand is a weight, or made while loading too.
        let known = |(v, x): (&ValueId, &Slice)| {
            let place = walk.places[v.0 as usize];
            x.space == Space::Weight || place == Some((x.space, x.index, x.offset))
        };
        let is_next = |s: &&Step| {
            let reads = !fixed || node.inputs.iter().zip(&s.operands).all(known);
            s.op == node.op && s.label == node.label && reads
        };
        let next = steps.peek().map(|s| s.1).filter(is_next);
        if walk.view(node, next) || (walk.is_empty(node) && next.is_none()) {
            continue;
        }
        match steps.next_if(|_| !fixed || next.is_some()) {
            Some((s, step)) => {
                walk.step(s, step, node)?;
                // The parts of a large weight follow each other.
                let mut part = step.part;
                while let Some(p) = part.filter(|p| p.first + p.rows < p.of) {
                    let follows = |s: &Step| {
                        s.part.is_some_and(|q| (q.first, q.of) == (p.first + p.rows, p.of))
                    };
                    let (s, step) = steps.next_if(|(_, s)| follows(s)).ok_or_else(|| {
                        let what = format!("no step for rows from {} on", p.first + p.rows);
                        Error::bad_graph(what).at(place_of(s, step))
                    })?;
                    walk.step(s, step, node)?;
                    part = step.part;
                }
            }
            // Made while loading: like a weight's, its place is known at its first read.
            None if fixed => {}
            None => {
                let what = format!("no step for node {} {}", node.op.name(), node.label);
                return Err(Error::bad_graph(what));
            }
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
                ParamKind::Weight => {
                    self.fixed[p.value.0 as usize] = true;
                    continue;
                }
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

    /// True for a view, which is no step: its bytes are its operand's, at words and elements. With runtime
    /// sizes a step may happen to be a view too, but it has a place of its own.
    fn view(&mut self, node: &Node, next: Option<&Step>) -> bool {
        let Alias::View { operand, byte_offset } = self.g.alias(node) else { return false };
        let (x, y) = (node.inputs[operand].0 as usize, node.outputs[0].0 as usize);
        let offset = self.offsets[x] + byte_offset;
        if !offset.is_multiple_of(view_alignment(self.g.ty(node.outputs[0]))) {
            return false;
        }
        let place = self.places[x].map(|(space, index, at)| (space, index, at + byte_offset));
        let own =
            next.and_then(|s| s.results.first()).filter(|r| r.ty == *self.g.ty(node.outputs[0]));
        if own.is_some_and(|r| place.is_some_and(|p| p != (r.space, r.index, r.offset))) {
            return false;
        }
        self.roots[y] = self.roots[x];
        self.offsets[y] = offset;
        self.places[y] = place;
        true
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
            match step.part {
                Some(part) => self.read_part(v, slice, part, s, &at)?,
                None => self.read(v, slice, s, &at)?,
            }
        }
        let in_place = match self.g.alias(node) {
            Alias::Elementwise { operand } => {
                let root = |v: &ValueId| self.roots[v.0 as usize];
                let x = root(&node.inputs[operand]);
                // If another operand reads the value too, elements depend on more than one element.
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
            } else if step.part.is_some_and(|p| p.first > 0) {
                // Another part of the value that the first step wrote.
                if self.places[v.0 as usize] != Some(place) {
                    return Err(wrong(format!("{} is not where its other parts are", name())));
                }
                if let Some(life) = self.life(v) {
                    life.to = s;
                }
            } else if slice.bytes > 0 {
                let start = self.program.arena_start(slice);
                let Some(start) = start.filter(|_| slice.space == Space::Arena) else {
                    return Err(wrong(format!("{} is written outside the arena", name())));
                };
                self.lives[v.0 as usize] = Some(self.lifetimes.len());
                self.lifetimes.push(Lifetime {
                    value: v,
                    offset: start,
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

    fn life(&mut self, root: ValueId) -> Option<&mut Lifetime> {
        self.lives[root.0 as usize].and_then(|at| self.lifetimes.get_mut(at))
    }

    /// `reader` reads `v`, or if it is a weight the rows of `part`.
    fn read_part(
        &mut self,
        v: ValueId,
        slice: &Slice,
        part: Part,
        s: usize,
        at: &str,
    ) -> Result<()> {
        let mut rows = self.g.ty(v).clone();
        let whole = rows.shape.0.first().and_then(Dim::as_static);
        if !self.fixed[v.0 as usize] || slice.space != Space::Weight || whole != Some(part.of) {
            return self.read(v, slice, s, at);
        }
        if let Some(d) = rows.shape.0.first_mut() {
            *d = Dim::from(part.rows);
        }
        if slice.ty != rows || part.first + part.rows > part.of {
            let what = format!("{} is {}, read as {}", name_of(self.g, v), rows, slice.ty);
            return Err(Error::bad_graph(what).at(at));
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
        if let Some(life) = self.life(root) {
            life.to = life.to.max(reader);
        }
        Ok(())
    }
}

fn place_name((space, index, offset): Place) -> String {
    match space {
        Space::Arena if index == 0 => format!("arena byte {offset}"),
        Space::Arena => format!("arena {index} byte {offset}"),
        Space::Weight => format!("weight {index} byte {offset}"),
        Space::State => format!("state {index} byte {offset}"),
        Space::Input => format!("input {index} byte {offset}"),
    }
}
