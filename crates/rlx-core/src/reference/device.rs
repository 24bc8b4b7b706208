//! The reference executor as a device: [`replay`](crate::plan::replay) behind the trait.
//!
//! Tickets of `allocate`, `build` and `session` have answered when they are given out. A submission
//! runs inside [`Device::poll`], one step a call.

use crate::error::{Code, Error, Result};
use crate::ir::lir::{Program, Space, StateDecl};
use crate::ops::Op;
use crate::plan::check::check;
use crate::plan::replay::{Exchange, Exchanged, POISON, Replay, ReplayMemory};
use crate::plan::{Entry, WeightPlan};
use crate::reference::View;
#[cfg(feature = "parallel")]
use crate::runtime::device::group::{Group, InTurn, Meeting};
use crate::runtime::device::shared::Lock;
use crate::runtime::device::table::{Ids, Table};
use crate::runtime::device::{
    self, AnyId, Bytes, Copy, Counters, Device, DeviceInfo, ModelId, Outputs, Placed, ProgramId,
    SessionId, SharedBytes, TensorId, Ticket, Write, WriteTo,
};
use crate::target::Target;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;
use core::task::{Context, Poll};

/// Plain loops behind the [`Device`] trait. Slow, and right.
pub struct ReferenceDevice {
    target: Target,
    inner: Lock<Inner>,
    /// Where it meets the other ranks of its group, and its own number.
    #[cfg(feature = "parallel")]
    meeting: Option<(Arc<Meeting>, usize)>,
}

#[derive(Default)]
struct Inner {
    ids: Ids,
    models: Table<ModelId, Model>,
    programs: Table<ProgramId, Built>,
    sessions: Table<SessionId, Session>,
    tickets: Table<Ticket, Progress>,
    counters: Counters,
}

struct Model {
    plan: Arc<WeightPlan>,
    weights: Vec<Weight>,
}

/// Bytes of one entry of the weight plan.
enum Weight {
    Owned(Vec<u8>),
    Mapped { map: SharedBytes, offset: usize, len: usize },
}

impl Weight {
    fn bytes(&self) -> &[u8] {
        match self {
            Weight::Owned(bytes) => bytes,
            Weight::Mapped { map, offset, len } => {
                (**map).as_ref().get(*offset..).and_then(|b| b.get(..*len)).unwrap_or(&[])
            }
        }
    }
}

struct Built {
    model: ModelId,
    program: Arc<Program>,
    replay: Arc<Replay>,
}

struct Session {
    model: ModelId,
    /// `inputs` is the running program's, and empty between submissions.
    memory: ReplayMemory,
    /// Inputs of each program that was submitted.
    inputs: Table<ProgramId, Vec<Vec<u8>>>,
    tensors: Table<TensorId, Vec<u8>>,
    queue: VecDeque<Queued>,
    /// The program that has begun, of which nothing runs before its rest.
    begun: Option<ProgramId>,
}

impl Session {
    /// Queues work, which ends what has begun.
    fn push(&mut self, queued: impl IntoIterator<Item = Queued>) {
        self.begun = None;
        self.queue.extend(queued);
    }

    /// Bytes of the arena, when what is queued has run.
    fn arena_bytes(&self) -> u64 {
        let grown = self.queue.iter().rev().find_map(|q| match q {
            Queued::Grow { bytes, .. } => Some(*bytes),
            _ => None,
        });
        grown.unwrap_or(self.memory.arena.len() as u64)
    }
}

/// What runs in order.
enum Queued {
    Run(Submission),
    Copy(Copy),
    Read { ticket: Ticket, from: device::Memory, range: Range<usize> },
    Grow { ticket: Ticket, bytes: u64 },
}

struct Submission {
    ticket: Ticket,
    id: ProgramId,
    program: Arc<Program>,
    replay: Arc<Replay>,
    writes: Vec<Write>,
    /// Whether outputs are read back.
    read: bool,
    /// The next step.
    step: usize,
    /// Whether the writes are made.
    started: bool,
}

enum Progress {
    Answered(Result<Outputs>),
    Waiting(SessionId),
}

impl Default for ReferenceDevice {
    fn default() -> Self {
        Self::new()
    }
}

impl ReferenceDevice {
    /// A device for unfused programs.
    pub fn new() -> Self {
        Self::with_target(Target::reference())
    }

    /// A device that runs what is compiled for `target`, to prove another device's programs.
    pub fn with_target(target: Target) -> Self {
        ReferenceDevice {
            target,
            inner: Lock::default(),
            #[cfg(feature = "parallel")]
            meeting: None,
        }
    }

    /// So many devices for what is compiled for `target`, as ranks of a group.
    ///
    /// # Errors
    /// As [`Group::new`].
    #[cfg(feature = "parallel")]
    pub fn group(target: &Target, ranks: usize) -> Result<Group> {
        let meeting = Arc::new(Meeting::new(ranks));
        let own = |rank| -> Arc<dyn Device> {
            let meeting = Some((meeting.clone(), rank));
            Arc::new(ReferenceDevice { meeting, ..Self::with_target(target.clone()) })
        };
        Group::new((0..ranks).map(own).collect(), Arc::new(InTurn))
    }

    /// How a step of this device exchanges tensors with other ranks.
    fn exchange(&self, op: &Op, operands: &[View<'_>]) -> Exchanged {
        #[cfg(feature = "parallel")]
        if let (Some((meeting, rank)), [x]) = (&self.meeting, operands)
            && meeting.has(op)?
        {
            let result = meeting.exchange(*rank, op, x.ty.dtype, x.bytes)?;
            return Ok(Some(result.map(|bytes| Vec::from([bytes]))));
        }
        let _ = (op, operands);
        Ok(None)
    }
}

impl Inner {
    fn ticket(&mut self, progress: Progress) -> Ticket {
        let ticket = Ticket(self.ids.next());
        self.tickets.insert(ticket, progress);
        ticket
    }

    fn answered(&mut self) -> Ticket {
        self.ticket(Progress::Answered(Ok(Outputs::default())))
    }

    fn model(&self, m: ModelId) -> Result<&Model> {
        self.models.get(&m).ok_or_else(|| unknown("model", m.0))
    }

    fn put(&mut self, m: ModelId, at: Placed, bytes: &Bytes<'_>) -> Result<()> {
        let model = self.models.get_mut(&m).ok_or_else(|| unknown("model", m.0))?;
        let data = bytes.as_slice();
        let within = |e: &Entry| {
            let from = at.offset.checked_sub(e.offset)?;
            let end = from.checked_add(data.len() as u64)?;
            (e.buffer == at.buffer && from < e.bytes.max(1) && end <= e.bytes).then_some(from)
        };
        let found = model.plan.entries.iter().enumerate().find_map(|(i, e)| {
            let from = within(e)?;
            Some((i, from as usize, e.bytes as usize))
        });
        let Some((i, from, size)) = found else {
            return Err(Error::internal(format!(
                "{} bytes at {} of weight buffer {} are not within one weight",
                data.len(),
                at.offset,
                at.buffer
            )));
        };
        match bytes {
            Bytes::Shared { map, offset, len } if from == 0 && data.len() == size => {
                model.weights[i] = Weight::Mapped { map: map.clone(), offset: *offset, len: *len };
            }
            _ => {
                if !matches!(&model.weights[i], Weight::Owned(b) if b.len() == size) {
                    model.weights[i] = Weight::Owned(zeros(size as u64)?);
                }
                if let Weight::Owned(owned) = &mut model.weights[i] {
                    owned[from..from + data.len()].copy_from_slice(data);
                }
            }
        }
        Ok(())
    }

    /// Runs one step of a session's first submission, a copy or a read. A step that waits for other ranks is tried
    /// again.
    fn advance(&mut self, s: SessionId, exchange: &Exchange<'_>) {
        let Some(queued) = self.sessions.get_mut(&s).and_then(|s| s.queue.pop_front()) else {
            return;
        };
        match queued {
            Queued::Run(submission) => self.step(s, submission, exchange),
            Queued::Copy(copy) => {
                let from = copy.from_offset as usize;
                let bytes = self.bytes(s, copy.from, from..from + copy.bytes as usize);
                if let (Some(bytes), Some(to)) = (bytes, self.memory_mut(s, copy.to)) {
                    let at = copy.to_offset as usize;
                    // An output's last bytes may be fewer than a word.
                    to[at..at + bytes.len()].copy_from_slice(&bytes);
                }
            }
            Queued::Grow { ticket, bytes } => {
                let answer = poisoned(bytes).map(|arena| {
                    if let Some(session) = self.sessions.get_mut(&s) {
                        session.memory.arena = arena;
                    }
                    Outputs::default()
                });
                self.tickets.insert(ticket, Progress::Answered(answer));
            }
            Queued::Read { ticket, from, range } => {
                let values = self.bytes(s, from, range);
                let answer = values.map(|bytes| Outputs { values: Vec::from([bytes]) });
                let answer = answer.ok_or_else(|| unknown("memory of session", s.0));
                if let Ok(answer) = &answer {
                    self.counters.readback_bytes += answer.values[0].len() as u64;
                }
                self.tickets.insert(ticket, Progress::Answered(answer));
            }
        }
    }

    /// Bytes of a memory: of an output that ends within a word, those that it has.
    fn bytes(&self, s: SessionId, memory: device::Memory, range: Range<usize>) -> Option<Vec<u8>> {
        let session = self.sessions.get(&s)?;
        let all: &[u8] = match memory {
            device::Memory::State(n) => session.memory.states.get(n as usize)?,
            device::Memory::Tensor(t) => session.tensors.get(&t)?,
            device::Memory::Input(p, n) => session.inputs.get(&p)?.get(n as usize)?,
            device::Memory::Output(p, n) => {
                let slice = &self.programs.get(&p)?.program.outputs.get(n as usize)?.slice;
                let start = slice.offset as usize;
                let of: &[u8] = match slice.space {
                    Space::State => session.memory.states.get(slice.index as usize)?,
                    Space::Input => session.inputs.get(&p)?.get(slice.index as usize)?,
                    Space::Weight => {
                        let model = self.models.get(&session.model)?;
                        model.weights.get(slice.index as usize)?.bytes()
                    }
                    Space::Arena => {
                        let start = self.programs.get(&p)?.program.arena_start(slice)? as usize;
                        session.memory.arena.get(start - slice.offset as usize..)?
                    }
                };
                of.get(start..start + slice.bytes as usize)?
            }
        };
        all.get(range.start..range.end.min(all.len())).map(Vec::from)
    }

    fn memory_mut(&mut self, s: SessionId, memory: device::Memory) -> Option<&mut Vec<u8>> {
        let session = self.sessions.get_mut(&s)?;
        match memory {
            device::Memory::State(n) => session.memory.states.get_mut(n as usize),
            device::Memory::Tensor(t) => session.tensors.get_mut(&t),
            device::Memory::Input(p, n) => session.inputs.get_mut(&p)?.get_mut(n as usize),
            device::Memory::Output(..) => None,
        }
    }

    /// Bytes of a session's memory, whole words.
    fn size(&self, s: SessionId, memory: device::Memory) -> Option<u64> {
        let session = self.sessions.get(&s)?;
        let program = |p| self.programs.get(&p).filter(|b| b.model == session.model);
        let bytes = match memory {
            device::Memory::State(n) => session.memory.states.get(n as usize)?.len() as u64,
            device::Memory::Tensor(t) => session.tensors.get(&t)?.len() as u64,
            device::Memory::Input(p, n) => program(p)?.program.inputs.get(n as usize)?.bytes,
            device::Memory::Output(p, n) => {
                program(p)?.program.outputs.get(n as usize)?.slice.bytes
            }
        };
        Some(bytes.next_multiple_of(4))
    }

    /// Runs one step of a submission, or answers its ticket.
    fn step(&mut self, s: SessionId, mut submission: Submission, exchange: &Exchange<'_>) {
        let Some(session) = self.sessions.get_mut(&s) else { return };
        let Some(model) = self.models.get(&session.model) else { return };
        let weights: Vec<&[u8]> = model.weights.iter().map(Weight::bytes).collect();
        let program = submission.program.clone();
        let inputs = session.inputs.get_or_make(submission.id, || Ok(Vec::new()));
        let Ok(inputs) = inputs else { return };
        core::mem::swap(inputs, &mut session.memory.inputs);
        let answer = if submission.step < program.steps.len() {
            if submission.step == 0 && !submission.started {
                submission.started = true;
                submission.start(&mut session.memory);
            }
            let (step, memory) = (submission.step, &mut session.memory);
            match submission.replay.try_step(&program, step, &weights, memory, exchange) {
                Ok(ran) => {
                    submission.step += usize::from(ran);
                    self.counters.dispatches += u64::from(ran);
                    None
                }
                Err(e) => Some(Err(e)),
            }
        } else {
            if program.steps.is_empty() {
                submission.start(&mut session.memory);
            }
            match submission.read {
                true => Some(submission.replay.outputs(&program, &weights, &session.memory)),
                false => Some(Ok(Vec::new())),
            }
        };
        core::mem::swap(inputs, &mut session.memory.inputs);
        match answer {
            None => session.queue.push_front(Queued::Run(submission)),
            Some(answer) => {
                if let Ok(values) = &answer {
                    self.counters.readback_bytes +=
                        values.iter().map(|v| v.len() as u64).sum::<u64>();
                }
                let answer = answer.map(|values| Outputs { values });
                self.tickets.insert(submission.ticket, Progress::Answered(answer));
                self.drop_inputs(submission.id);
            }
        }
    }

    /// Makes a program's inputs in a session, if the memory is one of them.
    fn make_inputs(&mut self, s: SessionId, memory: device::Memory) -> Result<()> {
        let device::Memory::Input(p, _) = memory else { return Ok(()) };
        let program = self.programs.get(&p).map(|b| b.program.clone());
        let program = program.ok_or_else(|| unknown("program", p.0))?;
        let session = self.sessions.get_mut(&s).ok_or_else(|| unknown("session", s.0))?;
        let make = || program.inputs.iter().map(|i| zeros(i.bytes)).collect();
        session.inputs.get_or_make(p, make).map(|_| ())
    }

    /// Drops the inputs of a program that is freed and has run for the last time.
    fn drop_inputs(&mut self, p: ProgramId) {
        if self.programs.contains_key(&p) {
            return;
        }
        for session in self.sessions.values_mut() {
            let runs = |q: &Queued| matches!(q, Queued::Run(run) if run.id == p);
            if !session.queue.iter().any(runs) {
                session.inputs.remove(&p);
            }
        }
    }

    fn free_session(&mut self, s: SessionId) {
        let Some(session) = self.sessions.remove(&s) else { return };
        for queued in session.queue {
            let gone = Error::new(Code::Disposed, "the session was freed while it ran");
            if let Queued::Run(Submission { ticket, .. })
            | Queued::Read { ticket, .. }
            | Queued::Grow { ticket, .. } = queued
            {
                self.tickets.insert(ticket, Progress::Answered(Err(gone)));
            }
        }
    }

    fn live_bytes(&self) -> u64 {
        let weights: u64 = self.models.values().map(|m| m.plan.bytes()).sum();
        let total = |m: &[Vec<u8>]| m.iter().map(|b| b.len() as u64).sum::<u64>();
        let sessions = self.sessions.values().map(|s| {
            let inputs: u64 = s.inputs.values().map(|i| total(i)).sum();
            let tensors: u64 = s.tensors.values().map(|t| t.len() as u64).sum();
            s.memory.arena.len() as u64 + total(&s.memory.states) + inputs + tensors
        });
        weights + sessions.sum::<u64>()
    }
}

impl Submission {
    /// Applies the writes, which `submit` has checked, and poisons the arena.
    fn start(&mut self, memory: &mut ReplayMemory) {
        for w in core::mem::take(&mut self.writes) {
            let to = match w.to {
                WriteTo::Input(n) => memory.inputs.get_mut(n as usize),
                WriteTo::State(n) => memory.states.get_mut(n as usize),
            };
            let to = to.and_then(|b| b.get_mut(w.offset as usize..)?.get_mut(..w.bytes.len()));
            if let Some(to) = to {
                to.copy_from_slice(&w.bytes);
            }
        }
        self.replay.start(memory);
    }
}

impl Device for ReferenceDevice {
    fn target(&self) -> &Target {
        &self.target
    }

    fn info(&self) -> DeviceInfo {
        DeviceInfo {
            kind: "reference".into(),
            adapter: "plain loops".into(),
            ..DeviceInfo::default()
        }
    }

    fn allocate(&self, plan: Arc<WeightPlan>) -> Result<(ModelId, Ticket)> {
        let mut inner = self.inner.lock();
        let id = ModelId(inner.ids.next());
        // Memory comes with the first bytes: a shared map needs none.
        let weights = plan.entries.iter().map(|_| Weight::Owned(Vec::new())).collect();
        inner.models.insert(id, Model { plan, weights });
        Ok((id, inner.answered()))
    }

    fn extend(&self, m: ModelId, plan: Arc<WeightPlan>) -> Result<Ticket> {
        let mut inner = self.inner.lock();
        let model = inner.models.get_mut(&m).ok_or_else(|| unknown("model", m.0))?;
        model.plan.begins(&plan)?;
        model.weights.resize_with(plan.entries.len(), || Weight::Owned(Vec::new()));
        model.plan = plan;
        Ok(inner.answered())
    }

    fn poll_put(
        &self,
        m: ModelId,
        at: Placed,
        bytes: Bytes<'_>,
        _: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        Poll::Ready(self.inner.lock().put(m, at, &bytes))
    }

    fn build(&self, m: ModelId, program: Arc<Program>) -> Result<(ProgramId, Ticket)> {
        let mut inner = self.inner.lock();
        check(&program, &inner.model(m)?.plan, &self.target.limits)?;
        let replay = Arc::new(Replay::new(&program)?);
        let id = ProgramId(inner.ids.next());
        inner.programs.insert(id, Built { model: m, program, replay });
        Ok((id, inner.answered()))
    }

    fn session(
        &self,
        m: ModelId,
        states: &[StateDecl],
        arena: &[u64],
    ) -> Result<(SessionId, Ticket)> {
        let mut inner = self.inner.lock();
        inner.model(m)?;
        let memory = ReplayMemory {
            arena: poisoned(arena.iter().sum())?,
            states: states.iter().map(|s| zeros(s.bytes)).collect::<Result<_>>()?,
            inputs: Vec::new(),
        };
        let id = SessionId(inner.ids.next());
        let (inputs, tensors, queue) = (Table::new(), Table::new(), VecDeque::new());
        let session = Session { model: m, memory, inputs, tensors, queue, begun: None };
        inner.sessions.insert(id, session);
        Ok((id, inner.answered()))
    }

    fn grow(&self, s: SessionId, arena: &[u64]) -> Result<Ticket> {
        let mut inner = self.inner.lock();
        let ticket = inner.ticket(Progress::Waiting(s));
        let session = inner.sessions.get_mut(&s).ok_or_else(|| unknown("session", s.0))?;
        session.push([Queued::Grow { ticket, bytes: arena.iter().sum() }]);
        Ok(ticket)
    }

    fn tensor(&self, s: SessionId, bytes: u64) -> Result<(TensorId, Ticket)> {
        let mut inner = self.inner.lock();
        let id = TensorId(inner.ids.next());
        let session = inner.sessions.get_mut(&s).ok_or_else(|| unknown("session", s.0))?;
        session.tensors.insert(id, zeros(bytes.next_multiple_of(4))?);
        Ok((id, inner.answered()))
    }

    fn copy(&self, s: SessionId, copies: &[Copy]) -> Result<()> {
        let mut inner = self.inner.lock();
        for copy in copies {
            copy.check(|memory| inner.size(s, memory))?;
        }
        for copy in copies {
            inner.make_inputs(s, copy.from)?;
            inner.make_inputs(s, copy.to)?;
        }
        if let Some(session) = inner.sessions.get_mut(&s) {
            session.push(copies.iter().map(|copy| Queued::Copy(*copy)));
        }
        Ok(())
    }

    fn read(&self, s: SessionId, from: device::Memory, offset: u64, bytes: u64) -> Result<Ticket> {
        let mut inner = self.inner.lock();
        let end = offset.checked_add(bytes);
        let fits = end.zip(inner.size(s, from)).is_some_and(|(end, size)| end <= size);
        if !fits || !offset.is_multiple_of(4) || !bytes.is_multiple_of(4) {
            return Err(Error::internal(format!("{bytes} bytes at {offset} are not in {from:?}")));
        }
        inner.make_inputs(s, from)?;
        let ticket = inner.ticket(Progress::Waiting(s));
        if let Some(session) = inner.sessions.get_mut(&s) {
            let range = offset as usize..(offset + bytes) as usize;
            session.push([Queued::Read { ticket, from, range }]);
        }
        Ok(ticket)
    }

    fn submit_with(
        &self,
        s: SessionId,
        p: ProgramId,
        how: &device::Submission<'_>,
    ) -> Result<Ticket> {
        let writes = how.writes;
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let built = inner.programs.get(&p).ok_or_else(|| unknown("program", p.0))?;
        let session = inner.sessions.get_mut(&s).ok_or_else(|| unknown("session", s.0))?;
        let program = &built.program;
        // A session may have further states behind those of its programs.
        let same_states = program.states.len() <= session.memory.states.len()
            && program
                .states
                .iter()
                .zip(&session.memory.states)
                .all(|(decl, bytes)| decl.bytes == bytes.len() as u64);
        if built.model != session.model
            || !same_states
            || program.arena_bytes > session.arena_bytes()
        {
            return Err(Error::internal(format!(
                "program {} is of another model than the session, or needs other states or a larger arena",
                program.name
            )));
        }
        how.check_begun(session.begun.take(), p, program.cut())?;
        for w in writes {
            let (name, size) = match w.to {
                WriteTo::Input(n) => ("input", program.inputs.get(n as usize).map(|i| i.bytes)),
                WriteTo::State(n) => ("state", program.states.get(n as usize).map(|s| s.bytes)),
            };
            let end = w.offset.checked_add(w.bytes.len() as u64);
            let fits = end.zip(size).is_some_and(|(end, size)| end <= size);
            if !fits || w.offset % 4 != 0 || w.bytes.len() % 4 != 0 {
                return Err(Error::internal(format!(
                    "a write of {} bytes at {} does not fit its {name}, or is no multiple of 4",
                    w.bytes.len(),
                    w.offset
                )));
            }
        }
        session
            .inputs
            .get_or_make(p, || program.inputs.iter().map(|i| zeros(i.bytes)).collect())?;
        let (program, replay) = (program.clone(), built.replay.clone());
        inner.counters.submits += 1;
        let ticket = inner.ticket(Progress::Waiting(s));
        if let Some(session) = inner.sessions.get_mut(&s) {
            let writes = writes.to_vec();
            let (read, step, started) = (how.read, 0, false);
            let run = Submission { ticket, id: p, program, replay, writes, read, step, started };
            session.push([Queued::Run(run)]);
        }
        Ok(ticket)
    }

    fn begin(&self, s: SessionId, p: ProgramId) -> Result<bool> {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        let built = inner.programs.get(&p).ok_or_else(|| unknown("program", p.0))?;
        let session = inner.sessions.get_mut(&s).ok_or_else(|| unknown("session", s.0))?;
        built.program.cut().ok_or_else(|| device::no_cut(p))?;
        session.begun = Some(p);
        Ok(false)
    }

    fn poll(&self, t: Ticket, cx: &mut Context<'_>) -> Poll<Result<Outputs>> {
        let mut inner = self.inner.lock();
        if let Some(&Progress::Waiting(s)) = inner.tickets.get(&t) {
            inner.advance(s, &|op, operands| self.exchange(op, operands));
        }
        match inner.tickets.remove(&t) {
            Some(Progress::Answered(answer)) => Poll::Ready(answer),
            Some(waiting) => {
                inner.tickets.insert(t, waiting);
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            None => Poll::Ready(Err(unknown("ticket", t.0))),
        }
    }

    fn free(&self, id: AnyId) {
        let mut inner = self.inner.lock();
        match id {
            AnyId::Program(p) => {
                // What is queued keeps the program alive until it has run.
                inner.programs.remove(&p);
                inner.drop_inputs(p);
            }
            AnyId::Session(s) => inner.free_session(s),
            AnyId::Tensor(s, t) => {
                if let Some(session) = inner.sessions.get_mut(&s) {
                    session.tensors.remove(&t);
                }
            }
            AnyId::Model(m) => {
                let sessions: Vec<SessionId> =
                    inner.sessions.iter().filter(|s| s.1.model == m).map(|s| *s.0).collect();
                for s in sessions {
                    inner.free_session(s);
                }
                inner.programs.retain(|_, p| p.model != m);
                inner.models.remove(&m);
            }
        }
    }

    fn counters(&self) -> Counters {
        let inner = self.inner.lock();
        Counters { live_bytes: inner.live_bytes(), ..inner.counters }
    }
}

fn unknown(what: &str, id: u32) -> Error {
    let what: String = format!("{what} {id} is not known: it was freed, answered, or never made");
    Error::new(Code::Internal, what)
}

/// An arena before any step: NaNs.
fn poisoned(bytes: u64) -> Result<Vec<u8>> {
    let mut arena = zeros(bytes)?;
    arena.fill(POISON);
    Ok(arena)
}

fn zeros(bytes: u64) -> Result<Vec<u8>> {
    let none = || Error::new(Code::OutOfMemory, format!("no memory for {bytes} bytes"));
    let len = usize::try_from(bytes).map_err(|_| none())?;
    let mut out = Vec::new();
    out.try_reserve_exact(len).map_err(|_| none())?;
    out.resize(len, 0);
    Ok(out)
}
