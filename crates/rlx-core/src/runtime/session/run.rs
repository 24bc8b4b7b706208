//! A run of an entry: it prepares the device, submits the program, then answers with the outputs.

use super::tensor::{ordered, sizes};
use super::{Built, DeviceTensor, Given, Session, Source, Template, Tensor, VARIANTS, Variant};
use crate::error::{Code, Error, Result};
use crate::ir::GraphModule;
use crate::ir::lir::Program;
use crate::plan::Origin;
use crate::reference::make::make;
use crate::runtime::device::{
    AnyId, Bytes, Copy, Memory, Placed, ProgramId, SessionId, Submission, Ticket, Write, WriteTo,
};
use alloc::boxed::Box;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::task::{Context, Poll, ready};

/// A run in progress. It borrows nothing: poll it with its session.
pub struct Run {
    turn: u64,
    built: Built,
    /// Writes to inputs, and to states that a text begins with.
    inputs: Vec<Write>,
    /// Inputs that are on the device.
    copies: Vec<(u32, DeviceTensor)>,
    /// Outputs that stay on the device.
    keep: Vec<(u32, DeviceTensor)>,
    answers: Option<Answers>,
}

/// The answers of a submission.
struct Answers {
    /// The ticket of the submission; its answer has the outputs if all of them are read back.
    ended: Option<Ticket>,
    /// Tickets of outputs that are read one by one, because others stay on the device; the last one first.
    reads: Vec<Ticket>,
    values: Vec<Vec<u8>>,
}

/// What a ticket stands for.
#[derive(Clone, Copy)]
pub(super) enum Made {
    /// Buffers of weights that the host makes.
    Weights,
    /// A program.
    Program(ProgramId),
    /// States and arena.
    Memory,
    /// A larger arena.
    Arena,
    /// A tensor.
    Tensor,
}

/// Work to do before the next submission. It belongs to the session, because a run may be cancelled half-way.
#[derive(Default)]
pub(super) struct Ahead {
    /// Tickets of what is being made, the last one first.
    pub(super) making: Vec<(Ticket, Made)>,
    /// Entries of the plan that the host has still to make.
    made: Vec<usize>,
    /// The error of weights whose buffers could not be made.
    broken: Option<Error>,
}

/// The bytes, padded with zeros to a multiple of 4.
fn padded(bytes: &[u8]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    out.resize(bytes.len().next_multiple_of(4), 0);
    out
}

impl Run {
    pub(super) fn start(
        session: &mut Session,
        entry: usize,
        given: &[(&str, Given<'_>)],
    ) -> Result<Run> {
        if let Some(e) = &session.ahead.broken {
            return Err(e.clone());
        }
        let template = &session.templates[entry];
        let given = ordered(&template.name, &template.inputs, given)?;
        for ids in &template.ids {
            if let Given::Host(t) = &given[ids.input()] {
                let name = &template.inputs[ids.input()].name;
                ids.check(name, t).map_err(|e| e.at(template.name.clone()))?;
            }
        }
        let binding = sizes(&template.name, &template.inputs, &given)?;
        let (mut inputs, mut copies) = (Vec::new(), Vec::new());
        let built = match &template.of {
            Source::Program(built) => built.clone(),
            Source::Graph(of) => {
                let make = || Ok(GraphModule::Mir(Box::new(of.graph.clone())));
                let cache = &mut session.cache;
                let compiled = cache.get_or_compile(entry as u64, &binding, &of.options, make)?;
                if let (Some(begin), Some(control)) = (&of.begin, &compiled.lir.control) {
                    inputs = begin.writes(control).map_err(|e| e.at(template.name.clone()))?;
                }
                session.variant(&compiled.lir)?
            }
        };
        session.reserve(Some(&built.program))?;
        for (given, i) in given.iter().zip(0..) {
            match given {
                Given::Host(t) if t.bytes.is_empty() => {}
                Given::Host(t) => {
                    let to = WriteTo::Input(i);
                    inputs.push(Write { to, offset: 0, bytes: padded(t.bytes) });
                }
                Given::Device(t) => {
                    t.memory(session)?;
                    copies.push((i, DeviceTensor::clone(t)));
                }
            }
        }
        Ok(Run { turn: session.turn, built, inputs, copies, keep: Vec::new(), answers: None })
    }

    /// Keeps an output on the device, as an input of other runs of the session; this run does not answer with it.
    /// Call it before the first poll.
    ///
    /// # Errors
    /// `Usage` for a name that no output has, an output that is kept already, or a run that was polled; errors of
    /// the device.
    pub fn keep(&mut self, session: &mut Session, output: &str) -> Result<DeviceTensor> {
        self.current(session)?;
        let program = self.built.program.clone();
        let Some(i) = program.outputs.iter().position(|o| o.name == output) else {
            let known: Vec<&str> = program.outputs.iter().map(|o| o.name.as_str()).collect();
            return Err(Error::usage(format!("there is no output {output}"))
                .hint(format!("outputs: {}", known.join(", "))));
        };
        if self.answers.is_some() || self.keep.iter().any(|k| k.0 == i as u32) {
            let what = format!("output {output} stays already, or the run was polled before");
            return Err(Error::usage(what));
        }
        let ty = &program.outputs[i].slice.ty;
        let kept = session.room(output, ty.dtype, &ty.shape.static_dims()?)?;
        self.keep.push((i as u32, kept.clone()));
        Ok(kept)
    }

    fn current(&self, session: &Session) -> Result<()> {
        if self.turn == session.turn {
            return Ok(());
        }
        let what = "another run of the session was started before this one answered";
        Err(Error::new(Code::Cancelled, what))
    }

    /// Works as far as possible without waiting. Answers once, with the outputs in the entry's order, except those
    /// that stay on the device.
    ///
    /// # Errors
    /// `Cancelled` if another run was started since; errors of the device. The session stays usable, unless
    /// the device is lost or has no memory for further weights.
    pub fn poll(
        &mut self,
        session: &mut Session,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Vec<Tensor>>> {
        self.current(session)?;
        if self.answers.is_none() {
            ready!(session.poll_ahead(cx))?;
            self.answers = Some(self.submit(session)?);
        }
        let Some(answers) = &mut self.answers else { return Poll::Pending };
        if let Some(ticket) = answers.ended {
            answers.values = ready!(session.device.poll(ticket, cx))?.values;
            answers.ended = None;
        }
        while let Some(&ticket) = answers.reads.last() {
            let mut read = ready!(session.device.poll(ticket, cx))?;
            answers.reads.pop();
            answers.values.push(read.values.pop().unwrap_or_default());
        }
        let values = core::mem::take(&mut answers.values);
        let stays = |i: u32| self.keep.iter().any(|k| k.0 == i);
        let read = self.built.program.outputs.iter().zip(0..).filter(|(_, i)| !stays(*i));
        let tensors = read.zip(values).map(|((o, _), mut bytes)| {
            bytes.truncate(o.slice.bytes as usize);
            let (name, ty) = (o.name.clone(), &o.slice.ty);
            Ok(Tensor { name, dtype: ty.dtype, dims: ty.shape.static_dims()?, bytes })
        });
        Poll::Ready(tensors.collect())
    }

    /// Queues the inputs, the program, and the copies and reads of its outputs.
    fn submit(&mut self, session: &Session) -> Result<Answers> {
        let (device, s, p) = (&session.device, session.memory_id()?, self.built.id);
        let outputs = &self.built.program.outputs;
        let copy = |from, to, bytes: u64| {
            let bytes = bytes.next_multiple_of(4);
            Copy { from, from_offset: 0, to, to_offset: 0, bytes }
        };
        let mut copies = Vec::new();
        for (i, t) in &self.copies {
            copies.push(copy(t.memory(session)?, Memory::Input(p, *i), t.bytes()?));
        }
        device.copy(s, &copies)?;
        let writes = core::mem::take(&mut self.inputs);
        let read = self.keep.is_empty();
        let ticket = device.submit_with(s, p, &Submission { read, ..Submission::new(&writes) })?;
        let mut answers = Answers { ended: Some(ticket), reads: Vec::new(), values: Vec::new() };
        if read {
            return Ok(answers);
        }
        copies.clear();
        for (i, t) in &self.keep {
            copies.push(copy(Memory::Output(p, *i), t.memory(session)?, t.bytes()?));
        }
        device.copy(s, &copies)?;
        for (o, i) in outputs.iter().zip(0..) {
            if self.keep.iter().all(|k| k.0 != i) {
                let bytes = o.slice.bytes.next_multiple_of(4);
                answers.reads.insert(0, device.read(s, Memory::Output(p, i), 0, bytes)?);
            }
        }
        Ok(answers)
    }
}

impl Session {
    /// The program on the device; builds it if it is not there.
    fn variant(&mut self, compiled: &Arc<Program>) -> Result<Built> {
        if let Some(i) = self.variants.iter().position(|v| Arc::ptr_eq(&v.compiled, compiled)) {
            let variant = self.variants.remove(i);
            let found = variant.built.clone();
            self.variants.push(variant);
            return Ok(found);
        }
        let built = self.build(compiled)?;
        if self.variants.len() >= VARIANTS {
            let old = self.variants.remove(0);
            self.device.free(AnyId::Program(old.built.id));
        }
        self.variants.push(Variant { compiled: compiled.clone(), built: built.clone() });
        Ok(built)
    }

    /// Builds a program on the device. It is there once the work ahead is done.
    fn build(&mut self, compiled: &Program) -> Result<Built> {
        // A session may have further states behind those of its programs.
        if !self.states.starts_with(&compiled.states) {
            return Err(Error::internal("a program has other states than its session"));
        }
        if let Some(plan) = self.plan.extended(compiled, &self.device.target().limits)? {
            let plan = Arc::new(plan);
            let ticket = self.device.extend(self.model, plan.clone())?;
            self.ahead.making.insert(0, (ticket, Made::Weights));
            self.ahead.made.extend(self.plan.entries.len()..plan.entries.len());
            self.plan = plan;
        }
        let mut program = Program::clone(compiled);
        self.plan.bind(&mut program)?;
        let program = Arc::new(program);
        let (id, ticket) = self.device.build(self.model, program.clone())?;
        self.ahead.making.insert(0, (ticket, Made::Program(id)));
        Ok(Built { program, id })
    }

    /// Adds a program that lives as long as the session, under a name of its own, for [`submit`](Self::submit) once
    /// [`poll_added`](Self::poll_added) has answered. Its weights must not be bound to a plan yet.
    ///
    /// # Errors
    /// `Internal` for a program with other states; errors of the device.
    pub fn add(&mut self, name: &str, compiled: &Program) -> Result<()> {
        if let Some(e) = &self.ahead.broken {
            return Err(e.clone());
        }
        let built = self.build(compiled)?;
        self.reserve(Some(compiled))?;
        self.templates.push(Template::built(name.into(), built));
        Ok(())
    }

    /// Waits until all programs are there that were added.
    ///
    /// # Errors
    /// Errors of the device; a program that it refused is not added.
    pub fn poll_added(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.poll_ahead(cx)
    }

    /// Makes sure that the arena has this many bytes.
    pub(super) fn reserve(&mut self, program: Option<&Program>) -> Result<()> {
        let mut arena = self.memory.as_ref().map_or(Vec::new(), |m| m.1.clone());
        let wider = program.is_some_and(|p| p.widen(&mut arena));
        match self.memory {
            Some(_) if !wider => {}
            Some((session, _)) => {
                let ticket = self.device.grow(session, &arena)?;
                self.memory = Some((session, arena));
                self.ahead.making.insert(0, (ticket, Made::Arena));
            }
            None => {
                let (session, ticket) = self.device.session(self.model, &self.states, &arena)?;
                self.memory = Some((session, arena));
                self.ahead.making.insert(0, (ticket, Made::Memory));
            }
        }
        Ok(())
    }

    pub(super) fn memory_id(&self) -> Result<SessionId> {
        self.memory.as_ref().map(|m| m.0).ok_or_else(|| Error::internal("a session without memory"))
    }

    /// Does the work ahead of a submission.
    fn poll_ahead(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        while let Some(&(ticket, made)) = self.ahead.making.last() {
            let answer = ready!(self.device.poll(ticket, cx));
            self.ahead.making.pop();
            if let Err(e) = answer {
                match made {
                    Made::Weights => self.ahead.broken = Some(e.clone()),
                    Made::Program(id) => {
                        self.variants.retain(|v| v.built.id != id);
                        self.templates
                            .retain(|t| !matches!(&t.of, Source::Program(built) if built.id == id));
                        self.device.free(AnyId::Program(id));
                    }
                    Made::Memory => {
                        if let Some((session, _)) = self.memory.take() {
                            self.device.free(AnyId::Session(session));
                        }
                    }
                    // The next run makes the arena again.
                    Made::Arena => {
                        if let Some((_, arena)) = &mut self.memory {
                            arena.clear();
                        }
                    }
                    Made::Tensor => {}
                }
                return Poll::Ready(Err(e));
            }
        }
        while let Some(&i) = self.ahead.made.last() {
            let entry = &self.plan.entries[i];
            let Origin::Made(recipe) = &entry.origin else {
                return Poll::Ready(Err(Error::internal("a weight of a file")));
            };
            let bytes = make(recipe, &|name| self.on_host.get(name).map(Vec::as_slice))?;
            let at = Placed { buffer: entry.buffer, offset: entry.offset };
            ready!(self.device.poll_put(self.model, at, Bytes::Slice(&bytes), cx))?;
            self.ahead.made.pop();
        }
        Poll::Ready(Ok(()))
    }
}
