//! A short run that measures which [`Tuning`] is fastest on a device, on matrices and caches of its own.
//!
//! For each choice, one program per candidate is built, and the candidates' programs are submitted in turns. The
//! shortest time of a candidate counts; to replace the present one, it must be 2 % faster. Weights are zeros, because
//! no kernel's time depends on their values. They are larger than a GPU's caches, because decoding waits for memory.
//!
//! It drives the device without an `Opening`: a candidate is built under a tuning of its own and freed after its
//! choice, while memory stays, and no weight's bytes ever arrive.

use super::WebGpuDevice;
use crate::gpu::Gpu;
use crate::tuning::{Class, Tuning};
use core::future::poll_fn;
use rlx_core::ir::lir::{Phase, Program, Slice, Space, StateDecl, Step};
use rlx_core::ir::mir::Graph;
use rlx_core::ops::{
    Attention, AttentionJoin, AttentionSplit, CONTROL_WORDS, Epilogue, MatMul, Op,
    RopeAttentionSplit, RopeStyle, Unary,
};
use rlx_core::plan::{Buffer, Entry, Origin, WeightPlan};
use rlx_core::runtime::device::{
    AnyId, Device, ModelId, ProgramId, SessionId, Ticket, Write, WriteTo,
};
use rlx_core::types::{BlockFormat, DType, Shape as Dims, Type};
use rlx_core::{Error, Result};
use std::sync::Arc;

/// Most bytes of weights; fewer if the device's binding limit is lower.
const WEIGHTS: u64 = 96 << 20;
/// The same where the processor simulates the device: it has no cache of a GPU, and takes its time.
const FEW_WEIGHTS: u64 = 20 << 20;
/// Milliseconds of a measurement: far above a clock's steps and a submission's overhead.
const LONG_ENOUGH: f64 = 20.0;
/// Most submissions of one measurement.
const SUBMISSIONS: f64 = 64.0;
/// Most rounds over all candidates of a choice, and milliseconds after which no further round begins.
const ROUNDS: usize = 5;
const PATIENCE: f64 = 1500.0;
/// The time of a new choice, as a fraction of the present one's, must be below this.
const GAIN: f64 = 0.98;

/// Results and elements of a product of each class: those of a model of a billion parameters.
fn size(class: Class) -> (u64, u64) {
    match class {
        Class::Short => (2048, 2048),
        Class::Long => (2048, 8192),
        Class::Gated => (8192, 2048),
        Class::Head => (65_536, 2048),
    }
}

/// Caches: heads of keys and values, query heads per such head, positions, positions in use, elements of a head.
const HEADS: u64 = 8;
const GROUP: u64 = 4;
const CAPACITY: u64 = 4096;
const SEEN: u32 = 1500;
const HEAD: u64 = 64;
/// Layers of attention in a submission, and in one of a simulated device.
const LAYERS: u64 = 16;
const FEW_LAYERS: u64 = 2;

/// Weights, states and arena of the programs under test.
struct Workload {
    plan: WeightPlan,
    states: Vec<StateDecl>,
    arena: u64,
    layers: u64,
}

/// A program under test.
struct Candidate {
    tuning: Tuning,
    program: ProgramId,
    least: f64,
    submissions: u32,
}

/// What a run has found, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Tuned {
    /// The fastest tuning.
    pub tuning: Tuning,
    /// What was timed, in order. A choice that the device leaves no room for is absent.
    pub tried: Vec<Tried>,
}

/// What was timed of a choice. The first of each is what the device had before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tried {
    /// As a tuning's text has it: `short`, `parts`.
    pub choice: &'static str,
    /// With what is tried for this choice, and what was found before for others.
    pub tuning: Tuning,
    /// The least milliseconds of a submission.
    pub ms: f64,
}

/// The fastest tuning found; the device has it from then on. `now` gives milliseconds; `progress` is
/// told how much is done, from 0 to 1.
///
/// # Errors
/// What the device meets. Its tuning is then what it was, and what the run made is freed.
pub async fn tune<G: Gpu>(
    device: &WebGpuDevice<G>,
    now: &dyn Fn() -> f64,
    progress: &dyn Fn(f64),
) -> Result<Tuned> {
    let before = device.tuning.get();
    let workload = Workload::new(device)?;
    let (model, ticket) = device.allocate(Arc::new(workload.plan.clone()))?;
    let run = Run { device, now, progress, workload, model };
    let found = run.all(ticket).await;
    device.free(AnyId::Model(model));
    device.tuning.set(found.as_ref().map_or(before, |found| found.tuning));
    found
}

struct Run<'a, G> {
    device: &'a WebGpuDevice<G>,
    now: &'a dyn Fn() -> f64,
    progress: &'a dyn Fn(f64),
    workload: Workload,
    model: ModelId,
}

impl<G: Gpu> Run<'_, G> {
    async fn wait(&self, t: Ticket) -> Result<()> {
        poll_fn(|cx| self.device.poll(t, cx)).await.map(|_| ())
    }

    async fn all(&self, allocated: Ticket) -> Result<Tuned> {
        self.wait(allocated).await?;
        let (session, ticket) =
            self.device.session(self.model, &self.workload.states, self.workload.arena)?;
        let found = match self.wait(ticket).await {
            Ok(()) => self.choices(session).await,
            Err(e) => Err(e),
        };
        self.device.free(AnyId::Session(session));
        found
    }

    async fn choices(&self, session: SessionId) -> Result<Tuned> {
        let mut found = Tuned { tuning: self.device.tuning.get(), tried: Vec::new() };
        let wgsl = self.device.wgsl.get();
        let total = Class::ALL.len() as f64 + 1.0;
        for (i, class) in Class::ALL.into_iter().enumerate() {
            (self.progress)(i as f64 / total);
            // On a device that binds too little for one there is nothing to measure.
            if self.workload.weights(class.name()).is_empty() {
                continue;
            }
            let shapes = found.tuning.shapes(class, wgsl);
            let all =
                shapes.into_iter().map(|shape| found.tuning.with_shape(class, shape)).collect();
            let steps = |_: &Tuning| self.workload.product(class);
            self.best(session, class.name(), all, &steps, &mut found).await?;
        }
        (self.progress)((total - 1.0) / total);
        let all = found.tuning.all_parts().into_iter();
        let all = all.map(|parts| found.tuning.with_parts(parts)).collect();
        let steps = |t: &Tuning| self.workload.attention(t.parts);
        self.best(session, "parts", all, &steps, &mut found).await?;
        (self.progress)(1.0);
        Ok(found)
    }

    /// Takes the fastest of some tunings, of which the first is the present one, and notes their times.
    async fn best(
        &self,
        session: SessionId,
        choice: &'static str,
        tunings: Vec<Tuning>,
        steps: &dyn Fn(&Tuning) -> Result<Vec<Step>>,
        to: &mut Tuned,
    ) -> Result<()> {
        if tunings.len() == 1 {
            return Ok(());
        }
        let mut candidates = Vec::new();
        let found = self.measure(session, tunings, steps, &mut candidates).await;
        for c in &candidates {
            self.device.free(AnyId::Program(c.program));
        }
        found?;
        let [present, others @ ..] = candidates.as_slice() else {
            return Err(Error::internal("a choice without candidates"));
        };
        let best = others.iter().min_by(|a, b| a.least.total_cmp(&b.least));
        let best = best.filter(|b| b.least < GAIN * present.least).unwrap_or(present);
        to.tuning = best.tuning;
        to.tried.extend(candidates.iter().map(|c| Tried { choice, tuning: c.tuning, ms: c.least }));
        Ok(())
    }

    async fn measure(
        &self,
        session: SessionId,
        tunings: Vec<Tuning>,
        steps: &dyn Fn(&Tuning) -> Result<Vec<Step>>,
        candidates: &mut Vec<Candidate>,
    ) -> Result<()> {
        for tuning in tunings {
            self.device.tuning.set(tuning);
            let program = Arc::new(self.workload.program(steps(&tuning)?));
            let (program, ticket) = self.device.build(self.model, program)?;
            candidates.push(Candidate { tuning, program, least: f64::INFINITY, submissions: 1 });
            self.wait(ticket).await?;
            // The first submission makes what is made once.
            self.submit(session, program, 1).await?;
        }
        let begin = (self.now)();
        for round in 0..ROUNDS {
            for c in candidates.iter_mut() {
                let ms = self.submit(session, c.program, c.submissions).await?;
                let one = ms / f64::from(c.submissions);
                if round == 0 {
                    c.submissions =
                        (LONG_ENOUGH / one.max(0.1)).ceil().clamp(1.0, SUBMISSIONS) as u32;
                } else {
                    c.least = c.least.min(one);
                }
            }
            if round > 0 && (self.now)() - begin > PATIENCE {
                break;
            }
        }
        Ok(())
    }

    /// Milliseconds of so many submissions.
    async fn submit(&self, session: SessionId, program: ProgramId, n: u32) -> Result<f64> {
        // Attention of the row behind `SEEN` others.
        let control: Vec<u8> = [SEEN, 1].iter().flat_map(|w: &u32| w.to_le_bytes()).collect();
        let write = Write { to: WriteTo::State(2), offset: 0, bytes: control };
        let begin = (self.now)();
        let mut tickets = Vec::new();
        for _ in 0..n {
            tickets.push(self.device.submit(session, program, core::slice::from_ref(&write))?);
        }
        for t in tickets {
            self.wait(t).await?;
        }
        Ok((self.now)() - begin)
    }
}

fn bytes(ty: &Type) -> Result<u64> {
    ty.bytes()
}

fn f32s(dims: &[u64]) -> Type {
    Type::tensor(DType::F32, Dims::of(dims))
}

impl Workload {
    fn new<G: Gpu>(device: &WebGpuDevice<G>) -> Result<Workload> {
        let limits = device.target().limits;
        let simulated = device.info.software;
        let (most, layers) = if simulated { (FEW_WEIGHTS, FEW_LAYERS) } else { (WEIGHTS, LAYERS) };
        let weights = most.min(limits.binding).min(limits.buffer) / 256 * 256;
        let mut plan = WeightPlan::default();
        plan.buffers = vec![Buffer { bytes: weights }];
        // As many matrices of each class as there is room for; those of two classes may overlap.
        for class in Class::ALL {
            let (rows, k) = size(class);
            let ty = Type::tensor(DType::Block(BlockFormat::Q4K), Dims::of(&[rows, k]));
            let each = bytes(&ty)?.next_multiple_of(256);
            let segments = if class == Class::Gated { 2 } else { 1 };
            for i in 0..weights / each / segments * segments {
                plan.entries.push(entry(class.name(), ty.clone(), i * each)?);
            }
        }
        let low = CAPACITY.isqrt();
        plan.entries.push(entry("table", f32s(&[2 * low, HEAD / 2, 2]), 0)?);
        let cache = Type::state(DType::F16, Dims::of(&[HEADS, CAPACITY, HEAD]));
        let control = Type::state(DType::U32, Dims::of(&[CONTROL_WORDS]));
        let state = |name: &str, ty: Type| -> Result<StateDecl> {
            Ok(StateDecl { name: name.into(), bytes: bytes(&ty)?, ty })
        };
        let states = vec![state("k", cache.clone())?, state("v", cache)?, state("ctl", control)?];
        Ok(Workload { plan, states, arena: 4 << 20, layers })
    }

    fn weights(&self, class: &str) -> Vec<Slice> {
        let all = self.plan.entries.iter().enumerate().filter(|(_, e)| e.name == class);
        all.map(|(i, e)| slice(Space::Weight, i as u32, 0, e.ty.clone(), e.bytes)).collect()
    }

    /// Products with every matrix of a class.
    fn product(&self, class: Class) -> Result<Vec<Step>> {
        let gated = class == Class::Gated;
        let segments = if gated { 2 } else { 1 };
        let epilogue = if gated { Epilogue::Glu(Unary::Silu) } else { Epilogue::None };
        let quantize = Some(BlockFormat::Q8_0);
        let op = Op::from(MatMul { segments, epilogue, quantize, ..MatMul::plain() });
        let (_, k) = size(class);
        let weights = self.weights(class.name());
        let steps = weights.chunks_exact(segments).map(|weights| {
            let mut operands = vec![arena(0, f32s(&[1, k]))?];
            operands.extend(weights.iter().cloned());
            step(op.clone(), operands, 1 << 20)
        });
        steps.collect()
    }

    /// Layers of attention in so many parts.
    fn attention(&self, parts: u64) -> Result<Vec<Step>> {
        let splits = (parts / HEADS).clamp(1, CAPACITY / 64) as usize;
        let whole = Attention::causal(HEAD as usize, 0.125);
        let split = AttentionSplit { whole, splits, least: 64 };
        let split = Op::from(RopeAttentionSplit { style: RopeStyle::Half, norm: None, split });
        let join = Op::from(AttentionJoin { splits, sinks: false });
        let states = self.states.iter().zip(0u32..);
        let states: Vec<Slice> =
            states.map(|(s, i)| slice(Space::State, i, 0, s.ty.clone(), s.bytes)).collect();
        let width = HEADS * HEAD;
        let mut operands = vec![arena(0, f32s(&[1, GROUP * width]))?];
        operands.extend([arena(1 << 16, f32s(&[1, width]))?, arena(1 << 17, f32s(&[1, width]))?]);
        operands.extend(self.weights("table"));
        operands.extend(states);
        let mut steps = Vec::new();
        for _ in 0..self.layers {
            let split = step(split.clone(), operands.clone(), 1 << 20)?;
            let halves = split.results[..2].to_vec();
            steps.extend([split, step(join.clone(), halves, 0)?]);
        }
        Ok(steps)
    }

    fn program(&self, steps: Vec<Step>) -> Program {
        Program {
            name: "tune".into(),
            graph: Graph::default(),
            steps,
            weights: Vec::new(),
            states: self.states.clone(),
            control: None,
            inputs: Vec::new(),
            outputs: Vec::new(),
            arena_bytes: self.arena,
            arena_segments: Vec::new(),
            alignment: 256,
            largest_live_bytes: self.arena,
            unshared_bytes: self.arena,
            template: None,
            fingerprint: 0,
        }
    }
}

fn entry(name: &str, ty: Type, offset: u64) -> Result<Entry> {
    let (bytes, origin) = (bytes(&ty)?, Origin::File { shard: 0, offset: 0 });
    Ok(Entry { name: name.into(), ty, origin, buffer: 0, offset, bytes })
}

fn slice(space: Space, index: u32, offset: u64, ty: Type, bytes: u64) -> Slice {
    Slice { space, index, offset, ty, bytes }
}

fn arena(offset: u64, ty: Type) -> Result<Slice> {
    let bytes = bytes(&ty)?;
    Ok(slice(Space::Arena, 0, offset, ty, bytes))
}

/// A step whose results stand in the arena from `at` on, or are the states that it writes.
fn step(op: Op, operands: Vec<Slice>, mut at: u64) -> Result<Step> {
    let types: Vec<&Type> = operands.iter().map(|s| &s.ty).collect();
    let mut results = Vec::new();
    for (i, ty) in op.infer(&types)?.into_iter().enumerate() {
        match op.writes().iter().find(|w| w.1 == i) {
            Some(&(operand, _)) => results.push(operands[operand].clone()),
            None => {
                let result = arena(at, ty)?;
                at += result.bytes.next_multiple_of(256);
                results.push(result);
            }
        }
    }
    let (label, regions) = (op.name().into(), Vec::new());
    let (part, live, phase) = (None, None, Phase::Steady);
    Ok(Step { op, operands, results, regions, part, live, phase, label })
}
