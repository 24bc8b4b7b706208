//! The device: ids and tickets for models, programs and sessions.
//!
//! Work happens in `poll`, which runs the session's submissions in order, up to the polled one. With a
//! clock it works in slices of at most 50 ms, between which the task wakes itself. Without a clock, or
//! with the native pool, each submission runs in one go.

mod moves;
mod runs;

use crate::layout::Layout;
#[cfg(all(target_family = "wasm", target_feature = "atomics"))]
use crate::page_pool;
#[cfg(all(feature = "threads", not(target_family = "wasm")))]
use crate::pool::Pool;
use crate::program::Built;
use crate::run::{Host, Run, Weights};
use crate::simd::Level;
use crate::target::target;
#[cfg(not(target_family = "wasm"))]
use crate::times::Times;
use crate::turns::alone;
use core::ops::Range;
use core::task::{Context, Poll};
use rlx_core::ir::lir::{Program, StateDecl};
use rlx_core::plan::WeightPlan;
use rlx_core::runtime::device::shared::Lock;
use rlx_core::runtime::device::table::{Ids, Table};
use rlx_core::runtime::device::{
    self, AnyId, Bytes, Copy, Counters, Device, DeviceInfo, ModelId, Outputs, Placed, ProgramId,
    SessionId, TensorId, Ticket, Write,
};
use rlx_core::target::Target;
use rlx_core::{Code, Error, Result};
use std::collections::VecDeque;
use std::sync::Arc;

/// Options of the CPU executor.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuOptions {
    /// Number of threads, including the calling one; `None` for one per core. Without the feature `threads`
    /// there is one. On wasm `None` means one too; more need a module built with atomics, and are the web
    /// workers that have called `page_pool::join`.
    pub threads: Option<usize>,
    /// SIMD level; `None` for the best one of this processor.
    pub simd: Option<Level>,
    /// A monotonic clock, in milliseconds. With it `poll` pauses every 50 ms at the latest, unless the
    /// native pool has several workers; without it a submission runs in one go.
    pub clock: Option<fn() -> f64>,
}

/// Milliseconds that `poll` works before it pauses: 50, minus the time of one share and of the reply.
const SLICE_MS: f64 = 40.0;

/// The CPU executor.
pub struct CpuDevice {
    target: Target,
    level: Level,
    workers: usize,
    clock: Option<fn() -> f64>,
    #[cfg(all(feature = "threads", not(target_family = "wasm")))]
    pool: Pool<Run>,
    inner: Lock<Inner>,
}

#[derive(Default)]
struct Inner {
    ids: Ids,
    models: Table<u32, Model>,
    programs: Table<u32, Loaded>,
    sessions: Table<u32, Session>,
    /// Answers that have not been polled yet.
    answers: Table<u32, Result<Outputs>>,
    counters: Counters,
    /// The zero of times, where steps are timed.
    #[cfg(not(target_family = "wasm"))]
    clock: Option<std::time::Instant>,
    #[cfg(not(target_family = "wasm"))]
    timed: Vec<device::TimedSubmission>,
}

struct Model {
    plan: Arc<WeightPlan>,
    weights: Arc<Weights>,
    layout: Layout,
}

struct Loaded {
    model: u32,
    built: Arc<Built>,
}

struct Session {
    model: u32,
    /// The states, then the arena.
    memory: Host,
    n_states: usize,
    /// The inputs of each program that was submitted.
    inputs: Table<u32, Host>,
    tensors: Table<u32, Host>,
    /// The copy of a weight that is an output and is being read, because the weights are shared.
    weight: Vec<u8>,
    queue: VecDeque<Queued>,
    /// The program that has begun, of which nothing runs before its rest.
    begun: Option<u32>,
    bytes: u64,
}

impl Session {
    /// Queues work, which ends what has begun.
    fn push(&mut self, queued: impl IntoIterator<Item = Queued>) {
        self.begun = None;
        self.queue.extend(queued);
    }
}

/// Work of a session, which runs in order.
enum Queued {
    Run(Submission),
    Copy(Copy),
    Read { ticket: u32, from: device::Memory, range: Range<usize> },
    Grow { ticket: u32, bytes: u64 },
}

impl Queued {
    fn ticket(&self) -> Option<u32> {
        match self {
            Self::Run(Submission { ticket, .. })
            | Self::Read { ticket, .. }
            | Self::Grow { ticket, .. } => Some(*ticket),
            Self::Copy(_) => None,
        }
    }
}

struct Submission {
    ticket: u32,
    program: u32,
    writes: Vec<Write>,
    /// Whether outputs are read back.
    read: bool,
    /// The run, once it has begun, if it works in slices.
    run: Option<Arc<Run>>,
    /// The times of its steps, where they are wanted.
    #[cfg(not(target_family = "wasm"))]
    times: Option<Arc<Times>>,
}

impl CpuDevice {
    /// A device.
    ///
    /// # Errors
    /// `DeviceUnavailable` for a SIMD level that this processor lacks, or if no thread starts;
    /// `Usage` for 0 threads.
    pub fn new(options: CpuOptions) -> Result<CpuDevice> {
        let level = options.simd.unwrap_or_else(Level::detect);
        if !level.is_available() {
            return Err(Error::new(
                Code::DeviceUnavailable,
                format!("this processor or build has no {}", level.name()),
            )
            .hint(format!("the best level here is {}", Level::detect().name())));
        }
        if options.threads == Some(0) {
            return Err(Error::usage("threads is 0, expected at least 1"));
        }
        #[cfg(all(feature = "threads", not(target_family = "wasm")))]
        let workers = options
            .threads
            .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
        #[cfg(all(target_family = "wasm", target_feature = "atomics"))]
        let workers = options.threads.unwrap_or(1);
        #[cfg(not(any(
            all(feature = "threads", not(target_family = "wasm")),
            all(target_family = "wasm", target_feature = "atomics")
        )))]
        let workers = 1;
        Ok(CpuDevice {
            target: target(),
            level,
            workers,
            clock: options.clock,
            #[cfg(all(feature = "threads", not(target_family = "wasm")))]
            pool: Pool::new(workers - 1)?,
            inner: Lock::default(),
        })
    }
}

fn gone(what: &str) -> Error {
    Error::internal(format!("the {what} was freed, or never was"))
}

impl Inner {
    /// Makes a program's inputs in a session, unless they exist.
    fn make_inputs(&mut self, session: u32, program: u32) -> Result<()> {
        let loaded = self.programs.get(&program).ok_or_else(|| gone("program"))?;
        let s = self.sessions.get_mut(&session).ok_or_else(|| gone("session"))?;
        if !s.inputs.contains_key(&program) {
            s.inputs.insert(program, Host::new(loaded.built.inputs.iter().copied())?);
            let bytes = loaded.built.inputs.iter().map(|&n| n as u64).sum::<u64>();
            s.bytes += bytes;
            self.counters.live_bytes += bytes;
        }
        Ok(())
    }

    /// A ticket that is answered already.
    fn answered(&mut self, result: Result<()>) -> Ticket {
        let ticket = self.ids.next();
        self.answers.insert(ticket, result.map(|()| Outputs::default()));
        Ticket(ticket)
    }
}

impl Device for CpuDevice {
    fn target(&self) -> &Target {
        &self.target
    }

    fn info(&self) -> DeviceInfo {
        let s = if self.workers == 1 { "" } else { "s" };
        DeviceInfo {
            kind: "cpu".into(),
            adapter: format!("{}, {} thread{s}", self.level.name(), self.workers),
            features: vec![self.level.name().into()],
            ..DeviceInfo::default()
        }
    }

    fn allocate(&self, plan: Arc<WeightPlan>) -> Result<(ModelId, Ticket)> {
        let inner = &mut *self.inner.lock();
        let id = inner.ids.next();
        let mut weights = Weights { buffers: Vec::new(), entries: Vec::new() };
        // At once, because later calls need the model.
        weights.extend(&plan)?;
        inner.counters.live_bytes += plan.bytes();
        let layout = Layout::new(&plan);
        inner.models.insert(id, Model { plan, weights: Arc::new(weights), layout });
        Ok((ModelId(id), inner.answered(Ok(()))))
    }

    fn extend(&self, m: ModelId, plan: Arc<WeightPlan>) -> Result<Ticket> {
        let inner = &mut *self.inner.lock();
        let model = inner.models.get_mut(&m.0).ok_or_else(|| gone("model"))?;
        model.plan.begins(&plan)?;
        alone(&mut model.weights)?.extend(&plan)?;
        inner.counters.live_bytes += plan.bytes() - model.plan.bytes();
        model.layout.extend(&plan);
        model.plan = plan;
        Ok(inner.answered(Ok(())))
    }

    fn poll_put(
        &self,
        m: ModelId,
        at: Placed,
        bytes: Bytes<'_>,
        _: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        let inner = &mut *self.inner.lock();
        let mut put = || -> Result<()> {
            let model = inner.models.get_mut(&m.0).ok_or_else(|| gone("model"))?;
            let weights = alone(&mut model.weights)?;
            model.layout.put(&model.plan, weights, at, &bytes)?;
            Ok(())
        };
        Poll::Ready(put())
    }

    fn build(&self, m: ModelId, program: Arc<Program>) -> Result<(ProgramId, Ticket)> {
        let inner = &mut *self.inner.lock();
        let id = inner.ids.next();
        let model = inner.models.get_mut(&m.0).ok_or_else(|| gone("model"))?;
        let Model { plan, weights, layout } = model;
        let built = Built::new(&program, plan, &self.target).and_then(|built| {
            layout.note(plan, &built.weights, || alone(weights))?;
            Ok(built)
        });
        let result = built.map(|built| {
            let loaded = Loaded { model: m.0, built: Arc::new(built) };
            inner.programs.insert(id, loaded);
        });
        let ticket = inner.answered(result);
        Ok((ProgramId(id), ticket))
    }

    fn session(
        &self,
        m: ModelId,
        states: &[StateDecl],
        arena: &[u64],
    ) -> Result<(SessionId, Ticket)> {
        let inner = &mut *self.inner.lock();
        if !inner.models.contains_key(&m.0) {
            return Err(gone("model"));
        }
        let id = inner.ids.next();
        let arena_bytes = arena.iter().sum::<u64>();
        let sizes = states.iter().map(|s| s.bytes).chain([arena_bytes]);
        let memory = Host::new(sizes.map(|n| usize::try_from(n).unwrap_or(usize::MAX)));
        let bytes = states.iter().map(|s| s.bytes).sum::<u64>() + arena_bytes;
        let result = memory.map(|memory| {
            inner.counters.live_bytes += bytes;
            let session = Session {
                model: m.0,
                memory,
                n_states: states.len(),
                inputs: Table::new(),
                tensors: Table::new(),
                weight: Vec::new(),
                queue: VecDeque::new(),
                begun: None,
                bytes,
            };
            inner.sessions.insert(id, session);
        });
        let ticket = inner.answered(result);
        Ok((SessionId(id), ticket))
    }

    fn grow(&self, s: SessionId, arena: &[u64]) -> Result<Ticket> {
        let inner = &mut *self.inner.lock();
        let ticket = inner.ids.next();
        let session = inner.sessions.get_mut(&s.0).ok_or_else(|| gone("session"))?;
        session.push([Queued::Grow { ticket, bytes: arena.iter().sum() }]);
        Ok(Ticket(ticket))
    }

    fn tensor(&self, s: SessionId, bytes: u64) -> Result<(TensorId, Ticket)> {
        let inner = &mut *self.inner.lock();
        let id = inner.ids.next();
        let session = inner.sessions.get_mut(&s.0).ok_or_else(|| gone("session"))?;
        let bytes = bytes.next_multiple_of(4);
        let size = usize::try_from(bytes).unwrap_or(usize::MAX);
        let result = Host::new([size].into_iter()).map(|host| {
            session.tensors.insert(id, host);
            session.bytes += bytes;
            inner.counters.live_bytes += bytes;
        });
        Ok((TensorId(id), inner.answered(result)))
    }

    fn submit_with(
        &self,
        s: SessionId,
        p: ProgramId,
        how: &device::Submission<'_>,
    ) -> Result<Ticket> {
        let inner = &mut *self.inner.lock();
        let ticket = inner.ids.next();
        let Loaded { model, built } = inner.programs.get(&p.0).ok_or_else(|| gone("program"))?;
        let session = inner.sessions.get_mut(&s.0).ok_or_else(|| gone("session"))?;
        if session.model != *model {
            return Err(Error::internal("the program and the session are of different models"));
        }
        how.check_begun(session.begun.take().map(ProgramId), p, built.cut)?;
        inner.make_inputs(s.0, p.0)?;
        if let Some(session) = inner.sessions.get_mut(&s.0) {
            let (writes, read) = (how.writes.to_vec(), how.read);
            let run = Submission {
                ticket,
                program: p.0,
                writes,
                read,
                run: None,
                #[cfg(not(target_family = "wasm"))]
                times: None,
            };
            session.push([Queued::Run(run)]);
        }
        inner.counters.submits += 1;
        Ok(Ticket(ticket))
    }

    fn begin(&self, s: SessionId, p: ProgramId) -> Result<bool> {
        let inner = &mut *self.inner.lock();
        let built = &inner.programs.get(&p.0).ok_or_else(|| gone("program"))?.built;
        built.cut.ok_or_else(|| device::no_cut(p))?;
        inner.sessions.get_mut(&s.0).ok_or_else(|| gone("session"))?.begun = Some(p.0);
        Ok(false)
    }

    fn copy(&self, s: SessionId, copies: &[Copy]) -> Result<()> {
        let inner = &mut *self.inner.lock();
        for copy in copies {
            copy.check(|memory| inner.size(s.0, memory))?;
        }
        for copy in copies {
            for memory in [copy.from, copy.to] {
                if let device::Memory::Input(p, _) = memory {
                    inner.make_inputs(s.0, p.0)?;
                }
            }
        }
        let session = inner.sessions.get_mut(&s.0).ok_or_else(|| gone("session"))?;
        session.push(copies.iter().map(|copy| Queued::Copy(*copy)));
        Ok(())
    }

    fn read(&self, s: SessionId, from: device::Memory, offset: u64, bytes: u64) -> Result<Ticket> {
        let inner = &mut *self.inner.lock();
        let end = offset.checked_add(bytes);
        let fits = end.zip(inner.size(s.0, from)).is_some_and(|(end, size)| end <= size);
        if !fits || !offset.is_multiple_of(4) || !bytes.is_multiple_of(4) {
            return Err(Error::internal(format!("{bytes} bytes at {offset} are not in {from:?}")));
        }
        if let device::Memory::Input(p, _) = from {
            inner.make_inputs(s.0, p.0)?;
        }
        let ticket = inner.ids.next();
        let session = inner.sessions.get_mut(&s.0).ok_or_else(|| gone("session"))?;
        let range = offset as usize..(offset + bytes) as usize;
        session.push([Queued::Read { ticket, from, range }]);
        Ok(Ticket(ticket))
    }

    fn poll(&self, t: Ticket, cx: &mut Context<'_>) -> Poll<Result<Outputs>> {
        let paused = {
            let inner = &mut *self.inner.lock();
            let start = self.clock.map_or(0.0, |now| now());
            loop {
                if let Some(answer) = inner.answers.remove(&t.0) {
                    return Poll::Ready(answer);
                }
                let session = inner
                    .sessions
                    .iter()
                    .find(|(_, s)| s.queue.iter().any(|q| q.ticket() == Some(t.0)))
                    .map(|(id, _)| *id);
                let Some(session) = session else {
                    let what = format!("ticket {} was answered before, or its session freed", t.0);
                    return Poll::Ready(Err(Error::internal(what)));
                };
                let done = self.advance(inner, session, start);
                let late = self.clock.is_some_and(|now| now() - start >= SLICE_MS);
                if !done || (late && !inner.answers.contains_key(&t.0)) {
                    break true;
                }
            }
        };
        debug_assert!(paused);
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn free(&self, id: AnyId) {
        let inner = &mut *self.inner.lock();
        match id {
            AnyId::Model(ModelId(m)) => {
                if let Some(model) = inner.models.remove(&m) {
                    inner.counters.live_bytes -= model.plan.bytes();
                }
                inner.programs.retain(|_, p| p.model != m);
            }
            AnyId::Program(ProgramId(p)) => {
                inner.programs.remove(&p);
            }
            AnyId::Tensor(SessionId(s), t) => {
                let Some(session) = inner.sessions.get_mut(&s) else { return };
                if let Some(bytes) = session.tensors.remove(&t.0).and_then(|t| t.size(0)) {
                    session.bytes -= bytes as u64;
                    inner.counters.live_bytes -= bytes as u64;
                }
            }
            AnyId::Session(SessionId(s)) => {
                if let Some(session) = inner.sessions.remove(&s) {
                    inner.counters.live_bytes -= session.bytes;
                }
            }
        }
    }

    fn counters(&self) -> Counters {
        self.inner.lock().counters
    }

    #[cfg(not(target_family = "wasm"))]
    fn time_launches(&self, on: bool) -> Result<()> {
        self.inner.lock().clock = on.then(std::time::Instant::now);
        Ok(())
    }

    #[cfg(not(target_family = "wasm"))]
    fn poll_times(&self, _: &mut Context<'_>) -> Poll<Result<Vec<device::TimedSubmission>>> {
        Poll::Ready(Ok(core::mem::take(&mut self.inner.lock().timed)))
    }
}
