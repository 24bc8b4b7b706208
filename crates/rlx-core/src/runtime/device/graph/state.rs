//! What a graph device has: models, compiled programs, sessions, and what its tickets wait for.

use super::held::{Held, Part, zeros};
use super::{Argument, Backend, lost};
use crate::error::{Code, Error, Result};
use crate::ir::lir::{Program, StateDecl};
use crate::ir::mir::{Param, ParamKind};
use crate::plan::{Closed, WeightPlan};
use crate::runtime::device::table::{Ids, Table};
use crate::runtime::device::{
    Bytes, Copy, Counters, Memory, ModelId, Outputs, Placed, ProgramId, SessionId, Submission,
    TensorId, Ticket, WriteTo,
};
use crate::types::Type;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Where an argument of a run comes from.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Source {
    /// An entry of the weight plan from this byte on, as a tensor of this type.
    Weight(usize, u64, Type),
    /// A state.
    State(usize),
    /// An input.
    Input(usize),
}

/// The source of each parameter of a program's graph.
pub(super) fn sources(
    closed: &Closed,
    program: &Program,
    plan: &WeightPlan,
) -> Result<Vec<Source>> {
    let source = |(p, name): (&Param, &String)| {
        let ty = || closed.graph.ty(p.value).clone();
        let weight = |(entry, offset)| Source::Weight(entry, offset, ty());
        let found = match p.kind {
            ParamKind::Weight => plan.home(name).map(weight),
            ParamKind::State => program.state(name).map(Source::State),
            ParamKind::Input => program.input(name).map(Source::Input),
        };
        found.ok_or_else(|| Error::internal(format!("parameter {name} is not in the plan")))
    };
    closed.graph.params.iter().zip(&closed.names).map(source).collect()
}

/// A model's weights.
pub(super) struct Model<T> {
    pub plan: Arc<WeightPlan>,
    /// What the host has of each entry: all of it, until a run has uploaded it whole.
    host: Vec<Bytes<'static>>,
    owned: Vec<Vec<u8>>,
    /// Tensors of entries: entry, first byte, type.
    tensors: Vec<(usize, u64, Type, Arc<T>)>,
}

impl<T> Model<T> {
    pub(super) fn new(plan: Arc<WeightPlan>) -> Self {
        let mut model = Model { host: Vec::new(), owned: Vec::new(), tensors: Vec::new(), plan };
        model.widen();
        model
    }

    fn widen(&mut self) {
        self.host.resize_with(self.plan.entries.len(), || Bytes::Slice(&[]));
        self.owned.resize_with(self.plan.entries.len(), Vec::new);
    }

    pub(super) fn extend(&mut self, plan: Arc<WeightPlan>) -> Result<()> {
        self.plan.begins(&plan)?;
        self.plan = plan;
        self.widen();
        Ok(())
    }

    /// Takes bytes of one entry.
    pub(super) fn put(&mut self, at: Placed, bytes: &Bytes<'_>) -> Result<()> {
        let data = bytes.as_slice();
        let found = self.plan.entries.iter().enumerate().find_map(|(i, e)| {
            let from = at.offset.checked_sub(e.offset)?;
            let end = from.checked_add(data.len() as u64)?;
            let within = e.buffer == at.buffer && from < e.bytes.max(1);
            // Entries begin at whole words, so that the last one may come with what fills its last word.
            (within && end <= e.bytes.next_multiple_of(4)).then_some((i, from as usize, e.bytes))
        });
        let Some((i, from, size)) = found else {
            return Err(Error::internal(format!(
                "{} bytes at {} of weight buffer {} are not within one weight",
                data.len(),
                at.offset,
                at.buffer
            )));
        };
        self.tensors.retain(|t| t.0 != i);
        match bytes {
            Bytes::Shared { map, offset, len } if from == 0 && *len as u64 == size => {
                self.host[i] = Bytes::Shared { map: map.clone(), offset: *offset, len: *len };
            }
            _ => {
                if self.owned[i].len() as u64 != size {
                    self.owned[i] = zeros(size)?;
                }
                let end = (from + data.len()).min(self.owned[i].len());
                self.owned[i][from..end].copy_from_slice(&data[..end - from]);
            }
        }
        Ok(())
    }

    /// The bytes of an entry that the host has.
    fn bytes(&self, entry: usize) -> &[u8] {
        match self.owned.get(entry) {
            Some(owned) if !owned.is_empty() => owned,
            _ => self.host.get(entry).map_or(&[], Bytes::as_slice),
        }
    }

    /// A weight on the device.
    fn tensor<B: Backend<Tensor = T>>(
        &mut self,
        backend: &B,
        (entry, offset, ty): (usize, u64, &Type),
    ) -> Result<Arc<T>> {
        let same = |t: &&(usize, u64, Type, Arc<T>)| t.0 == entry && t.1 == offset && t.2 == *ty;
        if let Some(found) = self.tensors.iter().find(same) {
            return Ok(found.3.clone());
        }
        let (from, size) = (offset as usize, ty.bytes()? as usize);
        let range = from..from.saturating_add(size);
        let whole =
            from == 0 && self.plan.entries.get(entry).is_some_and(|e| e.bytes == size as u64);
        let tensor = match self.bytes(entry).get(range.clone()) {
            Some(bytes) => backend.upload(ty, bytes)?,
            // The host has given its bytes away: the device has the entry as another tensor.
            None => {
                let all = self.tensors.iter().find(|t| t.0 == entry && t.1 == 0);
                let missing = || Error::internal(format!("weight {entry} was never loaded"));
                let mut read = backend.read(&all.ok_or_else(missing)?.3)?;
                let bytes = backend.poll(&mut read, true)?.unwrap_or_default();
                backend.upload(ty, bytes.get(range).ok_or_else(missing)?)?
            }
        };
        if whole {
            self.owned[entry] = Vec::new();
        }
        let tensor = Arc::new(tensor);
        self.tensors.push((entry, offset, ty.clone(), tensor.clone()));
        Ok(tensor)
    }
}

/// A compiled program.
pub(super) struct Built<B: Backend> {
    pub model: ModelId,
    pub program: Arc<Program>,
    pub executable: B::Executable,
    /// Of each argument.
    pub sources: Vec<Source>,
    /// Types of the outputs.
    pub outputs: Vec<Type>,
}

/// States, inputs and tensors.
pub(super) struct Session<B: Backend> {
    pub model: ModelId,
    states: Vec<(StateDecl, Held<B::Tensor>)>,
    inputs: Table<ProgramId, Vec<Held<B::Tensor>>>,
    pub tensors: Table<TensorId, Held<B::Tensor>>,
    /// Outputs of the program that ran last.
    pub outputs: Option<(ProgramId, Vec<Held<B::Tensor>>)>,
    /// The program that has begun, of which nothing runs before its rest.
    pub begun: Option<ProgramId>,
}

impl<B: Backend> Session<B> {
    pub(super) fn new(model: ModelId, states: Vec<(StateDecl, Held<B::Tensor>)>) -> Self {
        let (inputs, tensors) = (Table::new(), Table::new());
        Session { model, states, inputs, tensors, outputs: None, begun: None }
    }
}

/// Reads of a ticket.
pub(super) struct Reading<R> {
    session: SessionId,
    program: Option<ProgramId>,
    pub parts: Vec<Part<R>>,
}

/// What a ticket waits for.
pub(super) enum Pending<R> {
    Answered(Result<Outputs>),
    Reading(Reading<R>),
}

pub(super) struct State<B: Backend> {
    pub ids: Ids,
    pub models: Table<ModelId, Model<B::Tensor>>,
    pub programs: Table<ProgramId, Built<B>>,
    pub sessions: Table<SessionId, Session<B>>,
    pub tickets: Table<Ticket, Pending<B::Read>>,
    pub counters: Counters,
}

impl<B: Backend> Default for State<B> {
    fn default() -> Self {
        State {
            ids: Ids::default(),
            models: Table::new(),
            programs: Table::new(),
            sessions: Table::new(),
            tickets: Table::new(),
            counters: Counters::default(),
        }
    }
}

pub(super) fn unknown(what: &str, id: u32) -> Error {
    Error::usage(format!("the device has no {what} {id}")).hint("it was freed, or never made")
}

impl<B: Backend> State<B> {
    fn ticket(&mut self, pending: Pending<B::Read>) -> Ticket {
        let t = Ticket(self.ids.next());
        self.tickets.insert(t, pending);
        t
    }

    /// A ticket that has its answer: work that is done when the call returns.
    pub(super) fn answered<T>(&mut self, answer: Result<T>) -> Ticket {
        self.ticket(Pending::Answered(answer.map(|_| Outputs::default())))
    }

    /// Runs a program.
    pub(super) fn submit(
        &mut self,
        backend: &B,
        (id, p): (SessionId, ProgramId),
        how: &Submission<'_>,
    ) -> Result<Ticket> {
        let built = self.programs.get(&p).ok_or_else(|| unknown("program", p.0))?;
        let session = self.sessions.get_mut(&id).ok_or_else(|| unknown("session", id.0))?;
        let model = self.models.get_mut(&built.model).filter(|_| built.model == session.model);
        let program = &built.program;
        let same = |(a, b): (&StateDecl, &(StateDecl, Held<B::Tensor>))| a.ty == b.0.ty;
        let states = program.states.len() <= session.states.len()
            && program.states.iter().zip(&session.states).all(same);
        let Some(model) = model.filter(|_| states) else {
            return Err(Error::usage("the program is of another model than the session"));
        };
        how.check_begun(session.begun.take(), p, program.cut())?;
        session.inputs.get_or_make(p, || {
            program.inputs.iter().map(|i| zeros(i.bytes).map(Held::Host)).collect()
        })?;
        let inputs = session.inputs.get_mut(&p).ok_or_else(|| unknown("program", p.0))?;
        for w in how.writes {
            let size = match w.to {
                WriteTo::Input(n) => program.inputs.get(n as usize).map(|i| i.bytes),
                WriteTo::State(n) => program.states.get(n as usize).map(|s| s.bytes),
            };
            let bytes = w.bytes.len() as u64;
            let end = w.offset.checked_add(bytes);
            let fits = end.zip(size).is_some_and(|(end, size)| {
                let whole = bytes.is_multiple_of(4) || end == size;
                end <= size.next_multiple_of(4) && whole && w.offset.is_multiple_of(4)
            });
            if !fits {
                let what =
                    format!("a write of {bytes} bytes at {} does not fit {:?}", w.offset, w.to);
                return Err(Error::usage(what));
            }
        }
        for w in how.writes {
            let to = match w.to {
                WriteTo::Input(n) => inputs.get_mut(n as usize),
                WriteTo::State(n) => session.states.get_mut(n as usize).map(|s| &mut s.1),
            };
            if let Some(to) = to {
                write(backend, to, w.offset as usize, &w.bytes)?;
            }
        }
        session.outputs = None;
        let mut arguments = Vec::with_capacity(built.sources.len());
        // Weights and inputs come first: where one of them fails, no state is lost.
        let mut fixed = Vec::with_capacity(built.sources.len());
        for source in &built.sources {
            fixed.push(match source {
                Source::Weight(entry, offset, ty) => {
                    Some(model.tensor(backend, (*entry, *offset, ty))?)
                }
                Source::Input(n) => {
                    let input = inputs.get_mut(*n).zip(program.inputs.get(*n));
                    let (input, decl) = input.ok_or_else(|| unknown("input", *n as u32))?;
                    Some(input.tensor(backend, &decl.ty)?)
                }
                Source::State(_) => None,
            });
        }
        let mut given = Vec::new();
        for (source, fixed) in built.sources.iter().zip(fixed) {
            arguments.push(match (source, fixed) {
                (_, Some(tensor)) => Argument::Shared(tensor),
                (Source::State(n), None) => {
                    let (decl, held) = session.states.get_mut(*n).ok_or_else(lost)?;
                    given.push(*n);
                    held.give(backend, &decl.ty)?
                }
                _ => return Err(Error::internal("an argument has no source")),
            });
        }
        let results = backend.run(&built.executable, arguments)?;
        if results.len() != built.outputs.len() + given.len() {
            return Err(Error::internal(format!("a run gave {} results", results.len())));
        }
        let mut results = results.into_iter();
        let outputs: Vec<Held<B::Tensor>> = built
            .outputs
            .iter()
            .zip(results.by_ref())
            .map(|(ty, tensor)| Held::device(tensor, ty))
            .collect();
        for (n, tensor) in given.into_iter().zip(results) {
            let (decl, held) = &mut session.states[n];
            *held = Held::device(tensor, &decl.ty);
        }
        let read = if how.read { outputs.as_slice() } else { &[] };
        let parts = read
            .iter()
            .zip(&program.outputs)
            .map(|(held, o)| held.read(backend, 0..o.slice.bytes))
            .collect::<Result<Vec<_>>>()?;
        session.outputs = Some((p, outputs));
        self.counters.submits += 1;
        self.counters.dispatches += 1;
        Ok(self.ticket(Pending::Reading(Reading { session: id, program: Some(p), parts })))
    }

    /// Bytes of a memory in whole words.
    fn size(&self, id: SessionId, memory: Memory) -> Option<u64> {
        let session = self.sessions.get(&id)?;
        let program = |p| self.programs.get(&p).filter(|b| b.model == session.model);
        let bytes = match memory {
            Memory::State(n) => session.states.get(n as usize)?.0.bytes,
            Memory::Tensor(t) => session.tensors.get(&t)?.bytes(),
            Memory::Input(p, n) => program(p)?.program.inputs.get(n as usize)?.bytes,
            Memory::Output(p, n) => program(p)?.program.outputs.get(n as usize)?.slice.bytes,
        };
        Some(bytes.next_multiple_of(4))
    }

    /// A memory of a session. Inputs are made when they are first asked for.
    fn held(&mut self, id: SessionId, memory: Memory) -> Result<&mut Held<B::Tensor>> {
        let missing = || unknown("memory of session", id.0);
        let session = self.sessions.get_mut(&id).ok_or_else(missing)?;
        let found = match memory {
            Memory::State(n) => session.states.get_mut(n as usize).map(|s| &mut s.1),
            Memory::Tensor(t) => session.tensors.get_mut(&t),
            Memory::Input(p, n) => {
                let program = self.programs.get(&p).ok_or_else(missing)?.program.clone();
                let make =
                    || program.inputs.iter().map(|i| zeros(i.bytes).map(Held::Host)).collect();
                session.inputs.get_or_make(p, make)?.get_mut(n as usize)
            }
            Memory::Output(p, n) => match &mut session.outputs {
                Some((ran, outputs)) if *ran == p => outputs.get_mut(n as usize),
                _ => None,
            },
        };
        found.ok_or_else(missing)
    }

    /// Copies: a whole memory's tensor is shared, a part goes through the host.
    pub(super) fn copy(&mut self, backend: &B, id: SessionId, copies: &[Copy]) -> Result<()> {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.begun = None;
        }
        for copy in copies {
            copy.check(|memory| self.size(id, memory))?;
        }
        for copy in copies {
            let (from, to) = (self.size(id, copy.from), self.size(id, copy.to));
            let whole = from == to && from == Some(copy.bytes);
            let source = self.held(id, copy.from)?;
            if whole {
                let source = source.clone();
                *self.held(id, copy.to)? = source;
                continue;
            }
            let mut source = source.clone();
            let bytes = source.on_host(backend)?;
            let start = (copy.from_offset as usize).min(bytes.len());
            let end = start.saturating_add(copy.bytes as usize).min(bytes.len());
            write(backend, self.held(id, copy.to)?, copy.to_offset as usize, &bytes[start..end])?;
        }
        Ok(())
    }

    /// Begins to read a range of a memory.
    pub(super) fn read(
        &mut self,
        backend: &B,
        id: SessionId,
        (from, offset): (Memory, u64),
        bytes: u64,
    ) -> Result<Ticket> {
        let end = offset.checked_add(bytes);
        let fits = end.zip(self.size(id, from)).is_some_and(|(end, size)| end <= size);
        if !fits || !offset.is_multiple_of(4) || !bytes.is_multiple_of(4) {
            return Err(Error::internal(format!("{bytes} bytes at {offset} are not in {from:?}")));
        }
        if let Some(session) = self.sessions.get_mut(&id) {
            session.begun = None;
        }
        let part = self.held(id, from)?.read(backend, offset..offset + bytes)?;
        let parts = Vec::from([part]);
        Ok(self.ticket(Pending::Reading(Reading { session: id, program: None, parts })))
    }

    /// Reads that wait for what is freed answer that it was.
    fn dispose(&mut self, of: impl Fn(&Reading<B::Read>) -> bool) {
        for pending in self.tickets.values_mut() {
            if matches!(pending, Pending::Reading(reading) if of(reading)) {
                let what = "the session or program was freed while it ran";
                *pending = Pending::Answered(Err(Error::new(Code::Disposed, what)));
            }
        }
    }

    pub(super) fn free_program(&mut self, p: ProgramId) {
        if self.programs.remove(&p).is_some() {
            self.dispose(|reading| reading.program == Some(p));
            for session in self.sessions.values_mut() {
                session.inputs.remove(&p);
            }
        }
    }

    pub(super) fn free_session(&mut self, id: SessionId) {
        if self.sessions.remove(&id).is_some() {
            self.dispose(|reading| reading.session == id);
        }
    }

    /// Bytes of weights, and of all memory of sessions.
    pub(super) fn live_bytes(&self) -> u64 {
        let weights: u64 = self.models.values().map(|m| m.plan.bytes()).sum();
        let sessions = self.sessions.values().map(|s| {
            let inputs = s.inputs.values().flatten();
            let outputs = s.outputs.iter().flat_map(|o| &o.1);
            let states = s.states.iter().map(|x| &x.1);
            let all = states.chain(inputs).chain(outputs).chain(s.tensors.values());
            all.map(Held::bytes).sum::<u64>()
        });
        weights + sessions.sum::<u64>()
    }
}

/// Writes bytes into a memory. What fills its last word is left out.
fn write<B: Backend>(
    backend: &B,
    to: &mut Held<B::Tensor>,
    offset: usize,
    bytes: &[u8],
) -> Result<()> {
    let size = to.bytes() as usize;
    if offset == 0 && size > 0 && bytes.len() >= size {
        *to = Held::Host(bytes[..size].to_vec());
        return Ok(());
    }
    let host = to.on_host(backend)?;
    let end = offset.saturating_add(bytes.len()).min(host.len());
    let start = offset.min(end);
    host[start..end].copy_from_slice(&bytes[..end - start]);
    Ok(())
}
