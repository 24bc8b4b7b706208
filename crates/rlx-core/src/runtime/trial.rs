//! What a device is timed with before a host chooses it for a model, or how it multiplies: steps of a few of the
//! model's layers, one of each kind, at their own sizes. Their weights are zeros, so that headers are enough. The host
//! has the clock.

use crate::compile::CompilePipeline;
use crate::error::{Code, Error, Result};
use crate::ir::hir::Module;
use crate::ir::lir::Program;
use crate::ir::mir::ParamKind;
use crate::lower::{CTL, PARAMS, ProgramSpec, states};
use crate::models::{self, Checkpoint, Model, Tensors};
use crate::plan::WeightPlan;
use crate::profile::Presets;
use crate::runtime::device::{Bytes, Device, Submission, Ticket, Write, WriteTo};
use crate::runtime::model::ModelOptions;
use crate::runtime::session::load::placements;
use crate::runtime::session::{Opening, Session};
use crate::sample::{Control, SampleParams};
use crate::target::Activations;
use crate::types::{Shape, Type};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::task::{Context, Poll, ready};

/// Positions of the caches: the steps that may be in flight at once.
pub const CONTEXT: u64 = 256;
/// Most bytes of weights: a host may hold them twice.
const MOST_BYTES: u64 = 256 << 20;
/// Bytes of weights that are put at once.
const PIECE: u64 = 1 << 20;

/// A program whose steps are timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timed {
    /// Rows of a step: one is a step of decode, more are a prompt of so many tokens, at most [`CONTEXT`].
    pub rows: u64,
    /// Activation type in matmuls of packed weights.
    pub activations: Activations,
}

impl Timed {
    /// The program, under a name of its own.
    fn spec(self) -> ProgramSpec {
        let usual = match self.rows {
            1 => ProgramSpec::decode(),
            rows => ProgramSpec::prefill_last(rows),
        };
        ProgramSpec { name: format!("{}_{}", usual.name, self.activations.name()), ..usual }
    }
}

/// A few layers of a model.
pub struct Excerpt {
    module: Module,
    /// Of the model's family.
    presets: Option<Presets>,
    /// Name, first byte and byte count of each weight.
    tensors: Vec<(String, u64, u64)>,
    /// Models whose steps take about as long have the same.
    class: String,
    scale: f64,
}

/// Bytes of the weights that a step of the model reads: of tables of embeddings only the one that is the head too.
fn step_bytes(model: &dyn Model, checkpoint: &Checkpoint<'_>) -> Result<u64> {
    let tied = !["output.weight", "lm_head.weight"].iter().any(|n| checkpoint.tensor(n).is_some());
    let is_table = |name: &str| name.contains("embd") || name.contains("embed_tokens");
    let read = |name: &&str| !is_table(name) || (tied && model.is_embedding(name));
    let bytes = |(dtype, dims): (_, &[u64])| Type::tensor(dtype, Shape::of(dims)).bytes();
    checkpoint.names().filter(read).filter_map(|n| checkpoint.tensor(n)).map(bytes).sum()
}

impl Excerpt {
    /// The excerpt of the model of these files.
    ///
    /// # Errors
    /// As [`models::open`]; `Unsupported` for a model that makes no text token by token, and for layers that are too
    /// large to be timed.
    pub fn new(checkpoint: &Checkpoint<'_>, options: &ModelOptions) -> Result<Self> {
        let model = models::open(checkpoint)?;
        let facts = model.facts();
        let unsupported = |what: &str| Error::new(Code::Unsupported, what);
        let layers: Vec<u64> = (0..facts.layers).filter(|&i| model.kind(i) == i).collect();
        let only = model.only(&layers).filter(|_| model.diffusion().is_none());
        let only = only.ok_or_else(|| unsupported("the model has no steps of a token"))?;
        let module = only.build(&Tensors::like(checkpoint, &layers), CONTEXT)?;
        let (mut tensors, mut at, mut read) = (Vec::new(), 0, 0);
        for p in module.params.iter().filter(|p| p.kind == ParamKind::Weight) {
            let bytes = p.ty.bytes()?;
            tensors.push((p.name.clone(), at, bytes));
            at += bytes;
            read += if model.is_embedding(&p.name) { 0 } else { bytes };
        }
        if at > MOST_BYTES {
            return Err(unsupported("the model's layers are too large to be timed"));
        }
        let whole = step_bytes(&*model, checkpoint)?;
        let activations = options.activations.decode.name();
        let size = whole.max(1).ilog2();
        Ok(Excerpt {
            class: format!("{} {} layers 2^{size} bytes {activations}", facts.family, facts.layers),
            scale: whole as f64 / read.max(1) as f64,
            presets: models::presets(facts.family),
            module,
            tensors,
        })
    }

    /// What models have in common whose steps take about as long.
    pub fn class(&self) -> &str {
        &self.class
    }

    /// How many times as long a step of the model takes, by the bytes that are read.
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// Bytes of its weights.
    pub fn bytes(&self) -> u64 {
        self.tensors.iter().map(|t| t.2).sum()
    }

    /// Puts the excerpt on a device, with these programs, which share its weights.
    ///
    /// # Errors
    /// As the compiler, and errors that the device returns at once.
    pub fn start(
        &self,
        device: &Arc<dyn Device>,
        options: &ModelOptions,
        timed: &[Timed],
    ) -> Result<Trial> {
        let target = device.target();
        let mut programs = Vec::new();
        for timed in timed {
            let (spec, activations) = (timed.spec(), timed.activations.into());
            let own = ModelOptions { activations, ..options.clone() };
            let own = own.of_program(&spec, self.presets);
            let pipeline = CompilePipeline::new(target.clone()).with_options(own);
            programs.push(pipeline.compile_program(&self.module, &spec)?.lir);
        }
        let locate = &mut |name: &str| {
            let found = self.tensors.iter().find(|t| t.0 == name);
            found.map(|(_, offset, bytes)| (0, *offset, *bytes))
        };
        let all: Vec<&Program> = programs.iter().map(|p| &**p).collect();
        let plan = WeightPlan::new(&all, &target.limits, locate)?;
        for program in &mut programs {
            plan.bind(Arc::make_mut(program))?;
        }
        let names = timed.iter().map(|t| t.spec().name);
        let programs = names.zip(programs).collect();
        let states = states(&self.module, options.compile.caches())?;
        let opening = Opening::of_programs(device.clone(), plan, states, programs)?;
        let (timed, session, tickets) = (timed.to_vec(), None, Vec::new());
        Ok(Trial { timed, opening: Some(opening), session, placed: (0, 0), wanted: None, tickets })
    }
}

/// An excerpt on a device. Dropping it frees everything there.
pub struct Trial {
    timed: Vec<Timed>,
    opening: Option<Opening>,
    session: Option<Session>,
    /// The range of weights that is being put, and how many of its bytes have been.
    placed: (usize, u64),
    /// Which program's steps have still to be submitted, and how many.
    wanted: Option<(Timed, u32)>,
    /// Tickets of the others, the last first.
    tickets: Vec<Ticket>,
}

impl Trial {
    /// Has [`poll`](Self::poll) run this many steps, at most [`CONTEXT`], of one of the programs, by its place.
    pub fn run(&mut self, program: usize, steps: u32) {
        self.wanted = self.timed.get(program).map(|&timed| (timed, steps.min(CONTEXT as u32)));
    }

    /// Waits until the weights are on the device, and then for the steps.
    ///
    /// # Errors
    /// Errors of the device, for example a kernel that its driver does not compile.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        if let Some(opening) = &mut self.opening {
            ready!(load(opening, &mut self.placed, cx))?;
            self.session = self.opening.take().map(Opening::finish);
        }
        let session = self.session.as_ref().ok_or_else(|| Error::internal("a trial has failed"))?;
        if let Some((timed, steps)) = self.wanted.take() {
            let (name, first) = (timed.spec().name, first(session, timed.rows)?);
            for step in 0..steps {
                // Steps of decode go on from one another; a prompt is the same one each time.
                let begins = step == 0 || timed.rows > 1;
                let writes = if begins { &first[..] } else { &[] };
                let ticket = session.submit(&name, &Submission::new(writes))?;
                self.tickets.insert(0, ticket);
            }
        }
        while let Some(&ticket) = self.tickets.last() {
            ready!(session.poll(ticket, cx))?;
            self.tickets.pop();
        }
        Poll::Ready(Ok(()))
    }
}

/// Puts zeros everywhere on the device: memory that nobody wrote may be no memory yet.
fn load(
    opening: &mut Opening,
    placed: &mut (usize, u64),
    cx: &mut Context<'_>,
) -> Poll<Result<()>> {
    ready!(opening.poll_ready(cx))?;
    let zeros = vec![0; PIECE as usize];
    for p in placements(opening.weights().plan(), 0).iter().skip(placed.0) {
        while placed.1 < p.bytes {
            let n = (p.bytes - placed.1).min(PIECE);
            let bytes = Bytes::Slice(&zeros[..n as usize]);
            ready!(opening.loader().poll_put(&p.to, placed.1, bytes, cx))?;
            placed.1 += n;
        }
        *placed = (placed.0 + 1, 0);
    }
    opening.poll(cx)
}

/// What is written before a step of so many rows that begins where the caches are empty.
fn first(session: &Session, rows: u64) -> Result<Vec<Write>> {
    let state = |name: &str, words: &[u32]| -> Result<Write> {
        let bytes = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        Ok(Write { to: WriteTo::State(session.state(name)?), offset: 0, bytes })
    };
    let (len, capacity) = (rows as u32, CONTEXT as u32);
    let control = Control { len, limit: u32::MAX, capacity, ..Control::default() };
    let params = state(PARAMS, &SampleParams::default().to_words())?;
    let mut writes = Vec::from([params, state(CTL, &control.to_words())?]);
    if rows > 1 {
        writes.push(Write { to: WriteTo::Input(0), offset: 0, bytes: vec![0; 4 * rows as usize] });
    }
    Ok(writes)
}
