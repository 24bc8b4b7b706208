//! What a device is timed with before a host chooses it for a model: decode steps of a few of the model's layers, one
//! of each kind, at their own sizes. Their weights are zeros, so that headers are enough. The host has the clock.

use crate::error::{Code, Error, Result};
use crate::ir::hir::Module;
use crate::ir::mir::ParamKind;
use crate::lower::{CTL, PARAMS, ProgramSpec};
use crate::models::{self, Checkpoint, Model, Tensors};
use crate::profile::Presets;
use crate::runtime::device::{Bytes, Device, Submission, Ticket, Write, WriteTo};
use crate::runtime::model::{CompiledModel, ModelOptions};
use crate::runtime::session::load::placements;
use crate::runtime::session::{Opening, Session};
use crate::sample::{Control, SampleParams};
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

    /// Puts the excerpt on a device, compiled with these options.
    ///
    /// # Errors
    /// As the compiler, and errors that the device returns at once.
    pub fn start(&self, device: &Arc<dyn Device>, options: &ModelOptions) -> Result<Trial> {
        let mut options = ModelOptions { conversations: 0, ..options.clone() };
        options.programs = Vec::from([ProgramSpec::decode()]);
        let locate = &mut |name: &str| {
            let found = self.tensors.iter().find(|t| t.0 == name);
            found.map(|(_, offset, bytes)| (0, *offset, *bytes).into())
        };
        let (module, target) = (self.module.clone(), device.target());
        let compiled = CompiledModel::compile(module, target, &options, self.presets, locate)?;
        let opening = Opening::programs(device.clone(), &compiled)?;
        let (session, tickets) = (None, Vec::new());
        Ok(Trial { opening: Some(opening), session, placed: (0, 0), wanted: 0, tickets })
    }
}

/// An excerpt on a device. Dropping it frees everything there.
pub struct Trial {
    opening: Option<Opening>,
    session: Option<Session>,
    /// The range of weights that is being put, and how many of its bytes have been.
    placed: (usize, u64),
    /// Steps that have still to be submitted.
    wanted: u32,
    /// Tickets of the others, the last first.
    tickets: Vec<Ticket>,
}

impl Trial {
    /// Has [`poll`](Self::poll) run this many steps, at most [`CONTEXT`].
    pub fn run(&mut self, steps: u32) {
        self.wanted = steps.min(CONTEXT as u32);
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
        let wanted = core::mem::take(&mut self.wanted);
        if wanted > 0 {
            let first = first(session)?;
            for step in 0..wanted {
                let writes = if step == 0 { &first[..] } else { &[] };
                let ticket = session.submit("decode", &Submission::new(writes))?;
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

/// What is written before the first of some steps: they begin where the caches are empty.
fn first(session: &Session) -> Result<[Write; 2]> {
    let state = |name: &str, words: &[u32]| -> Result<Write> {
        let bytes = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        Ok(Write { to: WriteTo::State(session.state(name)?), offset: 0, bytes })
    };
    let capacity = CONTEXT as u32;
    let control = Control { len: 1, limit: u32::MAX, capacity, ..Control::default() };
    Ok([state(PARAMS, &SampleParams::default().to_words())?, state(CTL, &control.to_words())?])
}
