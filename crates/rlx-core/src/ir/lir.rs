//! LIR: the legalised graph and, for planned targets, a straight list of steps over addresses.

use super::mir::Graph;
use crate::ops::{Alias, Op};
use crate::types::Type;
use alloc::string::String;
use alloc::vec::Vec;

/// Where bytes live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Space {
    /// Entry `index` of the model's [`WeightPlan`](crate::plan::WeightPlan).
    Weight,
    /// State `index` of the session's [`StateDecl`]s.
    State,
    /// The session's arena; `index` is 0.
    Arena,
    /// Input `index` of the program's [`InputDecl`]s.
    Input,
}

/// A value's place: a contiguous, row-major range.
#[derive(Clone, Debug, PartialEq)]
pub struct Slice {
    /// Which memory.
    pub space: Space,
    /// Which weight, state or input.
    pub index: u32,
    /// Bytes from its start. A multiple of 64 in the arena, of 4 elsewhere.
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
    /// Name in the file; of a computed constant, `rope_table` and a number.
    pub name: String,
    /// Its type.
    pub ty: Type,
    /// For a constant: the operator that makes it, and the names of the tensors it reads.
    pub computed: Option<(Op, Vec<String>)>,
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
    /// Inputs.
    pub inputs: Vec<InputDecl>,
    /// Results read back, packed one after the other.
    pub outputs: Vec<OutputDecl>,
    /// Bytes of the arena.
    pub arena_bytes: u64,
    /// The most bytes that are live at once: no plan needs less.
    pub largest_live_bytes: u64,
    /// Bytes if no two values shared memory.
    pub unshared_bytes: u64,
    /// Content hash over steps, places, target and options; the same on every platform.
    pub fingerprint: u64,
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
}
