//! The reference executor as a device: [`replay`](crate::plan::replay) behind the trait.
//!
//! Tickets of `allocate`, `build` and `session` have answered when they are given out. A submission
//! runs inside [`Device::poll`], one step a call.

use crate::error::{Code, Error, Result};
use crate::ir::lir::{Program, StateDecl};
use crate::plan::check::check;
use crate::plan::replay::{Memory, POISON, Replay};
use crate::plan::{Entry, WeightPlan};
use crate::runtime::device::{
    AnyId, Bytes, Counters, Device, DeviceInfo, ModelId, Outputs, Placed, ProgramId, SessionId,
    SharedBytes, Ticket, Write, WriteTo,
};
use crate::runtime::table::{Ids, Table};
use crate::target::Target;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::task::{Context, Poll};

/// Plain loops behind the [`Device`] trait. Slow, and right.
pub struct ReferenceDevice {
    target: Target,
    inner: RefCell<Inner>,
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
    plan: Rc<WeightPlan>,
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
    program: Rc<Program>,
    replay: Rc<Replay>,
}

struct Session {
    model: ModelId,
    /// `inputs` is the running program's, and empty between submissions.
    memory: Memory,
    /// Inputs of each program that was submitted.
    inputs: Table<ProgramId, Vec<Vec<u8>>>,
    queue: VecDeque<Submission>,
}

struct Submission {
    ticket: Ticket,
    id: ProgramId,
    program: Rc<Program>,
    replay: Rc<Replay>,
    writes: Vec<Write>,
    /// The next step.
    step: usize,
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
        ReferenceDevice { target, inner: RefCell::default() }
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

    /// Runs one step of a session's first submission, or answers its ticket.
    fn advance(&mut self, s: SessionId) {
        let Some(session) = self.sessions.get_mut(&s) else { return };
        let Some(model) = self.models.get(&session.model) else { return };
        let Some(mut submission) = session.queue.pop_front() else { return };
        let weights: Vec<&[u8]> = model.weights.iter().map(Weight::bytes).collect();
        let program = submission.program.clone();
        let inputs = session.inputs.get_or_make(submission.id, || Ok(Vec::new()));
        let Ok(inputs) = inputs else { return };
        core::mem::swap(inputs, &mut session.memory.inputs);
        let answer = if submission.step < program.steps.len() {
            if submission.step == 0 {
                submission.start(&mut session.memory);
            }
            let step = submission.step;
            submission.step += 1;
            self.counters.dispatches += 1;
            let ran = submission.replay.step(&program, step, &weights, &mut session.memory);
            ran.err().map(Err)
        } else {
            if program.steps.is_empty() {
                submission.start(&mut session.memory);
            }
            Some(submission.replay.outputs(&program, &weights, &session.memory))
        };
        core::mem::swap(inputs, &mut session.memory.inputs);
        match answer {
            None => session.queue.push_front(submission),
            Some(answer) => {
                if answer.is_ok() {
                    self.counters.readback_bytes += program.readback_bytes();
                }
                let answer = answer.map(|values| Outputs { values });
                self.tickets.insert(submission.ticket, Progress::Answered(answer));
                self.drop_inputs(submission.id);
            }
        }
    }

    /// Drops the inputs of a program that is freed and has run for the last time.
    fn drop_inputs(&mut self, p: ProgramId) {
        if self.programs.contains_key(&p) {
            return;
        }
        for session in self.sessions.values_mut() {
            if !session.queue.iter().any(|q| q.id == p) {
                session.inputs.remove(&p);
            }
        }
    }

    fn free_session(&mut self, s: SessionId) {
        let Some(session) = self.sessions.remove(&s) else { return };
        for submission in session.queue {
            let gone = Error::new(Code::Disposed, "the session was freed while it ran");
            self.tickets.insert(submission.ticket, Progress::Answered(Err(gone)));
        }
    }

    fn live_bytes(&self) -> u64 {
        let weights: u64 = self.models.values().map(|m| m.plan.bytes()).sum();
        let total = |m: &[Vec<u8>]| m.iter().map(|b| b.len() as u64).sum::<u64>();
        let sessions = self.sessions.values().map(|s| {
            let inputs: u64 = s.inputs.values().map(|i| total(i)).sum();
            s.memory.arena.len() as u64 + total(&s.memory.states) + inputs
        });
        weights + sessions.sum::<u64>()
    }
}

impl Submission {
    /// Applies the writes, which `submit` has checked, and poisons the arena.
    fn start(&mut self, memory: &mut Memory) {
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

    fn allocate(&self, plan: Rc<WeightPlan>) -> Result<(ModelId, Ticket)> {
        let mut inner = self.inner.borrow_mut();
        let id = ModelId(inner.ids.next());
        // Memory comes with the first bytes: a shared map needs none.
        let weights = plan.entries.iter().map(|_| Weight::Owned(Vec::new())).collect();
        inner.models.insert(id, Model { plan, weights });
        Ok((id, inner.answered()))
    }

    fn poll_put(
        &self,
        m: ModelId,
        at: Placed,
        bytes: Bytes<'_>,
        _: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        Poll::Ready(self.inner.borrow_mut().put(m, at, &bytes))
    }

    fn build(&self, m: ModelId, program: Rc<Program>) -> Result<(ProgramId, Ticket)> {
        let mut inner = self.inner.borrow_mut();
        check(&program, &inner.model(m)?.plan, &self.target.limits)?;
        let replay = Rc::new(Replay::new(&program)?);
        let id = ProgramId(inner.ids.next());
        inner.programs.insert(id, Built { model: m, program, replay });
        Ok((id, inner.answered()))
    }

    fn session(
        &self,
        m: ModelId,
        states: &[StateDecl],
        arena_bytes: u64,
    ) -> Result<(SessionId, Ticket)> {
        let mut inner = self.inner.borrow_mut();
        inner.model(m)?;
        let mut arena = zeros(arena_bytes)?;
        arena.fill(POISON);
        let memory = Memory {
            arena,
            states: states.iter().map(|s| zeros(s.bytes)).collect::<Result<_>>()?,
            inputs: Vec::new(),
        };
        let id = SessionId(inner.ids.next());
        let session = Session { model: m, memory, inputs: Table::new(), queue: VecDeque::new() };
        inner.sessions.insert(id, session);
        Ok((id, inner.answered()))
    }

    fn submit(&self, s: SessionId, p: ProgramId, writes: &[Write]) -> Result<Ticket> {
        let mut inner = self.inner.borrow_mut();
        let inner = &mut *inner;
        let built = inner.programs.get(&p).ok_or_else(|| unknown("program", p.0))?;
        let session = inner.sessions.get_mut(&s).ok_or_else(|| unknown("session", s.0))?;
        let program = &built.program;
        let same_states = program.states.len() == session.memory.states.len()
            && program
                .states
                .iter()
                .zip(&session.memory.states)
                .all(|(decl, bytes)| decl.bytes == bytes.len() as u64);
        if built.model != session.model
            || !same_states
            || program.arena_bytes > session.memory.arena.len() as u64
        {
            return Err(Error::internal(format!(
                "program {} is of another model than the session, or needs other states or a larger arena",
                program.name
            )));
        }
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
            session.queue.push_back(Submission { ticket, id: p, program, replay, writes, step: 0 });
        }
        Ok(ticket)
    }

    fn poll(&self, t: Ticket, cx: &mut Context<'_>) -> Poll<Result<Outputs>> {
        let mut inner = self.inner.borrow_mut();
        if let Some(&Progress::Waiting(s)) = inner.tickets.get(&t) {
            inner.advance(s);
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
        let mut inner = self.inner.borrow_mut();
        match id {
            AnyId::Program(p) => {
                // What is queued keeps the program alive until it has run.
                inner.programs.remove(&p);
                inner.drop_inputs(p);
            }
            AnyId::Session(s) => inner.free_session(s),
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
        let inner = self.inner.borrow();
        Counters { live_bytes: inner.live_bytes(), ..inner.counters }
    }
}

fn unknown(what: &str, id: u32) -> Error {
    let what: String = format!("{what} {id} is not known: it was freed, answered, or never made");
    Error::new(Code::Internal, what)
}

fn zeros(bytes: u64) -> Result<Vec<u8>> {
    let none = || Error::new(Code::OutOfMemory, format!("no memory for {bytes} bytes"));
    let len = usize::try_from(bytes).map_err(|_| none())?;
    let mut out = Vec::new();
    out.try_reserve_exact(len).map_err(|_| none())?;
    out.resize(len, 0);
    Ok(out)
}
