//! A model's small twin: the same family, element types and kernels, but few rows and layers, and random
//! weights, made from the header alone. A self-test compares what two devices compute from it, before the
//! model itself answers.

use crate::error::{Error, Result};
use crate::ir::hir::Module;
use crate::ir::mir::ParamKind;
use crate::lower::{CTL, PARAMS, ProgramSpec};
use crate::math;
use crate::models::{self, Checkpoint, Model, Tensors};
use crate::profile::Presets;
use crate::runtime::device::{Bytes, Device, Submission, Ticket, Write, WriteTo};
use crate::runtime::model::{CompiledModel, ModelOptions};
use crate::runtime::session::load::placements;
use crate::runtime::session::{Opening, Session};
use crate::sample::params::MASKED;
use crate::sample::{Control, SampleParams, Scratch, sample};
use crate::sorted::Set;
use crate::types::{DType, Type};
use crate::weights::random::Weights;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::task::{Context, Poll, ready};
use half::{bf16, f16};

/// Rows of the prompt: more than a tile of a matmul has, and more positions than attention takes in one step.
const ROWS: u64 = 160;
/// Rows of a short prompt after it, if the model has a program for short prompts.
const SHORT: u64 = 13;
/// Number of single tokens after both prompts.
const STEPS: u32 = 2;
/// Positions of its caches: enough for all steps, and no more than several splits of attention read.
const CONTEXT: (u64, u64) = (192, 512);
/// Most layers of a twin: a file may have different types in each of its layers.
const LAYERS: usize = 32;
/// The window of a twin's layer whose caches are rings: so short that the steps after the prompt begin them anew.
const RING_WINDOW: u64 = 7;
/// Standard deviation of a matmul's result for a row of deviation 1. It is above 1 so that attention weighs few
/// positions heavily: an average of all would hide one that is wrong.
const GAIN: f32 = 1.5;

/// The twin of a model.
pub struct Twin {
    module: Module,
    /// Its weights, concatenated.
    file: Vec<u8>,
    /// Name, first byte and byte count of each.
    tensors: Vec<(String, u64, u64)>,
    layers: usize,
    /// Of the model's family.
    presets: Option<Presets>,
    rows: u64,
    /// Rows of the short prompt; 0 where there is none.
    short: u64,
    /// Whether the model has caches that are rings.
    rings: bool,
}

/// The result of a step of the twin.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The sampled token.
    pub token: u32,
    /// The logits that it was sampled from.
    pub logits: Vec<f32>,
}

/// The layers of the twin: the first with each element type of each tensor, and the first of each kind.
fn layers(model: &dyn Model, checkpoint: &Checkpoint<'_>) -> Vec<u64> {
    let (mut kept, mut seen) = (Vec::new(), Set::new());
    let number = model.facts().layers;
    let naming = checkpoint.naming();
    for name in checkpoint.names() {
        let Some((layer, part)) = naming.layer_of(name).filter(|l| l.0 < number) else { continue };
        let dtype = checkpoint.tensor(name).map(|t| t.0);
        if seen.insert((part, dtype, model.kind(layer))) && !kept.contains(&layer) {
            kept.push(layer);
        }
        if kept.len() == LAYERS {
            break;
        }
    }
    kept
}

/// Random bytes of a tensor, scaled so that values neither vanish nor grow from layer to layer.
fn bytes_of(model: &dyn Model, name: &str, ty: &Type, number: u32) -> Result<Vec<u8>> {
    let dims = ty.shape.static_dims()?;
    let matrix = dims.len() > 1;
    let sigma = match dims.last() {
        _ if model.is_embedding(name) => 1.0,
        Some(&inputs) if matrix => GAIN / math::sqrtf(inputs as f32),
        _ => 0.2,
    };
    let mut bytes = vec![0; ty.bytes()? as usize];
    Weights::new(ty.dtype, sigma, 1, number)?.fill(0, &mut bytes);
    // Weights of norms, and divisors of frequencies, are factors near 1; exponents of a decay are near -1.
    if !matrix && !name.ends_with(".bias") {
        let middle = if model.is_decay(name) { -1.0 } else { 1.0 };
        match ty.dtype {
            DType::F32 => bytes.as_chunks_mut().0.iter_mut().for_each(|x| {
                *x = (middle + f32::from_le_bytes(*x)).to_le_bytes();
            }),
            DType::F16 => bytes.as_chunks_mut().0.iter_mut().for_each(|x| {
                *x = f16::from_f32(middle + f16::from_le_bytes(*x).to_f32()).to_le_bytes();
            }),
            DType::BF16 => bytes.as_chunks_mut().0.iter_mut().for_each(|x| {
                *x = bf16::from_f32(middle + bf16::from_le_bytes(*x).to_f32()).to_le_bytes();
            }),
            _ => {}
        }
    }
    Ok(bytes)
}

impl Twin {
    /// The twin of the model of these files, for a model with `context` positions and these programs.
    ///
    /// # Errors
    /// As [`models::open`] and building.
    pub fn new(checkpoint: &Checkpoint<'_>, context: u64, options: &ModelOptions) -> Result<Self> {
        let model = models::open(checkpoint)?;
        let layers = layers(&*model, checkpoint);
        let small = model.small(&layers);
        let like = Tensors::like(checkpoint, &layers);
        let mut module = small.build(&like, context.clamp(CONTEXT.0, CONTEXT.1))?;
        let caches = options.compile.caches();
        let rings = caches.spare.is_some() && model.module(checkpoint, context)?.has_rings(caches);
        if rings {
            module.narrow(RING_WINDOW);
        }
        let (mut file, mut tensors) = (Vec::new(), Vec::new());
        for (i, p) in module.params.iter().filter(|p| p.kind == ParamKind::Weight).enumerate() {
            let bytes = bytes_of(&*model, &p.name, &p.ty, i as u32)?;
            tensors.push((p.name.clone(), file.len() as u64, bytes.len() as u64));
            file.extend(bytes);
        }
        let short = options.programs.iter().find(|p| p.is_short());
        let short = short.map_or(0, |p| SHORT.min(p.seq));
        let rows = ROWS.min(options.chunk);
        let presets = models::presets(model.facts().family);
        let layers = layers.len();
        Ok(Twin { module, file, tensors, layers, presets, rows, short, rings })
    }

    /// Starts the twin on a device, compiled with these options.
    ///
    /// # Errors
    /// As the compiler, and errors that the device returns at once.
    pub fn start(&self, device: &Arc<dyn Device>, options: &ModelOptions) -> Result<Run> {
        let mut options = options.clone();
        options.chunk = options.chunk.max(2);
        options.compile.cache_spare =
            options.compile.cache_spare.filter(|_| self.rings).map(|_| self.rows);
        options.programs = Vec::from([
            ProgramSpec::prefill_last(options.chunk).with_logits(),
            ProgramSpec::decode().with_logits(),
        ]);
        if self.short > 0 {
            options.programs.push(ProgramSpec::prefill_short(self.short).with_logits());
        }
        let locate = &mut |name: &str| {
            let found = self.tensors.iter().find(|t| t.0 == name);
            found.map(|(_, offset, bytes)| (0, *offset, *bytes).into())
        };
        let module = self.module.clone();
        let target = device.target();
        let compiled = CompiledModel::compile(module, target, &options, self.presets, locate)?;
        let opening = Opening::programs(device.clone(), &compiled)?;
        let programs = compiled.specs.into_iter().map(|s| s.name).collect();
        Ok(Run {
            programs,
            opening: Some(opening),
            session: None,
            placed: 0,
            tickets: Vec::new(),
            answers: Vec::new(),
        })
    }

    /// Number of layers.
    pub fn layers(&self) -> usize {
        self.layers
    }

    /// Rows of the prompt.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Number of steps: the prompt, a short one, and single tokens after them.
    pub fn steps(&self) -> u32 {
        1 + u32::from(self.short > 0) + STEPS
    }

    /// Whether a step has several rows.
    pub fn is_prompt(&self, step: u32) -> bool {
        self.step(step).1 > 1
    }

    /// A step's first position, its rows, and the program that runs it.
    fn step(&self, step: u32) -> (u64, u64, usize) {
        match (u64::from(step), self.short) {
            (0, _) => (0, self.rows, 0),
            (n, 0) => (self.rows + n - 1, 1, 1),
            (1, short) => (self.rows, short, 2),
            (n, short) => (self.rows + short + n - 2, 1, 1),
        }
    }

    /// A token of the prompt, or of a later step.
    fn token(&self, at: u64) -> u32 {
        // Knuth's multiplier: tokens are far apart for any vocabulary.
        let mixed = (at as u32 + 1).wrapping_mul(2_654_435_761) >> 8;
        (u64::from(mixed) % self.module.vocab.max(1)) as u32
    }

    /// The control block before a step. Its tokens are fixed: they do not depend on what was sampled.
    fn control(&self, step: u32) -> Control {
        let (past, len, _) = self.step(step);
        let token = self.token(past);
        let (past, len, capacity) = (past as u32, len as u32, self.module.context as u32);
        Control { past, len, token, step, limit: u32::MAX, capacity, ..Control::default() }
    }

    /// Whether few tokens may be chosen after a step: after the last.
    pub fn is_masked(&self, step: u32) -> bool {
        step + 1 == self.steps()
    }

    /// What a device reads of how a step is sampled: greedily at first, then at random, at last under a mask.
    fn params(&self, step: u32) -> Vec<u32> {
        let off = SampleParams::default();
        let params = match step {
            0 => off,
            _ => SampleParams {
                temperature: 0.9,
                top_k: 40,
                top_p: 0.95,
                min_p: 0.01,
                seed: 5,
                ..off
            },
        };
        let mut words = Vec::from(params.to_words());
        if self.is_masked(step) {
            words[MASKED] = 1;
            // Two bits in a word, in other places of each: a device that reads another word, or bits in another order,
            // or none, chooses a token that may not be.
            words.extend((0..self.module.vocab.div_ceil(32) as u32).map(|i| {
                let mixed = (i + 1).wrapping_mul(0x9e37_79b1);
                1 << (mixed >> 27) | 1 << (mixed >> 22 & 31)
            }));
        }
        words
    }

    /// The token that the integer sampler chooses from these logits after a step: every device must agree.
    pub fn sampled(&self, step: u32, logits: &[f32]) -> u32 {
        let (params, mut control) = (self.params(step), self.control(step));
        sample(logits, &params, &mut [], &mut control, &mut Scratch::default())
    }
}

/// A twin that runs on a device. Dropping it frees everything there.
pub struct Run {
    /// Names of its programs.
    programs: Vec<String>,
    opening: Option<Opening>,
    session: Option<Session>,
    /// Weights that have been uploaded.
    placed: usize,
    /// Tickets of the steps, the last first.
    tickets: Vec<Ticket>,
    answers: Vec<Answer>,
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

impl Run {
    /// Continues; answers once, with the result of every step.
    ///
    /// # Errors
    /// Errors of the device, for example a kernel that its driver does not compile.
    pub fn poll(&mut self, twin: &Twin, cx: &mut Context<'_>) -> Poll<Result<Vec<Answer>>> {
        if let Some(opening) = &mut self.opening {
            ready!(load(opening, &mut self.placed, twin, cx))?;
            let session = self.opening.take().ok_or_else(over)?.finish();
            // Stored first, so that dropping it half-way frees the model.
            let session = self.session.insert(session);
            for step in 0..twin.steps() {
                let ticket = submit(session, &self.programs, twin, step)?;
                self.tickets.insert(0, ticket);
            }
        }
        let session = self.session.as_ref().ok_or_else(over)?;
        while let Some(&ticket) = self.tickets.last() {
            let outputs = ready!(session.poll(ticket, cx))?;
            self.tickets.pop();
            let (token, logits) = match outputs.values.as_slice() {
                [token, logits] => (token.as_chunks::<4>().0, logits.as_chunks::<4>().0),
                _ => return Poll::Ready(Err(Error::internal("a twin has two outputs"))),
            };
            self.answers.push(Answer {
                token: token.first().map_or(0, |b| u32::from_le_bytes(*b)),
                logits: logits.iter().map(|b| f32::from_le_bytes(*b)).collect(),
            });
        }
        Poll::Ready(Ok(core::mem::take(&mut self.answers)))
    }
}

/// Puts the twin's weights on the device.
fn load(
    opening: &mut Opening,
    placed: &mut usize,
    twin: &Twin,
    cx: &mut Context<'_>,
) -> Poll<Result<()>> {
    ready!(opening.poll_ready(cx))?;
    for p in placements(opening.weights().plan(), 0).iter().skip(*placed) {
        let range = p.file_offset as usize..(p.file_offset + p.bytes) as usize;
        let bytes = twin.file.get(range).unwrap_or(&[]);
        ready!(opening.loader().poll_put(&p.to, 0, Bytes::Slice(bytes), cx))?;
        *placed += 1;
    }
    opening.poll(cx)
}

fn over() -> Error {
    Error::internal("a twin's run has answered")
}

/// Submits a step: the prompt at 0, then single tokens.
fn submit(session: &Session, programs: &[String], twin: &Twin, step: u32) -> Result<Ticket> {
    let state = |name: &str, bytes: Vec<u8>| -> Result<Write> {
        Ok(Write { to: WriteTo::State(session.state(name)?), offset: 0, bytes })
    };
    let mut writes = vec![
        state(PARAMS, words(&twin.params(step)))?,
        state(CTL, words(&twin.control(step).to_words()))?,
    ];
    let (past, rows, program) = twin.step(step);
    if rows > 1 {
        let ids: Vec<u32> = (past..past + rows).map(|at| twin.token(at)).collect();
        writes.push(Write { to: WriteTo::Input(0), offset: 0, bytes: words(&ids) });
    }
    let program = programs.get(program).ok_or_else(over)?;
    session.submit(program, &Submission::new(&writes))
}
