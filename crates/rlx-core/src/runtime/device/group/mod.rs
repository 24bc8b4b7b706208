//! A device of devices: ranks that run a model together, and look like one device.
//!
//! Every rank gets the same calls in the same order; only weights differ, of which each has its own. A plan without
//! ranks, of a model that was not split, is every rank's, whole. What is read comes from rank 0. An error of one rank
//! is the group's; where other ranks may wait for it in an exchange of tensors, the group is lost.

mod meeting;

pub use meeting::{Meeting, sum, together};

use crate::error::{Code, Error, Result};
use crate::ir::lir::{Program, StateDecl};
use crate::plan::WeightPlan;
use crate::runtime::device::shared::{Anywhere, Lock};
use crate::runtime::device::table::{Ids, Table};
use crate::runtime::device::{
    AnyId, Bytes, Copy, Counters, Device, DeviceInfo, Memory, ModelId, Outputs, Placed, ProgramId,
    SessionId, Submission, TensorId, Ticket,
};
use crate::target::{Ranks, Target};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::task::{Context, Poll, ready};

/// Runs something for every rank.
pub trait Together: Anywhere {
    /// Calls `f` with each number below `ranks`; it returns when all calls have. Ranks whose calls wait for each other
    /// need threads of their own.
    fn each(&self, ranks: usize, f: &(dyn Fn(usize) + Sync));
}

/// One rank after the other.
pub struct InTurn;

impl Together for InTurn {
    fn each(&self, ranks: usize, f: &(dyn Fn(usize) + Sync)) {
        (0..ranks).for_each(f);
    }
}

/// Devices that run a model together.
pub struct Group {
    devices: Vec<Arc<dyn Device>>,
    target: Target,
    run: Arc<dyn Together>,
    inner: Lock<Inner>,
}

#[derive(Default)]
struct Inner {
    ids: Ids,
    models: Table<ModelId, Model>,
    programs: Table<ProgramId, Vec<ProgramId>>,
    sessions: Table<SessionId, Vec<SessionId>>,
    tensors: Table<(SessionId, TensorId), Vec<TensorId>>,
    tickets: Table<Ticket, Waiting>,
    lost: Option<Error>,
}

#[derive(Clone)]
struct Model {
    ids: Vec<ModelId>,
    /// Buffers of each rank, if each has its own weights.
    apart: Option<u32>,
    /// How many ranks have the bytes that are being put.
    have: usize,
}

/// Tickets of ranks that have not answered.
struct Waiting {
    tickets: Vec<Option<Ticket>>,
    /// The first error, and rank 0's answer.
    failed: Option<Error>,
    answer: Outputs,
    /// Whether ranks may wait for each other in it.
    exchanges: bool,
}

fn unknown(what: &str, id: u32) -> Error {
    Error::internal(format!("the group has no {what} {id}"))
}

impl Group {
    /// A group of these devices, of one kind, which exchange tensors with each other; it is planned for as the first.
    ///
    /// # Errors
    /// `Usage` for no devices, or devices of several kinds.
    pub fn new(devices: Vec<Arc<dyn Device>>, run: Arc<dyn Together>) -> Result<Group> {
        let Some(first) = devices.first() else {
            return Err(Error::usage("a group of no devices"));
        };
        let target = first.target().clone();
        if let Some(other) = devices.iter().find(|d| d.target().name != target.name) {
            let (a, b) = (&target.name, &other.target().name);
            return Err(Error::usage(format!(
                "a group of {a} and {b}, expected one kind of device"
            )));
        }
        let ranks = Ranks { count: devices.len() as u64, ..target.claims.ranks };
        let target = target.with_ranks(ranks);
        Ok(Group { devices, target, run, inner: Lock::default() })
    }

    /// Calls every rank, all at once if their calls may wait for each other; the results in the order of the ranks.
    fn all<T: Send>(&self, f: impl Fn(usize, &dyn Device) -> Result<T> + Sync) -> Result<Vec<T>> {
        let made: Vec<Lock<Option<Result<T>>>> =
            self.devices.iter().map(|_| Lock::new(None)).collect();
        self.run.each(self.devices.len(), &|rank| {
            if let (Some(device), Some(to)) = (self.devices.get(rank), made.get(rank)) {
                to.set(Some(f(rank, &**device)));
            }
        });
        let none = || Err(Error::internal("a rank was not called"));
        made.iter().map(|r| r.lock().take().unwrap_or_else(none)).collect()
    }

    /// Fails once a rank is lost.
    fn check(&self) -> Result<()> {
        self.inner.lock().lost.clone().map_or(Ok(()), Err)
    }

    /// The group's loss, from an error of one rank while others may wait for it.
    fn lose(&self, e: Error) -> Error {
        let inner = &mut *self.inner.lock();
        if inner.lost.is_none() {
            let what = format!("a device of the group failed: {}", e.what);
            inner.lost = Some(Error::new(Code::DeviceLost, what));
        }
        e
    }

    fn ticket(&self, tickets: Vec<Option<Ticket>>, exchanges: bool) -> Ticket {
        let inner = &mut *self.inner.lock();
        let ticket = Ticket(inner.ids.next());
        let waiting = Waiting { tickets, failed: None, answer: Outputs::default(), exchanges };
        inner.tickets.insert(ticket, waiting);
        ticket
    }

    /// A ticket of every rank's.
    fn joined(&self, tickets: Vec<Ticket>, exchanges: bool) -> Ticket {
        self.ticket(tickets.into_iter().map(Some).collect(), exchanges)
    }

    fn model(&self, m: ModelId) -> Result<Model> {
        self.check()?;
        self.inner.lock().models.get(&m).cloned().ok_or_else(|| unknown("model", m.0))
    }

    fn session_ids(&self, s: SessionId) -> Result<Vec<SessionId>> {
        self.check()?;
        self.inner.lock().sessions.get(&s).cloned().ok_or_else(|| unknown("session", s.0))
    }

    fn program_ids(&self, p: ProgramId) -> Result<Vec<ProgramId>> {
        self.inner.lock().programs.get(&p).cloned().ok_or_else(|| unknown("program", p.0))
    }

    /// A memory of a session as a rank numbers it.
    fn memory(&self, s: SessionId, memory: Memory, rank: usize) -> Result<Memory> {
        let program = |p| self.program_ids(p)?.get(rank).copied().ok_or_else(|| unknown("rank", 0));
        Ok(match memory {
            Memory::Input(p, n) => Memory::Input(program(p)?, n),
            Memory::Output(p, n) => Memory::Output(program(p)?, n),
            Memory::State(n) => Memory::State(n),
            Memory::Tensor(t) => {
                let inner = self.inner.lock();
                let own = inner.tensors.get(&(s, t)).and_then(|ids| ids.get(rank)).copied();
                Memory::Tensor(own.ok_or_else(|| unknown("tensor", t.0))?)
            }
        })
    }
}

/// Ids and tickets apart.
fn apart<I>(made: Vec<(I, Ticket)>) -> (Vec<I>, Vec<Ticket>) {
    made.into_iter().unzip()
}

impl Device for Group {
    fn target(&self) -> &Target {
        &self.target
    }

    fn info(&self) -> DeviceInfo {
        let all: Vec<DeviceInfo> = self.devices.iter().map(|d| d.info()).collect();
        let names: Vec<String> = all.iter().map(|i| i.adapter.clone()).collect();
        let adapter = names.join(" + ");
        DeviceInfo { adapter, ..all.into_iter().next().unwrap_or_default() }
    }

    fn allocate(&self, plan: Arc<WeightPlan>) -> Result<(ModelId, Ticket)> {
        self.check()?;
        if !plan.ranks.is_empty() && plan.ranks.len() + 1 != self.devices.len() {
            let what =
                format!("a plan of {} ranks for {}", plan.ranks.len() + 1, self.devices.len());
            return Err(Error::internal(what));
        }
        let split = !plan.ranks.is_empty();
        let made = self.all(|rank, device| {
            let own = match rank.checked_sub(1).and_then(|i| plan.ranks.get(i)) {
                Some(own) => Arc::new(own.clone()),
                None => plan.clone(),
            };
            device.allocate(own)
        })?;
        let (ids, tickets) = apart(made);
        let m = ModelId(self.inner.lock().ids.next());
        let apart = split.then_some(plan.buffers.len() as u32);
        self.inner.lock().models.insert(m, Model { ids, apart, have: 0 });
        Ok((m, self.joined(tickets, false)))
    }

    fn extend(&self, m: ModelId, plan: Arc<WeightPlan>) -> Result<Ticket> {
        let model = self.model(m)?;
        if model.apart.is_some() || !plan.ranks.is_empty() {
            let what = "weights of a model that several devices share are planned all at once";
            return Err(Error::new(Code::Unsupported, what));
        }
        let tickets = self.all(|rank, device| device.extend(model.ids[rank], plan.clone()))?;
        Ok(self.joined(tickets, false))
    }

    fn poll_put(
        &self,
        m: ModelId,
        at: Placed,
        bytes: Bytes<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        let model = match self.model(m) {
            Ok(model) => model,
            Err(e) => return Poll::Ready(Err(e)),
        };
        if let Some(buffers) = model.apart.filter(|&n| n > 0) {
            let rank = (at.buffer / buffers) as usize;
            let own = Placed { buffer: at.buffer % buffers, ..at };
            return match self.devices.get(rank).zip(model.ids.get(rank)) {
                Some((device, &m)) => device.poll_put(m, own, bytes, cx),
                None => Poll::Ready(Err(unknown("buffer", at.buffer))),
            };
        }
        // A rank that has these bytes is not asked again while another one has no room.
        let have = |n: usize| {
            if let Some(model) = self.inner.lock().models.get_mut(&m) {
                model.have = n;
            }
        };
        for rank in model.have..self.devices.len() {
            let put = self.devices[rank].poll_put(model.ids[rank], at, bytes.clone(), cx);
            if let Err(e) = ready!(put) {
                return Poll::Ready(Err(e));
            }
            have(rank + 1);
        }
        have(0);
        Poll::Ready(Ok(()))
    }

    fn build(&self, m: ModelId, program: Arc<Program>) -> Result<(ProgramId, Ticket)> {
        let model = self.model(m)?;
        let made = self.all(|rank, device| device.build(model.ids[rank], program.clone()))?;
        let (ids, tickets) = apart(made);
        let p = ProgramId(self.inner.lock().ids.next());
        self.inner.lock().programs.insert(p, ids);
        Ok((p, self.joined(tickets, false)))
    }

    fn session(
        &self,
        m: ModelId,
        states: &[StateDecl],
        arena: &[u64],
    ) -> Result<(SessionId, Ticket)> {
        let model = self.model(m)?;
        let (ids, tickets) =
            apart(self.all(|rank, device| device.session(model.ids[rank], states, arena))?);
        let s = SessionId(self.inner.lock().ids.next());
        self.inner.lock().sessions.insert(s, ids);
        Ok((s, self.joined(tickets, false)))
    }

    fn grow(&self, s: SessionId, arena: &[u64]) -> Result<Ticket> {
        let ids = self.session_ids(s)?;
        // It waits for submissions before it.
        Ok(self.joined(self.all(|rank, device| device.grow(ids[rank], arena))?, true))
    }

    fn tensor(&self, s: SessionId, bytes: u64) -> Result<(TensorId, Ticket)> {
        let ids = self.session_ids(s)?;
        let (tensors, tickets) = apart(self.all(|rank, device| device.tensor(ids[rank], bytes))?);
        let t = TensorId(self.inner.lock().ids.next());
        self.inner.lock().tensors.insert((s, t), tensors);
        Ok((t, self.joined(tickets, false)))
    }

    fn submit_with(&self, s: SessionId, p: ProgramId, how: &Submission<'_>) -> Result<Ticket> {
        let (sessions, programs) = (self.session_ids(s)?, self.program_ids(p)?);
        let submitted = Lock::new(0usize);
        let tickets = self.all(|rank, device| {
            // What the group returns is rank 0's.
            let how = Submission { read: how.read && rank == 0, ..*how };
            let ticket = device.submit_with(sessions[rank], programs[rank], &how)?;
            *submitted.lock() += 1;
            Ok(ticket)
        });
        match tickets {
            Ok(tickets) => Ok(self.joined(tickets, true)),
            // Nobody waits for a rank where none has begun.
            Err(e) if submitted.get() == 0 && e.code != Code::DeviceLost => Err(e),
            Err(e) => Err(self.lose(e)),
        }
    }

    fn begin(&self, s: SessionId, p: ProgramId) -> Result<bool> {
        let (sessions, programs) = (self.session_ids(s)?, self.program_ids(p)?);
        let begun = self.all(|rank, device| device.begin(sessions[rank], programs[rank]))?;
        if begun.iter().all(|b| *b == begun[0]) {
            return Ok(begun[0]);
        }
        Err(self.lose(Error::internal("some devices of a group have begun a program")))
    }

    fn copy(&self, s: SessionId, copies: &[Copy]) -> Result<()> {
        let ids = self.session_ids(s)?;
        for (rank, device) in self.devices.iter().enumerate() {
            let mut own = Vec::with_capacity(copies.len());
            for copy in copies {
                let (from, to) = (self.memory(s, copy.from, rank)?, self.memory(s, copy.to, rank)?);
                own.push(Copy { from, to, ..*copy });
            }
            device.copy(ids[rank], &own)?;
        }
        Ok(())
    }

    fn read(&self, s: SessionId, from: Memory, offset: u64, bytes: u64) -> Result<Ticket> {
        let ids = self.session_ids(s)?;
        let from = self.memory(s, from, 0)?;
        let mut tickets = vec![None; self.devices.len()];
        tickets[0] = Some(self.devices[0].read(ids[0], from, offset, bytes)?);
        Ok(self.ticket(tickets, true))
    }

    fn poll(&self, t: Ticket, cx: &mut Context<'_>) -> Poll<Result<Outputs>> {
        let Some(mut waiting) = self.inner.lock().tickets.remove(&t) else {
            return Poll::Ready(Err(unknown("ticket", t.0)));
        };
        for (rank, ticket) in waiting.tickets.iter_mut().enumerate() {
            let Some(own) = *ticket else { continue };
            match self.devices[rank].poll(own, cx) {
                Poll::Pending => continue,
                Poll::Ready(Ok(outputs)) if rank == 0 => waiting.answer = outputs,
                Poll::Ready(Ok(_)) => {}
                // Others may wait for this rank, which never comes to where they are.
                Poll::Ready(Err(e)) if waiting.exchanges => {
                    let disposed = e.code == Code::Disposed;
                    return Poll::Ready(Err(if disposed { e } else { self.lose(e) }));
                }
                Poll::Ready(Err(e)) => {
                    waiting.failed.get_or_insert(e);
                }
            }
            *ticket = None;
        }
        if waiting.tickets.iter().any(Option::is_some) {
            if waiting.exchanges && waiting.tickets[0].is_none() {
                // Ranks that work inside of a poll go on when they are asked again.
                cx.waker().wake_by_ref();
            }
            self.inner.lock().tickets.insert(t, waiting);
            return Poll::Pending;
        }
        Poll::Ready(match waiting.failed {
            Some(e) => Err(e),
            None => Ok(waiting.answer),
        })
    }

    fn free(&self, id: AnyId) {
        let inner = &mut *self.inner.lock();
        let own: Vec<AnyId> = match id {
            AnyId::Model(m) => {
                let ids = inner.models.remove(&m).map(|m| m.ids);
                ids.into_iter().flatten().map(AnyId::Model).collect()
            }
            AnyId::Program(p) => {
                inner.programs.remove(&p).into_iter().flatten().map(AnyId::Program).collect()
            }
            AnyId::Session(s) => {
                inner.tensors.retain(|key, _| key.0 != s);
                inner.sessions.remove(&s).into_iter().flatten().map(AnyId::Session).collect()
            }
            AnyId::Tensor(s, t) => {
                let sessions = inner.sessions.get(&s).cloned().unwrap_or_default();
                let tensors = inner.tensors.remove(&(s, t)).unwrap_or_default();
                sessions.into_iter().zip(tensors).map(|(s, t)| AnyId::Tensor(s, t)).collect()
            }
        };
        for (device, id) in self.devices.iter().zip(own) {
            device.free(id);
        }
    }

    fn counters(&self) -> Counters {
        self.devices.iter().map(|d| d.counters()).fold(Counters::default(), |all, own| Counters {
            dispatches: all.dispatches + own.dispatches,
            submits: all.submits + own.submits,
            readback_bytes: all.readback_bytes + own.readback_bytes,
            live_bytes: all.live_bytes + own.live_bytes,
        })
    }
}
