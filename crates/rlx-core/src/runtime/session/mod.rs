//! A session: what a model can be asked, on a device, with tensors of any sizes that it takes.
//!
//! ```text
//! entries ─▶ Opening (weights: allocate, fill) ─▶ Session ─ start(entry, inputs) ─▶ Run ─ poll ─▶ tensors
//!                                                    │
//!                                     sizes of the inputs ─▶ variant: compiled and built once
//! ```
//!
//! Nothing here reads a file or waits: a host puts weights where [`Opening`] says, and polls. Weights are
//! loaded once and read by the programs of all sizes; what a program needs besides are constants, which
//! are made when it is built.

mod opening;
mod run;
mod tensor;

pub use crate::ir::Entry;
pub use opening::Opening;
pub use run::Run;
pub use tensor::{Signature, Tensor, TensorRef};

use self::run::Ahead;
use super::device::{AnyId, Device, DeviceInfo, ModelId, ProgramId, SessionId};
use crate::compile::ModelCompilePipeline;
use crate::error::{Error, Result};
use crate::ir::lir::{Program, StateDecl};
use crate::ir::mir::Graph;
use crate::plan::WeightPlan;
use crate::target::CompileOptions;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Programs that a session keeps, one for each entry and sizes.
pub const VARIANTS: usize = 8;

/// An entry of a session, lowered with its symbols unbound.
struct Template {
    name: String,
    graph: Graph,
    inputs: Vec<Signature>,
    outputs: Vec<Signature>,
}

/// A program on the device. The last one used stands last.
struct Variant {
    /// As the compiler's cache handed it out.
    compiled: Arc<Program>,
    /// Its weights bound to the plan.
    program: Rc<Program>,
    id: ProgramId,
}

/// A model on a device, and what it can be asked. Dropping it frees everything there.
pub struct Session {
    device: Rc<dyn Device>,
    templates: Vec<Template>,
    options: CompileOptions,
    cache: ModelCompilePipeline,
    plan: Rc<WeightPlan>,
    model: ModelId,
    states: Vec<StateDecl>,
    /// States and arena, once a program has run.
    memory: Option<(SessionId, u64)>,
    variants: Vec<Variant>,
    /// What is to be done before the next submission.
    ahead: Ahead,
    /// The run that may be polled; others were given up.
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
    pub fn device(&self) -> &Rc<dyn Device> {
        &self.device
    }

    /// Which executor runs.
    pub fn info(&self) -> DeviceInfo {
        self.device.info()
    }

    /// The programs that are on the device, the last one used last.
    pub fn programs(&self) -> impl Iterator<Item = &Program> {
        self.variants.iter().map(|v| &*v.program)
    }

    fn entry(&self, name: &str) -> Result<usize> {
        self.templates.iter().position(|t| t.name == name).ok_or_else(|| {
            let known: Vec<&str> = self.entries().collect();
            Error::usage(format!("the model has no entry {name}"))
                .hint(format!("entries: {}", known.join(", ")))
        })
    }

    /// Starts to run an entry. What ran before and was not polled to its end is given up.
    ///
    /// # Errors
    /// `Usage` for an entry or inputs that do not fit, with what was given and what is wanted; else as the
    /// compiler and the device. The session stays as it was then.
    pub fn start(&mut self, entry: &str, inputs: &[(&str, TensorRef<'_>)]) -> Result<Run> {
        let entry = self.entry(entry)?;
        self.turn += 1;
        Run::start(self, entry, inputs)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some((session, _)) = self.memory {
            self.device.free(AnyId::Session(session));
        }
        self.device.free(AnyId::Model(self.model));
    }
}
