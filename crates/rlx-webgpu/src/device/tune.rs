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
use crate::target::POLICY;
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
use rlx_core::target::Activations;
use rlx_core::types::{BlockFormat, DType, Shape as Dims, Type};
use rlx_core::{Error, Result};
use std::sync::Arc;

/// Most bytes of weights; fewer if the device's binding limit is lower. Above what a large GPU's cache holds.
const WEIGHTS: u64 = 128 << 20;
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
const GAIN: f64 = 0.97;

/// Results and elements of products of each class: a model's of a billion parameters, and one's of eight. What is
/// faster with rows of 2,048 may be slower with rows of 4,096, and one choice serves both. The larger model's longest
/// matrices have fewer rows here, so that half of the smallest binding has room for them.
fn sizes(class: Class) -> [(u64, u64); 2] {
    match class {
        Class::Short => [(2048, 2048), (4096, 4096)],
        Class::Long => [(2048, 8192), (4096, 14_336)],
        Class::Gated => [(8192, 2048), (10_240, 4096)],
        Class::Head => [(32_768, 2048), (18_432, 4096)],
    }
}

/// The format of a class's matrices in files of Q4_K_M.
fn format(class: Class) -> BlockFormat {
    if class == Class::Head { BlockFormat::Q6K } else { BlockFormat::Q4K }
}

/// Caches: heads of keys and values, query heads per such head, positions.
const HEADS: u64 = 8;
const GROUP: u64 = 4;
const CAPACITY: u64 = 4096;
/// Elements of a head, of the same models.
const HEAD: [u64; 2] = [64, 128];
/// Positions behind which attention is timed, in turns: a short conversation wants fewer parts than a long one.
const SEEN: [u32; 2] = [500, 3900];
/// Layers of attention in a submission with heads of each size, and in one of a simulated device.
const LAYERS: u64 = 8;
const FEW_LAYERS: u64 = 2;

/// Weights, states and arena of the programs under test.
struct Workload {
    plan: WeightPlan,
    states: Vec<StateDecl>,
    arena: u64,
    /// How many of the sizes are timed, and layers of attention with each.
    sizes: usize,
    layers: u64,
}

/// Which state the control words are; keys and values of heads of each size follow.
const CONTROL: usize = 0;

/// A program under test.
struct Candidate {
    tuning: Tuning,
    program: ProgramId,
    least: f64,
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
            self.device.session(self.model, &self.workload.states, &[self.workload.arena])?;
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
            candidates.push(Candidate { tuning, program, least: f64::INFINITY });
            self.wait(ticket).await?;
            // The first submission makes what is made once.
            self.submit(session, program, 1).await?;
        }
        let begin = (self.now)();
        // Each candidate gets equally many: the fixed cost of a submission would weigh more where there are few.
        let (mut submissions, mut fastest) = (SEEN.len() as u32, f64::INFINITY);
        for round in 0..ROUNDS {
            for c in candidates.iter_mut() {
                let ms = self.submit(session, c.program, submissions).await?;
                let one = ms / f64::from(submissions);
                if round == 0 {
                    fastest = fastest.min(one);
                } else {
                    c.least = c.least.min(one);
                }
            }
            if round == 0 {
                let wanted = (LONG_ENOUGH / fastest.max(0.1)).ceil().clamp(1.0, SUBMISSIONS) as u32;
                // Each of `SEEN` as often.
                submissions = wanted.next_multiple_of(SEEN.len() as u32);
            }
            if round > 0 && (self.now)() - begin > PATIENCE {
                break;
            }
        }
        Ok(())
    }

    /// Milliseconds of so many submissions.
    async fn submit(&self, session: SessionId, program: ProgramId, n: u32) -> Result<f64> {
        // One row, behind so many others.
        let writes = SEEN.map(|seen| {
            let bytes = [seen, 1].iter().flat_map(|w: &u32| w.to_le_bytes()).collect();
            Write { to: WriteTo::State(CONTROL as u32), offset: 0, bytes }
        });
        let begin = (self.now)();
        let mut tickets = Vec::new();
        for write in writes.iter().cycle().take(n as usize) {
            tickets.push(self.device.submit(session, program, core::slice::from_ref(write))?);
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
        let timed_sizes = if simulated { 1 } else { HEAD.len() };
        let weights = most.min(limits.binding).min(limits.buffer);
        let mut plan = WeightPlan::default();
        plan.buffers = vec![Buffer { bytes: weights }];
        // As many matrices of each size as their share has room for; those of two classes may overlap.
        let share = weights / timed_sizes as u64 / 256 * 256;
        for class in Class::ALL {
            let segments = if class == Class::Gated { 2 } else { 1 };
            for (i, (rows, k)) in (0..).zip(sizes(class)).take(timed_sizes) {
                let ty = Type::tensor(DType::Block(format(class)), Dims::of(&[rows, k]));
                let each = bytes(&ty)?.next_multiple_of(256);
                for j in 0..share / each / segments * segments {
                    plan.entries.push(entry(class.name(), ty.clone(), i * share + j * each)?);
                }
            }
        }
        let low = CAPACITY.isqrt();
        let control = Type::state(DType::U32, Dims::of(&[CONTROL_WORDS]));
        let state = |name: &str, ty: Type| -> Result<StateDecl> {
            Ok(StateDecl { name: name.into(), bytes: bytes(&ty)?, ty })
        };
        let mut states = vec![state("ctl", control)?];
        for head in HEAD.into_iter().take(timed_sizes) {
            plan.entries.push(entry("table", f32s(&[2 * low, head / 2, 2]), 0)?);
            let cache = Type::state(DType::F16, Dims::of(&[HEADS, CAPACITY, head]));
            states.extend([state("k", cache.clone())?, state("v", cache)?]);
        }
        for (_, k) in sizes(Class::Head) {
            plan.entries.push(entry("norm", f32s(&[k]), 0)?);
        }
        Ok(Workload { plan, states, arena: 4 << 20, sizes: timed_sizes, layers })
    }

    fn weights(&self, name: &str) -> Vec<Slice> {
        let all = self.plan.entries.iter().enumerate().filter(|(_, e)| e.name == name);
        all.map(|(i, e)| slice(Space::Weight, i as u32, 0, e.ty.clone(), e.bytes)).collect()
    }

    fn state(&self, i: usize) -> Result<Slice> {
        let of = self.states.get(i).ok_or_else(|| Error::internal("a state that is not there"))?;
        Ok(slice(Space::State, i as u32, 0, of.ty.clone(), of.bytes))
    }

    /// Products with every matrix of a class.
    fn product(&self, class: Class) -> Result<Vec<Step>> {
        let gated = class == Class::Gated;
        let segments = if gated { 2 } else { 1 };
        let epilogue = if gated { Epilogue::Glu(Unary::Silu) } else { Epilogue::None };
        // As a layer has them: blocks of int16 where the device's policy has these, and a norm before gate and up and
        // before the head.
        let quantize = Some(match POLICY.activations.decode {
            Activations::Int16 | Activations::Mixed => BlockFormat::Q15_0,
            Activations::Int8 | Activations::F16 | Activations::F32 => BlockFormat::Q8_0,
        });
        let norm = matches!(class, Class::Gated | Class::Head).then_some(1e-5);
        let op = Op::from(MatMul { segments, epilogue, norm, quantize, ..MatMul::plain() });
        let weights = self.weights(class.name());
        let norms = self.weights("norm");
        let steps = weights.chunks_exact(segments).map(|weights| {
            let dims = weights[0].ty.shape.static_dims()?;
            let k = f32s(&dims[1..]);
            let mut operands = vec![arena(0, f32s(&[1, dims[1]]))?];
            operands.extend(norms.iter().find(|n| norm.is_some() && n.ty == k).cloned());
            operands.extend(weights.iter().cloned());
            step(op.clone(), operands, 1 << 20)
        });
        steps.collect()
    }

    /// Layers of attention in so many parts.
    fn attention(&self, parts: u64) -> Result<Vec<Step>> {
        let splits = (parts / HEADS).clamp(1, CAPACITY / 64) as usize;
        let join = Op::from(AttentionJoin { splits, sinks: false });
        let tables = self.weights("table");
        let mut steps = Vec::new();
        for (i, (head, table)) in HEAD.into_iter().zip(tables).enumerate().take(self.sizes) {
            let whole = Attention::causal(head as usize, 0.125);
            let split = AttentionSplit { whole, splits, least: 64 };
            let split = Op::from(RopeAttentionSplit { style: RopeStyle::Half, norm: None, split });
            let width = HEADS * head;
            let operands = vec![
                arena(0, f32s(&[1, GROUP * width]))?,
                arena(1 << 16, f32s(&[1, width]))?,
                arena(1 << 17, f32s(&[1, width]))?,
                table,
                self.state(1 + 2 * i)?,
                self.state(2 + 2 * i)?,
                self.state(CONTROL)?,
            ];
            for _ in 0..self.layers {
                let split = step(split.clone(), operands.clone(), 1 << 20)?;
                let halves = split.results[..2].to_vec();
                steps.extend([split, step(join.clone(), halves, 0)?]);
            }
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
            arena_segments: Vec::from([self.arena]),
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
