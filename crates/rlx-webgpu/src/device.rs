//! [`Device`] over a [`Gpu`]: buffers as the plans say, programs as recorded lists.
//!
//! A program is pipelines, one buffer of step constants and its inputs; with a session it becomes
//! a run: bind groups, a recorded list, and readback buffers, one for each submission in flight.

mod begin;
mod build;
mod moves;
mod planes;
mod probe;
mod run;
mod staging;
mod tickets;
mod timing;
mod tune;
mod weights;

pub use build::Shader;
pub use probe::Probes;
pub use tune::{Tried, Tuned, tune};

use crate::gpu::{Gpu, GpuInfo, Usage, Wgsl, Width};
use crate::kernels::{BindingResource, Book};
use crate::tuning::{self, Tuning};
use core::task::{Context, Poll, ready};
use rlx_core::ir::lir::{Program, StateDecl};
use rlx_core::order;
use rlx_core::plan::{WeightPlan, hash};
use rlx_core::runtime::device::shared::Lock;
use rlx_core::runtime::device::table::{Ids, Table};
use rlx_core::runtime::device::{
    self, AnyId, Bytes, Copy, Counters, Device, DeviceInfo, ModelId, Outputs, Placed, ProgramId,
    SessionId, Submission, TensorId, Ticket, TimedSubmission,
};
use rlx_core::target::{Limits, Policy, RowSplits, Target};
use rlx_core::{Code, Error, Result};
use run::Run;
use staging::Staging;
use std::sync::Arc;
use timing::Timing;

/// A buffer on the GPU.
#[derive(Clone, Copy, Debug)]
struct Buffer {
    id: u32,
    bytes: u64,
}

struct Model {
    plan: Arc<WeightPlan>,
    buffers: Vec<Buffer>,
    /// The codebooks of the weights' formats.
    books: Vec<(Book, Buffer)>,
    /// Weights that are rearranged once all of their bytes are there.
    waiting: Vec<planes::Waiting>,
}

/// A launch of a program, with the resources of its bind group.
struct Launch {
    step: u32,
    kernel: &'static str,
    pipeline: u32,
    memory: Vec<BindingResource>,
    groups: [u32; 3],
}

struct Built {
    model: ModelId,
    program: Arc<Program>,
    launches: Vec<Launch>,
    constants: Buffer,
    inputs: Vec<Buffer>,
}

struct Session {
    model: ModelId,
    states: Vec<Buffer>,
    /// A buffer for each of its segments.
    arena: Vec<Buffer>,
    /// Each tensor's buffer, and the bytes that were asked for.
    tensors: Table<TensorId, (Buffer, u64)>,
    begun: Option<Begun>,
}

/// A program of which the first part was queued, or is left to its rest.
#[derive(Clone, Copy)]
struct Begun {
    program: ProgramId,
    queued: bool,
}

/// What a ticket waits for.
enum Pending {
    /// Error scopes around the creation of buffers.
    Scopes(u32),
    /// Pipelines of a program, and error scopes around its buffers, until they have answered.
    Build(ProgramId, Option<u32>),
    /// The read of outputs, in a slot of a run.
    Read { key: (SessionId, ProgramId), slot: usize, read: u32 },
    /// The read of this many bytes of a buffer, which is then destroyed.
    Copied { buffer: Buffer, read: u32, bytes: u64 },
    /// The end of a submission without outputs, or whose `outputs` are all empty.
    Fence { fence: u32, outputs: usize },
    /// Nothing: the answer is this error.
    Failed(Error),
}

#[derive(Default)]
struct State {
    ids: Ids,
    models: Table<ModelId, Model>,
    programs: Table<ProgramId, Built>,
    sessions: Table<SessionId, Session>,
    runs: Table<(SessionId, ProgramId), Run>,
    tickets: Table<Ticket, Pending>,
    /// Pipelines by their WGSL text; they outlive programs.
    pipelines: Table<String, u32>,
    /// Pipelines that rearrange rows of weights, by the rows' elements.
    planes: Table<u64, u32>,
    staging: Staging,
    timing: Timing,
    counters: Counters,
}

/// The WebGPU executor over a host's GPU.
pub struct WebGpuDevice<G> {
    gpu: G,
    info: GpuInfo,
    /// The executor's name.
    kind: &'static str,
    target: Target,
    /// The features of `info.wgsl` that work, as [`Probes`] found.
    works: Lock<Wgsl>,
    /// The features that kernels use.
    wgsl: Lock<Wgsl>,
    tuning: Lock<Tuning>,
    /// The lanes of subgroups, as [`Probes`] found.
    width: Lock<Width>,
    /// Features that are not used, with the reason: broken ones, and those avoided on request.
    broken: Lock<Vec<String>>,
    avoided: Lock<Vec<String>>,
    state: Lock<State>,
}

impl<G: Gpu> WebGpuDevice<G> {
    /// An executor with the GPU's limits. If the GPU is lost already, calls answer `DeviceLost`.
    pub fn new(gpu: G) -> Self {
        let info = gpu.info();
        Self::with_info(gpu, info)
    }

    /// As [`new`](Self::new), with kernels that use only these WGSL features, which the GPU must have.
    pub fn with_wgsl(gpu: G, wgsl: Wgsl) -> Self {
        let info = GpuInfo { wgsl, ..gpu.info() };
        Self::with_info(gpu, info)
    }

    /// As [`new`](Self::new), with other information about the GPU: limits and WGSL features at most the GPU's.
    pub fn with_info(gpu: G, info: GpuInfo) -> Self {
        // Kernels address bytes with 32 bits.
        let addressable = (1 << 32) - 4;
        let limits = Limits {
            buffer: info.max_buffer.min(addressable),
            binding: info.max_binding.min(addressable),
            storage_buffers: info.max_storage_buffers,
            alignment: 256,
        };
        let mut target = crate::target(limits);
        if let (true, Some(splits)) = (info.software, &mut target.attention_splits) {
            // A simulated GPU has no idle cores: a tile has one split, and workgroups are no more than without.
            splits.rows = splits.rows.map(|rows| RowSplits { parts: 1, ..rows });
        }
        WebGpuDevice {
            gpu,
            kind: "webgpu",
            target,
            works: Lock::new(info.wgsl),
            wgsl: Lock::new(info.wgsl),
            tuning: Lock::new(Tuning::usual(info.wgsl)),
            width: Lock::new(info.width),
            broken: Lock::default(),
            avoided: Lock::default(),
            info,
            state: Lock::default(),
        }
    }

    /// Of these features those that kernels use: f16 arithmetic where the tuning says so.
    fn used(&self, wgsl: Wgsl) -> Wgsl {
        Wgsl { f16: wgsl.f16 && self.tuning.get().half, ..wgsl }
    }

    /// Keeps what was found of the lanes of subgroups, for all that is built from then on.
    fn set_width(&self, width: Width) {
        let before = self.works.get();
        let wgsl = Wgsl { subgroup: width.lanes(), ..before };
        // One that was measured holds for any width.
        if self.tuning.get() == Tuning::usual(before) {
            self.tuning.set(Tuning::usual(wgsl));
        }
        self.width.set(width);
        self.works.set(wgsl);
        self.wgsl.set(wgsl);
    }

    /// The tuning of its kernels.
    pub fn tuning(&self) -> Tuning {
        self.tuning.get()
    }

    /// This executor with a tuning that was measured on this GPU before.
    #[must_use]
    pub fn with_tuning(mut self, tuning: Tuning) -> Self {
        self.tuning.set(tuning);
        if let Some(splits) = &mut self.target.attention_splits {
            splits.parts = tuning.parts;
        }
        self
    }

    /// This executor as part of another one, which is called `kind` and runs models by a policy of its own.
    #[must_use]
    pub fn called(mut self, kind: &'static str, policy: Policy) -> Self {
        self.kind = kind;
        self.target.name = kind.into();
        self.target.policy = policy;
        self
    }

    /// The GPU's id of a weight buffer of the plan, for a host that writes it itself, without a copy in
    /// wasm memory. The host must keep the staging ring's bound.
    pub fn weight_buffer(&self, m: ModelId, buffer: u32) -> Option<u32> {
        self.state.lock().models.get(&m)?.buffers.get(buffer as usize).map(|b| b.id)
    }

    /// The GPU.
    pub fn gpu(&self) -> &G {
        &self.gpu
    }

    fn alive(&self) -> Result<()> {
        if self.gpu.is_lost() {
            return Err(Error::new(Code::DeviceLost, "the GPU went away").hint("load again"));
        }
        Ok(())
    }

    fn create(&self, s: &mut State, bytes: u64, usage: Usage, label: &str) -> Buffer {
        // WebGPU rejects empty bindings, and the last element of an array of 16 bytes must fit as a whole.
        let bytes = bytes.div_ceil(16).max(1) * 16;
        let id = s.ids.next();
        self.gpu.create_buffer(id, bytes, usage, label);
        s.counters.live_bytes += bytes;
        Buffer { id, bytes }
    }

    /// A buffer for each segment of an arena, and one at least: steps bind the first where their tensors are empty.
    fn create_arena(&self, s: &mut State, segments: &[u64]) -> Vec<Buffer> {
        let segments = if segments.is_empty() { &[0] } else { segments };
        segments.iter().map(|&n| self.create(s, n, Usage::Storage, "arena")).collect()
    }

    fn destroy(&self, s: &mut State, buffers: impl IntoIterator<Item = Buffer>) {
        for b in buffers {
            self.gpu.destroy_buffer(b.id);
            s.counters.live_bytes -= b.bytes;
        }
    }

    fn fits(&self, what: &str, bytes: u64, hint: &str) -> Result<()> {
        let most = self.target.limits.binding.min(self.target.limits.buffer);
        if bytes > most {
            return Err(Error::new(
                Code::OutOfMemory,
                format!("{what} needs {bytes} bytes, this GPU binds at most {most}"),
            )
            .hint(hint));
        }
        Ok(())
    }

    fn free_run(&self, s: &mut State, key: (SessionId, ProgramId)) {
        let Some(run) = s.runs.remove(&key) else { return };
        for id in &run.bind_groups {
            self.gpu.free_bind_group(*id);
        }
        for list in &run.lists {
            self.gpu.free_list(*list);
        }
        for slot in &run.slots {
            self.gpu.free_list(slot.list);
            self.destroy(s, [slot.buffer]);
        }
        for pending in s.tickets.values_mut() {
            if matches!(pending, Pending::Read { key: k, .. } if *k == key) {
                *pending = Pending::Failed(disposed());
            }
        }
    }

    fn free_runs(&self, s: &mut State, of: impl Fn(&(SessionId, ProgramId)) -> bool) {
        let keys: Vec<_> = s.runs.keys().copied().filter(of).collect();
        for key in keys {
            self.free_run(s, key);
        }
    }

    fn free_program(&self, s: &mut State, p: ProgramId) {
        let Some(built) = s.programs.remove(&p) else { return };
        self.free_runs(s, |key| key.1 == p);
        self.destroy(s, built.inputs);
        self.destroy(s, [built.constants]);
    }
}

fn unknown(what: &str, id: u32) -> Error {
    Error::usage(format!("the device has no {what} {id}")).hint("it was freed, or never made")
}

fn disposed() -> Error {
    Error::new(Code::Disposed, "the session or program was freed while it ran")
}

impl<G: Gpu> Device for WebGpuDevice<G> {
    fn target(&self) -> &Target {
        &self.target
    }

    fn info(&self) -> DeviceInfo {
        DeviceInfo {
            kind: self.kind.into(),
            adapter: self.info.adapter.clone(),
            features: [
                self.used(self.wgsl.get()).features().into_iter().map(String::from).collect(),
                self.gpu.extras(),
            ]
            .concat(),
            demoted: [self.broken.lock().as_slice(), &self.avoided.lock(), &self.gpu.unused()]
                .concat(),
            subgroups: (self.wgsl.get().lanes() > 1).then(|| self.width.get().to_string()),
            tuning: Some(self.tuning.get().on(self.wgsl.get()).to_string()),
        }
    }

    fn optional(&self) -> Vec<&'static str> {
        self.used(self.works.get()).features()
    }

    fn avoid(&self, features: &[&'static str], why: &str) {
        self.wgsl.set(self.works.get().without(features));
        self.avoided.set(features.iter().map(|f| format!("{f}: {why}")).collect());
    }

    fn kernels(&self, model: ModelId) -> Option<String> {
        let s = self.state.lock();
        let used = s.pipelines_of(|built| built.model == model);
        // The table is sorted by the texts.
        let texts = s.pipelines.iter().filter(|p| used.contains(p.1)).map(|p| p.0.as_str());
        Some(format!("{}; kernels {:016x}", tuning::key(&self.info), hash(texts)))
    }

    fn timed_as(&self) -> Option<String> {
        if self.info.software {
            return None;
        }
        let DeviceInfo { features, tuning, .. } = self.info();
        let words = [features, tuning.into_iter().collect()].concat().join(" ");
        Some(format!("{}; {words}", tuning::key(&self.info)))
    }

    fn forget_kernels(&self) {
        let mut s = self.state.lock();
        let s = &mut *s;
        let used = s.pipelines_of(|_| true);
        s.pipelines.retain(|_, id| {
            let kept = used.contains(id);
            if !kept {
                self.gpu.free_pipeline(*id);
            }
            kept
        });
    }

    fn allocate(&self, plan: Arc<WeightPlan>) -> Result<(ModelId, Ticket)> {
        self.allocate_model(plan)
    }

    fn extend(&self, m: ModelId, plan: Arc<WeightPlan>) -> Result<Ticket> {
        self.extend_model(m, plan)
    }

    fn poll_put(
        &self,
        m: ModelId,
        at: Placed,
        bytes: Bytes<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        if let Err(e) = self.alive() {
            return Poll::Ready(Err(e));
        }
        let mut s = self.state.lock();
        let s = &mut *s;
        let buffer = s.models.get(&m).map(|model| model.buffers.get(at.buffer as usize).copied());
        let Some(Some(buffer)) = buffer else {
            return Poll::Ready(Err(unknown("weight buffer", at.buffer)));
        };
        let bytes = bytes.as_slice();
        let end = at.offset.checked_add(bytes.len().next_multiple_of(4) as u64);
        if !at.offset.is_multiple_of(4) || end.is_none_or(|end| end > buffer.bytes) {
            return Poll::Ready(Err(Error::usage(format!(
                "{} weight bytes at {} of a buffer of {}",
                bytes.len(),
                at.offset,
                buffer.bytes
            ))));
        }
        let to = at.offset + bytes.len() as u64;
        let put = planes::Range { buffer: at.buffer, from: at.offset, to };
        ready!(self.poll_planes(s, m, &put, cx))?;
        ready!(s.staging.poll_put(&self.gpu, &mut s.ids, buffer.id, at.offset, bytes, cx));
        self.arrived(s, m, &put);
        Poll::Ready(Ok(()))
    }

    fn build(&self, m: ModelId, program: Arc<Program>) -> Result<(ProgramId, Ticket)> {
        self.alive()?;
        let mut s = self.state.lock();
        let s = &mut *s;
        let (built, scopes) = self.build_program(s, m, program)?;
        let p = ProgramId(s.ids.next());
        s.programs.insert(p, built);
        Ok((p, s.ticket(Pending::Build(p, Some(scopes)))))
    }

    fn session(
        &self,
        m: ModelId,
        states: &[StateDecl],
        arena: &[u64],
    ) -> Result<(SessionId, Ticket)> {
        self.alive()?;
        for &bytes in arena {
            self.fits("the arena", bytes, "use a shorter prefill chunk")?;
        }
        for state in states {
            let what = format!("state {}", state.name);
            self.fits(&what, state.bytes, "use a smaller context, or --kv f16")?;
        }
        let mut s = self.state.lock();
        let s = &mut *s;
        if !s.models.contains_key(&m) {
            return Err(unknown("model", m.0));
        }
        self.gpu.push_scopes();
        let arena = self.create_arena(s, arena);
        let states =
            states.iter().map(|d| self.create(s, d.bytes, Usage::Storage, &d.name)).collect();
        let scopes = s.ids.next();
        self.gpu.pop_scopes(scopes);
        let id = SessionId(s.ids.next());
        s.sessions
            .insert(id, Session { model: m, states, arena, tensors: Table::new(), begun: None });
        Ok((id, s.ticket(Pending::Scopes(scopes))))
    }

    fn grow(&self, id: SessionId, arena: &[u64]) -> Result<Ticket> {
        self.alive()?;
        for &bytes in arena {
            self.fits("the arena", bytes, "use smaller inputs")?;
        }
        let mut s = self.state.lock();
        let s = &mut *s;
        let session = s.sessions.get_mut(&id).ok_or_else(|| unknown("session", id.0))?;
        let old = std::mem::take(&mut session.arena);
        // Earlier submissions keep the old arena until they have run.
        self.free_runs(s, |key| key.0 == id);
        self.destroy(s, old);
        self.gpu.push_scopes();
        let arena = self.create_arena(s, arena);
        let scopes = s.ids.next();
        self.gpu.pop_scopes(scopes);
        if let Some(session) = s.sessions.get_mut(&id) {
            session.arena = arena;
            session.begun = None;
        }
        Ok(s.ticket(Pending::Scopes(scopes)))
    }

    fn tensor(&self, id: SessionId, bytes: u64) -> Result<(TensorId, Ticket)> {
        self.alive()?;
        self.fits("a tensor", bytes, "use smaller inputs")?;
        let mut s = self.state.lock();
        let s = &mut *s;
        if !s.sessions.contains_key(&id) {
            return Err(unknown("session", id.0));
        }
        self.gpu.push_scopes();
        let buffer = self.create(s, bytes, Usage::Storage, "tensor");
        let scopes = s.ids.next();
        self.gpu.pop_scopes(scopes);
        let t = TensorId(s.ids.next());
        if let Some(session) = s.sessions.get_mut(&id) {
            session.tensors.insert(t, (buffer, bytes.next_multiple_of(4)));
        }
        Ok((t, s.ticket(Pending::Scopes(scopes))))
    }

    fn submit_with(&self, id: SessionId, p: ProgramId, how: &Submission<'_>) -> Result<Ticket> {
        let mut s = self.state.lock();
        let s = &mut *s;
        let key = (id, p);
        let begun = self.prepare(s, key)?;
        let (Some(session), Some(built)) = (s.sessions.get(&id), s.programs.get(&p)) else {
            return Err(unknown("session", id.0));
        };
        how.check_begun(begun.map(|b| b.program), p, built.program.cut())?;
        run::check(how.writes, built, session)?;
        self.write_all(s, key, how.writes);
        let rest = how.begun && begun.is_some_and(|b| b.queued);
        let pending = self.launch(s, key, how, rest)?;
        Ok(s.ticket(pending))
    }

    fn begin(&self, id: SessionId, p: ProgramId) -> Result<bool> {
        let mut s = self.state.lock();
        let s = &mut *s;
        let key = (id, p);
        self.prepare(s, key)?;
        self.begin_run(s, key)
    }

    fn copy(&self, id: SessionId, copies: &[Copy]) -> Result<()> {
        self.alive()?;
        let mut s = self.state.lock();
        let s = &mut *s;
        self.end_begun(s, id);
        self.copy_all(s, id, copies)
    }

    fn read(&self, id: SessionId, from: device::Memory, offset: u64, bytes: u64) -> Result<Ticket> {
        self.alive()?;
        let mut s = self.state.lock();
        let s = &mut *s;
        self.end_begun(s, id);
        let pending = self.read_memory(s, id, (from, offset), bytes)?;
        Ok(s.ticket(pending))
    }

    fn poll(&self, t: Ticket, cx: &mut Context<'_>) -> Poll<Result<Outputs>> {
        let Some(mut pending) = self.state.lock().tickets.remove(&t) else {
            return Poll::Ready(Err(
                Error::usage(format!("ticket {} has no answer", t.0)).hint("it was redeemed")
            ));
        };
        if let Err(e) = self.alive() {
            return Poll::Ready(Err(e));
        }
        let answer = self.poll_pending(&mut pending, cx);
        if answer.is_pending() {
            self.state.lock().tickets.insert(t, pending);
        }
        answer
    }

    fn free(&self, id: AnyId) {
        let mut s = self.state.lock();
        let s = &mut *s;
        match id {
            AnyId::Program(p) => self.free_program(s, p),
            AnyId::Tensor(id, t) => {
                let tensor = s.sessions.get_mut(&id).and_then(|session| session.tensors.remove(&t));
                self.destroy(s, tensor.map(|t| t.0));
            }
            AnyId::Session(id) => {
                let Some(session) = s.sessions.remove(&id) else { return };
                let tensors: Vec<Buffer> = session.tensors.values().map(|t| t.0).collect();
                self.destroy(s, tensors);
                self.free_runs(s, |key| key.0 == id);
                self.destroy(s, session.states);
                self.destroy(s, session.arena);
            }
            AnyId::Model(m) => {
                let Some(model) = s.models.remove(&m) else { return };
                let programs: Vec<ProgramId> =
                    s.programs.iter().filter(|p| p.1.model == m).map(|p| *p.0).collect();
                for p in programs {
                    self.free_program(s, p);
                }
                for b in &model.buffers {
                    s.staging.forget(b.id);
                }
                self.destroy(s, model.buffers);
                self.destroy(s, model.books.into_iter().map(|b| b.1));
            }
        }
    }

    fn counters(&self) -> Counters {
        self.state.lock().counters
    }

    fn time_launches(&self, on: bool) -> Result<()> {
        if on && !self.info.timestamps {
            let what = format!("{} has no timestamp queries", self.info.adapter);
            return Err(Error::new(Code::Unsupported, what));
        }
        self.state.lock().timing.on = on;
        Ok(())
    }

    fn poll_times(&self, cx: &mut Context<'_>) -> Poll<Result<Vec<TimedSubmission>>> {
        self.state.lock().timing.poll(&self.gpu, cx)
    }
}

impl State {
    /// The pipelines of the selected programs.
    fn pipelines_of(&self, programs: impl Fn(&Built) -> bool) -> Vec<u32> {
        let built = self.programs.values().filter(|p| programs(p));
        let mut ids: Vec<u32> = built.flat_map(|p| &p.launches).map(|l| l.pipeline).collect();
        order::sort(&mut ids);
        ids.dedup();
        ids
    }

    fn ticket(&mut self, pending: Pending) -> Ticket {
        let t = Ticket(self.ids.next());
        self.tickets.insert(t, pending);
        t
    }
}
