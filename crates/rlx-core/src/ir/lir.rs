//! LIR: the legalised graph and, for planned targets, a straight list of steps over addresses.

use super::mir::{Graph, ValueId};
use super::recipe::Recipe;
use crate::error::{Code, Error, Result};
use crate::ops::{Alias, Op};
use crate::types::{Binding, Type};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// Arena slots start at multiples of this many bytes, or of a larger power of two if options say so.
pub const ALIGNMENT: u64 = 64;

/// Where bytes live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Space {
    /// Entry `index` of the model's [`WeightPlan`](crate::plan::WeightPlan).
    Weight,
    /// State `index` of the session's [`StateDecl`]s.
    State,
    /// Segment `index` of the session's arena.
    Arena,
    /// Input `index` of the program's [`InputDecl`]s.
    Input,
}

/// A value's place: a contiguous, row-major range.
#[derive(Clone, Debug, PartialEq)]
pub struct Slice {
    /// Which memory.
    pub space: Space,
    /// Which weight, state, segment or input.
    pub index: u32,
    /// Bytes from its start. In the arena a multiple of 64, or for a view, as elsewhere, of 4 and of
    /// the element's size.
    pub offset: u64,
    /// What lies there.
    pub ty: Type,
    /// Bytes, from `ty`.
    pub bytes: u64,
}

/// When a step runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Inputs, weights, constants.
    Prologue,
    /// The model.
    Steady,
    /// Sampling and what follows it.
    Epilogue,
}

impl Phase {
    /// The name in text and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Prologue => "prologue",
            Self::Steady => "steady",
            Self::Epilogue => "epilogue",
        }
    }
}

/// Which rows of a weight a step reads, where the whole weight is above a device's binding limit.
///
/// The weights of the step (and a matmul's biases) are those rows; all other operands and the results
/// are whole. A matmul writes columns `first..first + rows` of every row of its results and reads the
/// same columns of a residual. A gather writes the rows whose ids lie in the part, the last part also
/// those of ids past the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// First row of the whole weight.
    pub first: u64,
    /// How many.
    pub rows: u64,
    /// Rows of the whole weight.
    pub of: u64,
}

/// The control block of a program: where each step's tokens stand in their sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlDecl {
    /// The state that it is.
    pub state: u32,
    /// Sequences that a submission's tokens belong to. With one slot positions follow each other, and kernels
    /// may rely on that.
    pub slots: u32,
    /// Tokens of a submission at most. How many are there, the control block says (`len`).
    pub tokens: u64,
}

/// One launch: an operator over places. Results that are states have their operand's place.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// What it does.
    pub op: Op,
    /// Operands, as the operator orders them.
    pub operands: Vec<Slice>,
    /// Results, as the operator orders them.
    pub results: Vec<Slice>,
    /// Bodies of control flow, as the node had them.
    pub regions: Vec<Graph>,
    /// The part of its weights that it reads, if they have several.
    pub part: Option<Part>,
    /// Rows of result 0 for each token, where only those of tokens that are there have to be computed: the first
    /// `live` times the control block's `len`. `None`: all of them.
    pub live: Option<u64>,
    /// When it runs.
    pub phase: Phase,
    /// Where it comes from.
    pub label: String,
}

impl Step {
    /// What result 0 may share with an operand.
    pub fn alias(&self) -> Alias {
        let operands: Vec<&Type> = self.operands.iter().map(|s| &s.ty).collect();
        self.op.alias(&operands)
    }
}

/// A state: memory that lives between steps.
#[derive(Clone, Debug, PartialEq)]
pub struct StateDecl {
    /// `ctl`, `params`, `counts`, `blk.0.k`.
    pub name: String,
    /// Its type.
    pub ty: Type,
    /// Bytes, from `ty`.
    pub bytes: u64,
}

/// An input: memory that the host writes before a step.
#[derive(Clone, Debug, PartialEq)]
pub struct InputDecl {
    /// `ids`.
    pub name: String,
    /// Its type.
    pub ty: Type,
    /// Bytes, from `ty`.
    pub bytes: u64,
}

/// A result that the host reads after a step.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputDecl {
    /// `token`, `logits`.
    pub name: String,
    /// Its place after the last step.
    pub slice: Slice,
}

/// A weight that a program reads, before the model's weight plan gives it a number.
#[derive(Clone, Debug, PartialEq)]
pub struct WeightUse {
    /// Name in the file, or the name of its recipe.
    pub name: String,
    /// Its type.
    pub ty: Type,
    /// How it is made, if it is not a tensor of the file as that has it.
    pub made: Option<Recipe>,
}

/// A program: what executors run.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// `decode`, `prefill`.
    pub name: String,
    /// The graph the steps were made from.
    pub graph: Graph,
    /// What runs, in order.
    pub steps: Vec<Step>,
    /// Weights read; `Slice::index` of a weight is a position here until
    /// [`WeightPlan::bind`](crate::plan::WeightPlan::bind) turns it into an entry of the plan.
    pub weights: Vec<WeightUse>,
    /// States, the same list in every program of a model.
    pub states: Vec<StateDecl>,
    /// Its control block, if a step reads one.
    pub control: Option<ControlDecl>,
    /// Inputs.
    pub inputs: Vec<InputDecl>,
    /// Results read back, packed one after the other.
    pub outputs: Vec<OutputDecl>,
    /// Bytes of the arena, all segments together.
    pub arena_bytes: u64,
    /// Bytes of the arena's segments: one, unless the arena is above the device's binding limit. A
    /// device with one buffer puts them one behind the other.
    pub arena_segments: Vec<u64>,
    /// Arena slots start at multiples of this.
    pub alignment: u64,
    /// The most bytes that are live at once: no plan needs less.
    pub largest_live_bytes: u64,
    /// Bytes if no two values shared memory.
    pub unshared_bytes: u64,
    /// For a program with runtime symbols: the graph before they were bound, and their bounds.
    pub template: Option<Box<Template>>,
    /// Content hash over steps, constants, places, target and options; the same on every platform.
    pub fingerprint: u64,
}

/// Where a program can be cut in two: what is written to the sampling parameters changes nothing of the steps before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The first step that reads them.
    pub step: usize,
    /// The state that has them.
    pub params: u32,
}

/// What a program with runtime symbols was planned from.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    /// The graph with its symbols.
    pub graph: Graph,
    /// The most each symbol may be: the program's types are those sizes.
    pub bounds: Binding,
}

impl WeightUse {
    /// Tensors of the file that it is, or is made from.
    pub fn tensors(&self) -> Vec<(&str, &Type)> {
        match &self.made {
            None => Vec::from([(self.name.as_str(), &self.ty)]),
            Some(recipe) => recipe.tensors(),
        }
    }
}

impl Program {
    /// Bytes that one step reads back.
    pub fn readback_bytes(&self) -> u64 {
        self.outputs.iter().map(|o| o.slice.bytes).sum()
    }

    /// Index of the input of that name.
    pub fn input(&self, name: &str) -> Option<usize> {
        self.inputs.iter().position(|i| i.name == name)
    }

    /// Index of the state of that name.
    pub fn state(&self, name: &str) -> Option<usize> {
        self.states.iter().position(|s| s.name == name)
    }

    /// Where the program can be cut in two. `None` for a program that samples no token.
    pub fn cut(&self) -> Option<Cut> {
        let sampler = self.steps.iter().find(|s| matches!(s.op, Op::Sample(_)))?;
        let params = sampler.operands.get(1).filter(|o| o.space == Space::State)?.index;
        let has = |s: &Slice| s.space == Space::State && s.index == params;
        let step = self.steps.iter().position(|s| s.operands.iter().chain(&s.results).any(has))?;
        Some(Cut { step, params })
    }

    /// Refuses tokens of several sequences, for a device whose kernels take one.
    ///
    /// # Errors
    /// `Unsupported` with the number of sequences.
    pub fn one_slot(&self, device: &str) -> Result<()> {
        match self.control {
            Some(ControlDecl { slots, .. }) if slots != 1 => Err(Error::new(
                Code::Unsupported,
                format!(
                    "program {} has tokens of {slots} sequences, {device} takes one",
                    self.name
                ),
            )),
            _ => Ok(()),
        }
    }

    /// Enlarges the segments of an arena, in bytes, until this program fits; gives whether one has grown.
    pub fn widen(&self, segments: &mut Vec<u64>) -> bool {
        let mut has_grown = false;
        for (i, &need) in self.arena_segments.iter().enumerate() {
            if i == segments.len() {
                segments.push(0);
            }
            has_grown |= need > segments[i];
            segments[i] = need.max(segments[i]);
        }
        has_grown
    }

    /// Bytes of a slice from the arena's start, its segments one behind the other; nothing for
    /// another space, or a segment that is not there.
    pub fn arena_start(&self, slice: &Slice) -> Option<u64> {
        let at = slice.index as usize;
        if slice.space != Space::Arena || (at > 0 && at >= self.arena_segments.len()) {
            return None;
        }
        let before: u64 = self.arena_segments.iter().take(at).sum();
        before.checked_add(slice.offset)
    }

    /// Bytes that sharing memory saves.
    pub fn bytes_saved(&self) -> u64 {
        self.unshared_bytes.saturating_sub(self.arena_bytes)
    }

    /// True if no size is left to bind, now or at run.
    pub fn is_fully_static(&self) -> bool {
        !self.has_dynamic_dims()
    }

    /// True if a symbol is bound at run, or still to be bound before planning.
    pub fn has_dynamic_dims(&self) -> bool {
        !self.dynamic_symbols().is_empty()
    }

    /// Names of the symbols that are bound at run, or are still to be bound; sorted.
    pub fn dynamic_symbols(&self) -> Vec<String> {
        self.template.as_ref().map_or(&self.graph, |t| &t.graph).symbols()
    }

    /// The graph, to be optimised or planned again; with its symbols if it has any.
    pub fn into_graph(self) -> Graph {
        match self.template {
            Some(template) => template.graph,
            None => self.graph,
        }
    }

    /// The node of each step, by its index.
    pub fn step_nodes(&self) -> Vec<usize> {
        let mut out = Vec::with_capacity(self.steps.len());
        for (n, node) in self.graph.nodes.iter().enumerate() {
            let Some(step) = self.steps.get(out.len()) else { break };
            let types = step.results.iter().map(|s| &s.ty);
            if step.op != node.op
                || step.label != node.label
                || !types.eq(node.outputs.iter().map(|&v| self.graph.ty(v)))
            {
                continue;
            }
            out.push(n);
            // Parts of one node follow each other.
            while self.steps.get(out.len()).and_then(|s| s.part).is_some_and(|p| p.first > 0) {
                out.push(n);
            }
        }
        out
    }

    /// When each value of the graph is made, by its id: parameters and what loading makes in the
    /// prologue, the others with their step; a view with what it views.
    pub fn phases(&self) -> Vec<Phase> {
        let mut own = vec![None; self.graph.nodes.len()];
        for (step, n) in self.steps.iter().zip(self.step_nodes()) {
            own[n] = Some(step.phase);
        }
        let mut phases = vec![Phase::Prologue; self.graph.types.len()];
        for (node, own) in self.graph.nodes.iter().zip(own) {
            let of = node.inputs.iter().map(|v| phases[v.0 as usize]);
            let phase = own.or(of.max()).unwrap_or(Phase::Prologue);
            for v in &node.outputs {
                phases[v.0 as usize] = phase;
            }
        }
        phases
    }

    /// Values of a phase in the order they are made, parameters first.
    pub fn values_of(&self, phase: Phase) -> Vec<ValueId> {
        let phases = self.phases();
        let params = self.graph.params.iter().map(|p| p.value);
        let made = self.graph.nodes.iter().flat_map(|n| n.outputs.iter().copied());
        params.chain(made).filter(|v| phases[v.0 as usize] == phase).collect()
    }
}
