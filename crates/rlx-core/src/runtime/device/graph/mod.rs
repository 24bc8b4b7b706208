//! [`Device`] for executors that take graphs: a compiler of their own decides what runs, in what order and where.
//!
//! Such an executor is a [`Backend`]: tensors, and graphs compiled to functions of tensors. It gets each program as one
//! graph ([`closed`]), fused and legalised for its target, and never looks at steps or addresses. An arena is not
//! allocated: the plan's bytes are an estimate of what the backend's own memory for a program will be.
//!
//! States are tensors that a run is given and returns anew. A write or copy of a part of a tensor goes through the
//! host, where the backend's next run fetches it: a generated token needs none.

mod held;
mod state;

use crate::error::{Code, Error, Result};
use crate::ir::lir::{Program, StateDecl};
use crate::ir::mir::Graph;
use crate::plan::{WeightPlan, closed};
use crate::runtime::device::shared::{Anywhere, Lock};
use crate::runtime::device::{
    self, AnyId, Bytes, Copy, Counters, Device, DeviceInfo, Memory, ModelId, Outputs, Placed,
    ProgramId, SessionId, Submission, TensorId, Ticket, no_cut,
};
use crate::target::Target;
use crate::types::Type;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::task::{Context, Poll};
use held::Held;
use state::{Built, Model, Pending, Session, State, unknown};

/// An argument of a run.
#[derive(Debug)]
pub enum Argument<T> {
    /// The run reads it; others have it too.
    Shared(Arc<T>),
    /// A state's last version, which nobody else has: the run may write its result there.
    Given(T),
}

impl<T> Argument<T> {
    /// The tensor.
    pub fn tensor(&self) -> &T {
        match self {
            Argument::Shared(t) => t,
            Argument::Given(t) => t,
        }
    }
}

/// An executor that takes graphs.
pub trait Backend: Anywhere {
    /// A tensor in the backend's memory, which is free again once this is dropped.
    type Tensor: Anywhere;
    /// A compiled graph.
    type Executable: Anywhere;
    /// A tensor's bytes on their way to the host.
    type Read: Anywhere;

    /// Which device this is.
    fn info(&self) -> DeviceInfo;

    /// Makes a tensor of bytes: row-major, little-endian; blocks for a packed type.
    ///
    /// # Errors
    /// `OutOfMemory`; `DeviceLost`.
    fn upload(&self, ty: &Type, bytes: &[u8]) -> Result<Self::Tensor>;

    /// Compiles a graph without symbols. Its parameters are arguments in their order; what returns are its outputs,
    /// then the last version of each state, in the order of [`Graph::final_states`].
    ///
    /// # Errors
    /// `Unsupported` for an operator that the target does not claim; errors of the backend's compiler.
    fn compile(&self, graph: &Graph) -> Result<Self::Executable>;

    /// Queues a run. Results may not be there yet when it returns.
    ///
    /// # Errors
    /// `DeviceLost`, `OutOfMemory`.
    fn run(
        &self,
        executable: &Self::Executable,
        arguments: Vec<Argument<Self::Tensor>>,
    ) -> Result<Vec<Self::Tensor>>;

    /// Begins to copy a tensor to the host.
    ///
    /// # Errors
    /// `DeviceLost`.
    fn read(&self, tensor: &Self::Tensor) -> Result<Self::Read>;

    /// The bytes of a read, or nothing if they are not there yet. With `wait` it returns once they are there; without,
    /// it may wait a while.
    ///
    /// # Errors
    /// What the runs before it failed with.
    fn poll(&self, read: &mut Self::Read, wait: bool) -> Result<Option<Vec<u8>>>;
}

/// A backend as a device.
pub struct GraphDevice<B: Backend> {
    backend: B,
    target: Target,
    state: Lock<State<B>>,
}

impl<B: Backend> GraphDevice<B> {
    /// A device for programs of this target.
    pub fn new(backend: B, target: Target) -> Self {
        GraphDevice { backend, target, state: Lock::new(State::default()) }
    }

    /// The backend.
    pub fn backend(&self) -> &B {
        &self.backend
    }

    fn built(&self, s: &State<B>, m: ModelId, program: Arc<Program>) -> Result<Built<B>> {
        program.one_slot(&self.target.name)?;
        let model = s.models.get(&m).ok_or_else(|| unknown("model", m.0))?;
        let closed = closed(&program)?;
        let sources = state::sources(&closed, &program, &model.plan)?;
        let graph = closed.graph;
        let executable = self.backend.compile(&graph)?;
        let outputs = graph.outputs.iter().map(|o| graph.ty(o.value).clone()).collect();
        Ok(Built { model: m, program, executable, sources, outputs })
    }
}

impl<B: Backend + 'static> Device for GraphDevice<B> {
    fn target(&self) -> &Target {
        &self.target
    }

    fn info(&self) -> DeviceInfo {
        DeviceInfo { kind: self.target.name.clone(), ..self.backend.info() }
    }

    fn allocate(&self, plan: Arc<WeightPlan>) -> Result<(ModelId, Ticket)> {
        let s = &mut *self.state.lock();
        let id = ModelId(s.ids.next());
        let model = Model::new(plan);
        s.models.insert(id, model);
        Ok((id, s.answered(Ok(()))))
    }

    fn extend(&self, m: ModelId, plan: Arc<WeightPlan>) -> Result<Ticket> {
        let s = &mut *self.state.lock();
        let model = s.models.get_mut(&m).ok_or_else(|| unknown("model", m.0))?;
        model.extend(plan)?;
        Ok(s.answered(Ok(())))
    }

    fn poll_put(
        &self,
        m: ModelId,
        at: Placed,
        bytes: Bytes<'_>,
        _: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        let s = &mut *self.state.lock();
        let model = s.models.get_mut(&m).ok_or_else(|| unknown("model", m.0));
        Poll::Ready(model.and_then(|model| model.put(at, &bytes)))
    }

    fn build(&self, m: ModelId, program: Arc<Program>) -> Result<(ProgramId, Ticket)> {
        let s = &mut *self.state.lock();
        let id = ProgramId(s.ids.next());
        let answer = self.built(s, m, program).map(|built| s.programs.insert(id, built));
        Ok((id, s.answered(answer)))
    }

    fn session(
        &self,
        m: ModelId,
        states: &[StateDecl],
        _arena: &[u64],
    ) -> Result<(SessionId, Ticket)> {
        let s = &mut *self.state.lock();
        if !s.models.contains_key(&m) {
            return Err(unknown("model", m.0));
        }
        let id = SessionId(s.ids.next());
        let zeros = |d: &StateDecl| {
            let zeros = held::zeros(d.bytes)?;
            self.backend.upload(&d.ty, &zeros).map(|t| Held::device(t, &d.ty))
        };
        let answer = states.iter().map(zeros).collect::<Result<Vec<_>>>().map(|held| {
            let states = states.iter().cloned().zip(held).collect();
            s.sessions.insert(id, Session::new(m, states));
        });
        Ok((id, s.answered(answer)))
    }

    fn grow(&self, id: SessionId, _arena: &[u64]) -> Result<Ticket> {
        let s = &mut *self.state.lock();
        let session = s.sessions.get_mut(&id).ok_or_else(|| unknown("session", id.0))?;
        session.begun = None;
        session.outputs = None;
        Ok(s.answered(Ok(())))
    }

    fn tensor(&self, id: SessionId, bytes: u64) -> Result<(TensorId, Ticket)> {
        let s = &mut *self.state.lock();
        let t = TensorId(s.ids.next());
        let session = s.sessions.get_mut(&id).ok_or_else(|| unknown("session", id.0))?;
        session.tensors.insert(t, Held::Host(held::zeros(bytes.next_multiple_of(4))?));
        Ok((t, s.answered(Ok(()))))
    }

    fn submit_with(&self, id: SessionId, p: ProgramId, how: &Submission<'_>) -> Result<Ticket> {
        let s = &mut *self.state.lock();
        s.submit(&self.backend, (id, p), how)
    }

    fn begin(&self, id: SessionId, p: ProgramId) -> Result<bool> {
        let s = &mut *self.state.lock();
        let built = s.programs.get(&p).ok_or_else(|| unknown("program", p.0))?;
        built.program.cut().ok_or_else(|| no_cut(p))?;
        let session = s.sessions.get_mut(&id).ok_or_else(|| unknown("session", id.0))?;
        session.begun = Some(p);
        Ok(false)
    }

    fn copy(&self, id: SessionId, copies: &[Copy]) -> Result<()> {
        let s = &mut *self.state.lock();
        s.copy(&self.backend, id, copies)
    }

    fn read(&self, id: SessionId, from: Memory, offset: u64, bytes: u64) -> Result<Ticket> {
        let s = &mut *self.state.lock();
        s.read(&self.backend, id, (from, offset), bytes)
    }

    fn poll(&self, t: Ticket, cx: &mut Context<'_>) -> Poll<Result<device::Outputs>> {
        let Some(pending) = self.state.lock().tickets.remove(&t) else {
            let e = Error::usage(alloc::format!("ticket {} has no answer", t.0));
            return Poll::Ready(Err(e.hint("it was redeemed")));
        };
        let mut reading = match pending {
            Pending::Answered(answer) => return Poll::Ready(answer),
            Pending::Reading(reading) => reading,
        };
        for part in &mut reading.parts {
            match part.poll(&self.backend) {
                Ok(true) => {}
                Ok(false) => {
                    self.state.lock().tickets.insert(t, Pending::Reading(reading));
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Err(e) => return Poll::Ready(Err(e)),
            }
        }
        let values: Vec<Vec<u8>> = reading.parts.into_iter().map(held::Part::bytes).collect();
        let read: usize = values.iter().map(Vec::len).sum();
        self.state.lock().counters.readback_bytes += read as u64;
        Poll::Ready(Ok(Outputs { values }))
    }

    fn free(&self, id: AnyId) {
        let s = &mut *self.state.lock();
        match id {
            AnyId::Program(p) => s.free_program(p),
            AnyId::Session(id) => s.free_session(id),
            AnyId::Tensor(id, t) => {
                if let Some(session) = s.sessions.get_mut(&id) {
                    session.tensors.remove(&t);
                }
            }
            AnyId::Model(m) => {
                let of = |x: (&SessionId, &Session<B>)| (x.1.model == m).then_some(*x.0);
                let sessions: Vec<SessionId> = s.sessions.iter().filter_map(of).collect();
                sessions.into_iter().for_each(|id| s.free_session(id));
                let of = |x: (&ProgramId, &Built<B>)| (x.1.model == m).then_some(*x.0);
                let programs: Vec<ProgramId> = s.programs.iter().filter_map(of).collect();
                programs.into_iter().for_each(|p| s.free_program(p));
                s.models.remove(&m);
            }
        }
    }

    fn counters(&self) -> Counters {
        let s = self.state.lock();
        Counters { live_bytes: s.live_bytes(), ..s.counters }
    }
}

/// The error of a session whose states were lost in a run that failed.
fn lost() -> Error {
    Error::new(Code::DeviceLost, "a run failed, and with it the session's states are gone")
        .hint("open the model again")
}
