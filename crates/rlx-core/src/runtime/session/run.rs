//! A run of an entry: what it needs on the device is made, then it is submitted, then it answers.

use super::tensor::{ordered, sizes};
use super::{Built, Session, Source, Tensor, TensorRef, VARIANTS, Variant};
use crate::error::{Code, Error, Result};
use crate::ir::GraphModule;
use crate::ir::lir::Program;
use crate::plan::Origin;
use crate::reference::make::make;
use crate::runtime::device::{
    AnyId, Bytes, Memory, Placed, ProgramId, SessionId, Ticket, Write, WriteTo,
};
use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::task::{Context, Poll, ready};

/// A run in progress. It borrows nothing: poll it with its session.
pub struct Run {
    turn: u64,
    built: Built,
    inputs: Vec<Write>,
    answer: Option<Ticket>,
}

/// What a ticket answers for.
#[derive(Clone, Copy)]
enum Made {
    /// Buffers of constants.
    Weights,
    /// A program.
    Program(ProgramId),
    /// States and arena.
    Memory,
}

/// States on their way to a larger arena's session.
struct Moving {
    /// Reads of the states, the last one first.
    reads: Vec<Ticket>,
    have: Vec<Vec<u8>>,
    arena: u64,
}

/// What is to be done before the next submission, whoever asked for it: a run may be given up half-way.
#[derive(Default)]
pub(super) struct Ahead {
    moving: Option<Moving>,
    /// The last one first.
    making: Vec<(Ticket, Made)>,
    /// Entries of the plan whose bytes are to be made.
    constants: Vec<usize>,
    /// Contents of states that moved.
    states: Vec<Write>,
    /// Buffers of constants that could not be made.
    broken: Option<Error>,
}

/// A multiple of 4 bytes.
fn padded(bytes: &[u8]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    out.resize(bytes.len().next_multiple_of(4), 0);
    out
}

impl Run {
    pub(super) fn start(
        session: &mut Session,
        entry: usize,
        given: &[(&str, TensorRef<'_>)],
    ) -> Result<Run> {
        if let Some(e) = &session.ahead.broken {
            return Err(e.clone());
        }
        let template = &session.templates[entry];
        let given = ordered(&template.name, &template.inputs, given)?;
        let binding = sizes(&template.name, &template.inputs, &given)?;
        let built = match &template.of {
            Source::Program(built) => built.clone(),
            Source::Graph(graph, options) => {
                let make = || Ok(GraphModule::Mir(graph.clone()));
                let cache = &mut session.cache;
                let compiled = cache.get_or_compile(entry as u64, &binding, options, make)?;
                session.variant(&compiled.lir)?
            }
        };
        session.reserve(built.program.arena_bytes)?;
        let to = |i: u32, t: &TensorRef<'_>| Write {
            to: WriteTo::Input(i),
            offset: 0,
            bytes: padded(t.bytes),
        };
        let inputs = given.iter().zip(0..).map(|(t, i)| to(i, t));
        let inputs = inputs.filter(|w| !w.bytes.is_empty()).collect();
        Ok(Run { turn: session.turn, built, inputs, answer: None })
    }

    /// Goes on as far as it can without waiting; answers once, with the outputs in the entry's order.
    ///
    /// # Errors
    /// `Cancelled` where another run was started since; what the device refuses. The session can be used
    /// on, unless the device is lost or has no room for constants.
    pub fn poll(
        &mut self,
        session: &mut Session,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Vec<Tensor>>> {
        if self.turn != session.turn {
            let what = "another run of the session was started before this one answered";
            return Poll::Ready(Err(Error::new(Code::Cancelled, what)));
        }
        let ticket = match self.answer {
            Some(ticket) => ticket,
            None => {
                ready!(session.poll_ahead(cx))?;
                let mut writes = session.ahead.states.clone();
                writes.append(&mut self.inputs);
                let ticket = session.device.submit(session.memory_id()?, self.built.id, &writes)?;
                session.ahead.states.clear();
                *self.answer.insert(ticket)
            }
        };
        let outputs = ready!(session.device.poll(ticket, cx))?;
        let named = self.built.program.outputs.iter().zip(outputs.values);
        let tensors = named.map(|(o, mut bytes)| {
            bytes.truncate(o.slice.bytes as usize);
            let (name, ty) = (o.name.clone(), &o.slice.ty);
            Ok(Tensor { name, dtype: ty.dtype, dims: ty.shape.static_dims()?, bytes })
        });
        Poll::Ready(tensors.collect())
    }
}

impl Session {
    /// The program on the device, built if it is not there.
    fn variant(&mut self, compiled: &Arc<Program>) -> Result<Built> {
        if let Some(i) = self.variants.iter().position(|v| Arc::ptr_eq(&v.compiled, compiled)) {
            let variant = self.variants.remove(i);
            let found = variant.built.clone();
            self.variants.push(variant);
            return Ok(found);
        }
        if compiled.states != self.states {
            return Err(Error::internal("a program has other states than its session"));
        }
        if let Some(plan) = self.plan.extended(compiled, &self.device.target().limits)? {
            let plan = Rc::new(plan);
            let ticket = self.device.extend(self.model, plan.clone())?;
            self.ahead.making.insert(0, (ticket, Made::Weights));
            self.ahead.constants.extend(self.plan.entries.len()..plan.entries.len());
            self.plan = plan;
        }
        let mut program = Program::clone(compiled);
        self.plan.bind(&mut program)?;
        let program = Rc::new(program);
        let (id, ticket) = self.device.build(self.model, program.clone())?;
        self.ahead.making.insert(0, (ticket, Made::Program(id)));
        if self.variants.len() >= VARIANTS {
            let old = self.variants.remove(0);
            self.device.free(AnyId::Program(old.built.id));
        }
        let built = Built { program, id };
        self.variants.push(Variant { compiled: compiled.clone(), built: built.clone() });
        Ok(built)
    }

    /// Room for an arena of so many bytes.
    fn reserve(&mut self, arena: u64) -> Result<()> {
        if let Some(moving) = &mut self.ahead.moving {
            moving.arena = moving.arena.max(arena);
            return Ok(());
        }
        match self.memory {
            Some((_, have)) if have >= arena => Ok(()),
            Some((session, _)) if !self.states.is_empty() => {
                let mut reads = Vec::new();
                for (i, s) in (0..).zip(&self.states) {
                    let bytes = s.bytes.next_multiple_of(4);
                    reads.insert(0, self.device.read(session, Memory::State(i), 0, bytes)?);
                }
                self.ahead.moving = Some(Moving { reads, have: Vec::new(), arena });
                Ok(())
            }
            _ => self.make_memory(arena),
        }
    }

    fn make_memory(&mut self, arena: u64) -> Result<()> {
        if let Some((old, _)) = self.memory.take() {
            self.device.free(AnyId::Session(old));
        }
        let (session, ticket) = self.device.session(self.model, &self.states, arena)?;
        self.memory = Some((session, arena));
        self.ahead.making.insert(0, (ticket, Made::Memory));
        Ok(())
    }

    pub(super) fn memory_id(&self) -> Result<SessionId> {
        self.memory.map(|m| m.0).ok_or_else(|| Error::internal("a session without memory"))
    }

    /// Does what is to be done before a submission.
    fn poll_ahead(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        while let Some(ticket) = self.ahead.moving.as_ref().and_then(|m| m.reads.last().copied()) {
            match (ready!(self.device.poll(ticket, cx)), &mut self.ahead.moving) {
                (Ok(mut outputs), Some(moving)) => {
                    moving.reads.pop();
                    moving.have.push(outputs.values.pop().unwrap_or_default());
                }
                // The states stand where they were; the next run tries again.
                (answer, moving) => {
                    *moving = None;
                    return Poll::Ready(answer.map(|_| ()));
                }
            }
        }
        if let Some(Moving { have, arena, .. }) = self.ahead.moving.take() {
            let states = have.into_iter().zip(0..);
            let states = states.map(|(bytes, i)| Write { to: WriteTo::State(i), offset: 0, bytes });
            self.ahead.states = states.collect();
            self.make_memory(arena)?;
        }
        while let Some(&(ticket, made)) = self.ahead.making.last() {
            let answer = ready!(self.device.poll(ticket, cx));
            self.ahead.making.pop();
            if let Err(e) = answer {
                match made {
                    Made::Weights => self.ahead.broken = Some(e.clone()),
                    Made::Program(id) => {
                        self.variants.retain(|v| v.built.id != id);
                        self.device.free(AnyId::Program(id));
                    }
                    Made::Memory => {
                        if let Some((session, _)) = self.memory.take() {
                            self.device.free(AnyId::Session(session));
                        }
                    }
                }
                return Poll::Ready(Err(e));
            }
        }
        while let Some(&i) = self.ahead.constants.last() {
            let entry = &self.plan.entries[i];
            let Origin::Made(recipe) = &entry.origin else {
                return Poll::Ready(Err(Error::internal("a constant of a file")));
            };
            let bytes = make(recipe, &|_| None)?;
            let at = Placed { buffer: entry.buffer, offset: entry.offset };
            ready!(self.device.poll_put(self.model, at, Bytes::Slice(&bytes), cx))?;
            self.ahead.constants.pop();
        }
        Poll::Ready(Ok(()))
    }
}
