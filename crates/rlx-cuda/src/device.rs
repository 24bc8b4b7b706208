//! [`Device`] over a [`Driver`]: buffers as the plans say, programs as recorded lists of launches.
//!
//! A program in a session is a *run*: its launches with the session's memory as arguments, recorded once. What is
//! queued runs in one order, so that nothing here waits but the polls of reads.

mod arrivals;
mod build;
mod moves;
mod run;
mod timing;

use crate::driver::{At, Driver};
use crate::kernels::{Exchange, Kernel, Product};
use core::task::{Context, Poll};
use rlx_core::ir::lir::{Program, StateDecl};
use rlx_core::plan::WeightPlan;
use rlx_core::runtime::device::shared::Lock;
use rlx_core::runtime::device::table::{Ids, Table};
use rlx_core::runtime::device::{
    self, AnyId, Bytes, Copy, Counters, Device, DeviceInfo, ModelId, Outputs, Placed, ProgramId,
    SessionId, Submission, TensorId, Ticket, TimedSubmission,
};
use rlx_core::target::Target;
use rlx_core::{Code, Error, Result};
use run::{Key, Run};
use std::sync::Arc;
use timing::Timing;

/// A buffer, and the bytes that were asked for.
#[derive(Clone, Copy, Debug)]
struct Buffer {
    id: u32,
    bytes: u64,
}

struct Model {
    plan: Arc<WeightPlan>,
    buffers: Vec<Buffer>,
    /// Weights that are rearranged once they are there.
    waiting: Vec<arrivals::Waiting>,
    /// What kernels of a step leave each other: each program has one of these, large enough for it.
    scratch: Vec<Buffer>,
    counts: Vec<Buffer>,
}

/// What a program is made of.
enum Part {
    /// A function with its arguments.
    Kernel(u32, Kernel),
    /// A product by the library.
    Product(Product),
    /// An exchange with other ranks.
    Exchange(Exchange),
}

struct Built {
    model: ModelId,
    program: Arc<Program>,
    /// What runs, each with its step.
    parts: Vec<(u32, Part)>,
    /// Its scratch memory, if it needs some.
    scratch: Option<Buffer>,
    /// Where its kernels count, if they do.
    counts: Option<Buffer>,
    inputs: Vec<Buffer>,
}

struct Session {
    model: ModelId,
    states: Vec<Buffer>,
    arena: Buffer,
    tensors: Table<TensorId, Buffer>,
    begun: Option<Begun>,
}

/// A program of which the first part was queued.
#[derive(Clone, core::marker::Copy)]
struct Begun {
    program: ProgramId,
}

/// What a ticket waits for.
enum Pending {
    /// Nothing: it has this answer.
    Answered(Result<Outputs>),
    /// A read of outputs of a program, of these sizes.
    Read { read: u32, sizes: Vec<usize>, session: SessionId, program: Option<ProgramId> },
}

#[derive(Default)]
struct State {
    ids: Ids,
    models: Table<ModelId, Model>,
    programs: Table<ProgramId, Built>,
    sessions: Table<SessionId, Session>,
    runs: Table<Key, Run>,
    tickets: Table<Ticket, Pending>,
    /// Functions by their texts; they outlive programs.
    functions: Table<String, u32>,
    counters: Counters,
    timing: Timing,
}

/// The CUDA executor over a driver, under a target.
pub struct CudaDevice<D> {
    driver: D,
    target: Target,
    state: Lock<State>,
}

impl<D: Driver> CudaDevice<D> {
    /// An executor on this GPU.
    pub fn new(driver: D) -> Self {
        CudaDevice::with_target(driver, crate::target())
    }

    /// The same under another target, of which programs are: [`rocm_target`](crate::rocm_target) for AMD's cards.
    pub fn with_target(driver: D, target: Target) -> Self {
        CudaDevice { driver, target, state: Lock::default() }
    }

    /// The GPU.
    pub fn driver(&self) -> &D {
        &self.driver
    }

    fn create(&self, s: &mut State, bytes: u64) -> Result<Buffer> {
        // The last element of an array of 16 bytes fits as a whole.
        let id = s.ids.next();
        self.driver.create(id, bytes.next_multiple_of(16).max(16))?;
        s.counters.live_bytes += bytes;
        Ok(Buffer { id, bytes })
    }

    /// All of them, or none.
    fn create_all(
        &self,
        s: &mut State,
        sizes: impl IntoIterator<Item = u64>,
    ) -> Result<Vec<Buffer>> {
        let mut made = Vec::new();
        for bytes in sizes {
            match self.create(s, bytes) {
                Ok(buffer) => made.push(buffer),
                Err(e) => {
                    self.destroy(s, made);
                    return Err(e);
                }
            }
        }
        Ok(made)
    }

    fn destroy(&self, s: &mut State, buffers: impl IntoIterator<Item = Buffer>) {
        for b in buffers {
            self.driver.destroy(b.id);
            s.counters.live_bytes -= b.bytes;
        }
    }

    fn free_runs(&self, s: &mut State, of: impl Fn(&Key) -> bool) {
        let keys: Vec<_> = s.runs.keys().copied().filter(of).collect();
        for key in keys {
            if let Some(run) = s.runs.remove(&key) {
                self.driver.drop_list(run.body);
                self.driver.drop_list(run.rest);
            }
        }
    }

    /// Reads that wait for what is freed answer that it was.
    fn dispose(s: &mut State, of: impl Fn(SessionId, Option<ProgramId>) -> bool) {
        for pending in s.tickets.values_mut() {
            if matches!(pending, Pending::Read { session, program, .. } if of(*session, *program)) {
                let what = "the session or program was freed while it ran";
                *pending = Pending::Answered(Err(Error::new(Code::Disposed, what)));
            }
        }
    }

    fn free_program(&self, s: &mut State, p: ProgramId) {
        let Some(built) = s.programs.remove(&p) else { return };
        Self::dispose(s, |_, program| program == Some(p));
        self.free_runs(s, |key| key.program == p);
        self.destroy(s, built.inputs);
    }

    fn free_session(&self, s: &mut State, id: SessionId) {
        let Some(session) = s.sessions.remove(&id) else { return };
        Self::dispose(s, |session, _| session == id);
        self.free_runs(s, |key| key.session == id);
        let tensors: Vec<Buffer> = session.tensors.values().copied().collect();
        self.destroy(s, tensors);
        self.destroy(s, session.states);
        self.destroy(s, [session.arena]);
    }
}

fn unknown(what: &str, id: u32) -> Error {
    Error::usage(format!("the device has no {what} {id}")).hint("it was freed, or never made")
}

impl State {
    fn ticket(&mut self, pending: Pending) -> Ticket {
        let t = Ticket(self.ids.next());
        self.tickets.insert(t, pending);
        t
    }

    /// A ticket that has its answer: work that is done when the call returns.
    fn answered(&mut self, answer: Result<()>) -> Ticket {
        self.ticket(Pending::Answered(answer.map(|()| Outputs::default())))
    }
}

impl<D: Driver + 'static> Device for CudaDevice<D> {
    fn target(&self) -> &Target {
        &self.target
    }

    fn info(&self) -> DeviceInfo {
        let info = self.driver.info();
        DeviceInfo {
            kind: self.target.name.to_string(),
            adapter: info.name.clone(),
            features: vec![info.arch.clone()],
            ..DeviceInfo::default()
        }
    }

    fn allocate(&self, plan: Arc<WeightPlan>) -> Result<(ModelId, Ticket)> {
        let s = &mut *self.state.lock();
        let m = ModelId(s.ids.next());
        let waiting = arrivals::waiting(&plan.entries)?;
        let made = self.create_all(s, plan.buffers.iter().map(|b| b.bytes));
        let answer = made.map(|buffers| {
            let (scratch, counts) = (Vec::new(), Vec::new());
            s.models.insert(m, Model { plan, buffers, waiting, scratch, counts })
        });
        let ticket = s.answered(answer);
        Ok((m, ticket))
    }

    fn extend(&self, m: ModelId, plan: Arc<WeightPlan>) -> Result<Ticket> {
        let s = &mut *self.state.lock();
        let model = s.models.get(&m).ok_or_else(|| unknown("model", m.0))?;
        model.plan.begins(&plan)?;
        let had = model.buffers.len();
        let waiting = arrivals::waiting(&plan.entries[model.plan.entries.len()..])?;
        let made = self.create_all(s, plan.buffers[had..].iter().map(|b| b.bytes));
        let answer = made.map(|buffers| {
            if let Some(model) = s.models.get_mut(&m) {
                model.buffers.extend(buffers);
                model.waiting.extend(waiting);
                model.plan = plan;
            }
        });
        Ok(s.answered(answer))
    }

    fn poll_put(
        &self,
        m: ModelId,
        at: Placed,
        bytes: Bytes<'_>,
        _: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        let s = &mut *self.state.lock();
        let buffer = s.models.get(&m).and_then(|model| model.buffers.get(at.buffer as usize));
        let Some(buffer) = buffer else {
            return Poll::Ready(Err(unknown("weight buffer", at.buffer)));
        };
        let bytes = bytes.as_slice();
        let end = at.offset.checked_add(bytes.len() as u64);
        if end.is_none_or(|end| end > buffer.bytes) {
            let what = format!(
                "{} weight bytes at {} of a buffer of {}",
                bytes.len(),
                at.offset,
                buffer.bytes
            );
            return Poll::Ready(Err(Error::usage(what)));
        }
        let put = self.driver.write(At { buffer: buffer.id, offset: at.offset }, bytes);
        Poll::Ready(put.and_then(|()| self.arrived(s, m, at, bytes.len() as u64)))
    }

    fn build(&self, m: ModelId, program: Arc<Program>) -> Result<(ProgramId, Ticket)> {
        let s = &mut *self.state.lock();
        let p = ProgramId(s.ids.next());
        let answer = self.build_program(s, m, program).map(|built| s.programs.insert(p, built));
        let ticket = s.answered(answer);
        Ok((p, ticket))
    }

    fn session(
        &self,
        m: ModelId,
        states: &[StateDecl],
        arena: &[u64],
    ) -> Result<(SessionId, Ticket)> {
        let s = &mut *self.state.lock();
        if !s.models.contains_key(&m) {
            return Err(unknown("model", m.0));
        }
        let id = SessionId(s.ids.next());
        let sizes = states.iter().map(|d| d.bytes).chain([arena.iter().sum()]);
        let answer = self.create_all(s, sizes).map(|mut states| {
            if let Some(arena) = states.pop() {
                let (tensors, begun) = (Table::new(), None);
                s.sessions.insert(id, Session { model: m, states, arena, tensors, begun });
            }
        });
        let ticket = s.answered(answer);
        Ok((id, ticket))
    }

    fn grow(&self, id: SessionId, arena: &[u64]) -> Result<Ticket> {
        let s = &mut *self.state.lock();
        let old = s.sessions.get(&id).ok_or_else(|| unknown("session", id.0))?.arena;
        self.free_runs(s, |key| key.session == id);
        // The old one first: both may not fit.
        self.destroy(s, [old]);
        let (arena, answer) = match self.create(s, arena.iter().sum()) {
            Ok(arena) => (arena, Ok(())),
            // The session keeps an arena in which no program fits.
            Err(e) => (self.create(s, 0)?, Err(e)),
        };
        if let Some(session) = s.sessions.get_mut(&id) {
            session.arena = arena;
            session.begun = None;
        }
        Ok(s.answered(answer))
    }

    fn tensor(&self, id: SessionId, bytes: u64) -> Result<(TensorId, Ticket)> {
        let s = &mut *self.state.lock();
        if !s.sessions.contains_key(&id) {
            return Err(unknown("session", id.0));
        }
        let t = TensorId(s.ids.next());
        let made = self.create(s, bytes.next_multiple_of(4));
        let answer = made.map(|buffer| {
            if let Some(session) = s.sessions.get_mut(&id) {
                session.tensors.insert(t, buffer);
            }
        });
        let ticket = s.answered(answer);
        Ok((t, ticket))
    }

    fn submit_with(&self, id: SessionId, p: ProgramId, how: &Submission<'_>) -> Result<Ticket> {
        let s = &mut *self.state.lock();
        self.submit_run(s, (id, p), how)
    }

    fn begin(&self, id: SessionId, p: ProgramId) -> Result<bool> {
        let s = &mut *self.state.lock();
        self.begin_run(s, (id, p))
    }

    fn copy(&self, id: SessionId, copies: &[Copy]) -> Result<()> {
        let s = &mut *self.state.lock();
        s.end_begun(id);
        self.copy_all(s, id, copies)
    }

    fn read(&self, id: SessionId, from: device::Memory, offset: u64, bytes: u64) -> Result<Ticket> {
        let s = &mut *self.state.lock();
        s.end_begun(id);
        self.read_memory(s, id, (from, offset), bytes)
    }

    fn poll(&self, t: Ticket, cx: &mut Context<'_>) -> Poll<Result<Outputs>> {
        let pending = self.state.lock().tickets.remove(&t);
        let Some(pending) = pending else {
            let e = Error::usage(format!("ticket {} has no answer", t.0)).hint("it was redeemed");
            return Poll::Ready(Err(e));
        };
        let (read, sizes) = match &pending {
            Pending::Answered(answer) => return Poll::Ready(answer.clone()),
            Pending::Read { read, sizes, .. } => (*read, sizes.clone()),
        };
        match self.driver.poll_read(read) {
            Ok(Some(bytes)) => {
                let s = &mut *self.state.lock();
                s.counters.readback_bytes += bytes.len() as u64;
                let mut rest = bytes.as_slice();
                let values = sizes.iter().map(|size| {
                    let (value, behind) = rest.split_at((*size).min(rest.len()));
                    rest = behind;
                    value.to_vec()
                });
                Poll::Ready(Ok(Outputs { values: values.collect() }))
            }
            Ok(None) => {
                self.state.lock().tickets.insert(t, pending);
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Err(e) => Poll::Ready(Err(e)),
        }
    }

    fn free(&self, id: AnyId) {
        let s = &mut *self.state.lock();
        match id {
            AnyId::Program(p) => self.free_program(s, p),
            AnyId::Session(id) => self.free_session(s, id),
            AnyId::Tensor(id, t) => {
                let tensor = s.sessions.get_mut(&id).and_then(|session| session.tensors.remove(&t));
                self.destroy(s, tensor);
            }
            AnyId::Model(m) => {
                let Some(model) = s.models.remove(&m) else { return };
                let of: Vec<SessionId> =
                    s.sessions.iter().filter(|x| x.1.model == m).map(|x| *x.0).collect();
                of.into_iter().for_each(|id| self.free_session(s, id));
                let of: Vec<ProgramId> =
                    s.programs.iter().filter(|x| x.1.model == m).map(|x| *x.0).collect();
                of.into_iter().for_each(|p| self.free_program(s, p));
                self.destroy(s, model.buffers);
                self.destroy(s, model.scratch);
                self.destroy(s, model.counts);
            }
        }
    }

    fn counters(&self) -> Counters {
        self.state.lock().counters
    }

    fn time_launches(&self, on: bool) -> Result<()> {
        self.state.lock().timing.on = on;
        Ok(())
    }

    fn poll_times(&self, cx: &mut Context<'_>) -> Poll<Result<Vec<TimedSubmission>>> {
        self.poll_timing(&mut self.state.lock(), cx)
    }
}
