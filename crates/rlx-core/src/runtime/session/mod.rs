//! A session: a model on a device. It runs the model's entries with inputs of any sizes that fit.
//!
//! ```text
//! entries ─▶ Opening (weights: allocate, fill) ─▶ Session ─ start(entry, inputs) ─▶ Run ─ poll ─▶ tensors
//!                                                    │
//!                                     sizes of the inputs ─▶ variant: compiled and built once
//! ```
//!
//! The programs of a language model have all their sizes already: they are built while the weights arrive
//! ([`Opening::programs`]; [`Opening::of_programs`] for other programs), and a generation has several of them in
//! flight ([`Session::submit`]).
//!
//! Nothing here reads a file or waits: a host puts weights where [`Opening`] says, and polls. Weights are
//! loaded once, for the programs of all sizes; constants, and vectors of 16-bit floats in another form, are made by the
//! host when a program is built.

mod begin;
mod ids;
mod kept;
pub mod load;
pub mod network;
mod opening;
mod preview;
mod run;
mod tensor;

pub use crate::models::Entry;
#[cfg(feature = "text")]
pub(in crate::runtime) use kept::Stretch;
pub use kept::{DeviceTensor, Given, Reading};
pub use opening::Opening;
pub use preview::Preview;
pub use run::Run;
pub use tensor::{Signature, Tensor, TensorRef};

use self::begin::Begin;
use self::ids::Ids;
use self::run::{Ahead, Made};
use crate::compile::ModelCompilePipeline;
use crate::error::{Error, Result};
use crate::ir::lir::{Program, StateDecl};
use crate::ir::mir::Graph;
use crate::plan::WeightPlan;
use crate::runtime::device::{
    AnyId, Device, DeviceInfo, ModelId, Outputs, ProgramId, SessionId, Submission, Ticket,
};
use crate::target::CompileOptions;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::task::{Context, Poll};

/// Most programs for sizes of inputs that a session keeps.
pub const VARIANTS: usize = 8;

/// An entry of a session.
struct Template {
    name: String,
    inputs: Vec<Signature>,
    outputs: Vec<Signature>,
    /// Inputs that are ids of rows of a table.
    ids: Vec<Ids>,
    of: Source,
}

/// The source of an entry's programs.
enum Source {
    /// A graph with unbound symbols. Each set of sizes has a program of its own.
    Graph(Box<Unbound>),
    /// One program, which lives as long as the session.
    Program(Built),
}

/// A graph with unbound symbols.
struct Unbound {
    graph: Graph,
    /// How it is compiled.
    options: CompileOptions,
    /// What a run writes first, where the graph reads a control block.
    begin: Option<Begin>,
}

/// A program on the device, with its weights bound to the plan.
#[derive(Clone)]
struct Built {
    program: Arc<Program>,
    id: ProgramId,
}

/// A program for certain sizes of inputs. The most recently used one is last.
struct Variant {
    /// The program from the compiler's cache.
    compiled: Arc<Program>,
    built: Built,
}

/// A model on a device, with its entries. Dropping it frees everything there.
pub struct Session {
    device: Arc<dyn Device>,
    templates: Vec<Template>,
    cache: ModelCompilePipeline,
    plan: Arc<WeightPlan>,
    /// Tensors of the file that later programs may want in another form, by their names.
    on_host: BTreeMap<String, Vec<u8>>,
    model: ModelId,
    states: Vec<StateDecl>,
    /// States and arena, once a program needs them.
    memory: Option<(SessionId, Vec<u64>)>,
    variants: Vec<Variant>,
    /// Work to do before the next submission.
    ahead: Ahead,
    /// The number of the run that may be polled; earlier ones were cancelled.
    turn: u64,
}

impl Session {
    /// Names of all entries.
    pub fn entries(&self) -> impl Iterator<Item = &str> {
        self.templates.iter().map(|t| t.name.as_str())
    }

    /// The inputs of an entry, in the order its author gave.
    ///
    /// # Errors
    /// `Usage` for a name that no entry has.
    pub fn inputs(&self, entry: &str) -> Result<&[Signature]> {
        Ok(&self.templates[self.entry(entry)?].inputs)
    }

    /// The outputs of an entry.
    ///
    /// # Errors
    /// `Usage` for a name that no entry has.
    pub fn outputs(&self, entry: &str) -> Result<&[Signature]> {
        Ok(&self.templates[self.entry(entry)?].outputs)
    }

    /// The device.
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// Which executor runs.
    pub fn info(&self) -> DeviceInfo {
        self.device.info()
    }

    /// The programs on the device: first those that live as long as the session, then the others, the most recently
    /// used one last.
    pub fn programs(&self) -> impl Iterator<Item = (ProgramId, &Program)> {
        let stay = self.templates.iter().filter_map(|t| match &t.of {
            Source::Program(built) => Some(built),
            Source::Graph(_) => None,
        });
        let all = stay.chain(self.variants.iter().map(|v| &v.built));
        all.map(|b| (b.id, &*b.program))
    }

    /// The number of a state in [`WriteTo::State`](crate::runtime::device::WriteTo) and
    /// [`Memory::State`](crate::runtime::device::Memory).
    ///
    /// # Errors
    /// `Usage` for a name that no state has.
    pub fn state(&self, name: &str) -> Result<u32> {
        let found = self.states.iter().position(|s| s.name == name);
        found.map(|i| i as u32).ok_or_else(|| {
            let known: Vec<&str> = self.states.iter().map(|s| s.name.as_str()).collect();
            Error::usage(format!("the model has no state {name}"))
                .hint(format!("states: {}", known.join(", ")))
        })
    }

    /// Queues the program of an entry from [`Opening::of_programs`] or [`Opening::programs`], with writes to its
    /// inputs and to states. Several may be in flight; they run in the order in which they are queued. Poll the ticket
    /// with [`poll`](Self::poll).
    ///
    /// # Errors
    /// `Usage` for a name that no entry has, or an entry with a program for each set of sizes; errors of the device.
    pub fn submit(&self, entry: &str, how: &Submission<'_>) -> Result<Ticket> {
        self.device.submit_with(self.memory_id()?, self.own_program(entry)?, how)
    }

    /// Begins the program of such an entry: what it computes before it samples. The next call is a
    /// [`submit`](Self::submit) that says `begun`. True if the device does it at once: see [`Device::begin`].
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    pub fn begin(&self, entry: &str) -> Result<bool> {
        self.device.begin(self.memory_id()?, self.own_program(entry)?)
    }

    fn own_program(&self, entry: &str) -> Result<ProgramId> {
        match &self.templates[self.entry(entry)?].of {
            Source::Program(built) => Ok(built.id),
            Source::Graph(_) => Err(Error::usage(format!("{entry} has no program of its own"))
                .hint("run it with its inputs: their sizes select the program")),
        }
    }

    /// Asks for the answer of a ticket of [`submit`](Self::submit): the outputs' bytes, in the entry's order.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn poll(&self, ticket: Ticket, cx: &mut Context<'_>) -> Poll<Result<Outputs>> {
        self.device.poll(ticket, cx)
    }

    fn entry(&self, name: &str) -> Result<usize> {
        self.templates.iter().position(|t| t.name == name).ok_or_else(|| {
            let known: Vec<&str> = self.entries().collect();
            Error::usage(format!("the model has no entry {name}"))
                .hint(format!("entries: {}", known.join(", ")))
        })
    }

    /// Starts to run an entry. Inputs are tensors of the host ([`TensorRef`]), of the device ([`DeviceTensor`]), or
    /// some of both ([`Given`]). This cancels an earlier run that was not polled to its end.
    ///
    /// Ids of the host that a table is read by directly, such as a text's tokens, must be rows of it; a negative one
    /// counts from its end. Ids of the device are not checked: for one outside, the nearest row is read.
    ///
    /// # Errors
    /// `Usage` for an unknown entry, inputs that do not fit, with what was given and what is wanted, or an id that is
    /// no row of its table, with its position; errors of the compiler and the device. After an error the session is
    /// as before.
    pub fn start<'a, T>(&mut self, entry: &str, inputs: &[(&'a str, T)]) -> Result<Run>
    where
        T: Copy + Into<Given<'a>>,
    {
        let entry = self.entry(entry)?;
        self.turn += 1;
        let inputs: Vec<(&str, Given<'_>)> = inputs.iter().map(|i| (i.0, i.1.into())).collect();
        Run::start(self, entry, &inputs)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some((session, _)) = self.memory.take() {
            self.device.free(AnyId::Session(session));
        }
        self.device.free(AnyId::Model(self.model));
    }
}
