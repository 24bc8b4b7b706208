//! What every executor owes of held answers: token for token those of steps that wait for their masks as a whole,
//! whatever was asked before and whatever ended it.
//!
//! The masks are half of the tokens at random, from a seed and the tokens before; so a mask of another step, or one
//! that comes too late, gives other tokens.

use crate::load::{Hand, fill, headers, wait};
use rlx_core::Result;
use rlx_core::ir::lir::{Program, StateDecl};
use rlx_core::plan::WeightPlan;
use rlx_core::runtime::device::{
    AnyId, Bytes, Copy, Counters, Device, DeviceInfo, Memory, ModelId, Outputs, Placed, ProgramId,
    SessionId, SharedBytes, Submission, TensorId, Ticket,
};
use rlx_core::runtime::generate::constraint::Constraint;
use rlx_core::runtime::generate::engine::{Engine, GenerateOptions, Progress};
use rlx_core::runtime::generate::machine::Reason;
use rlx_core::runtime::model::{CompiledModel, ModelOptions};
use rlx_core::runtime::session::Opening;
use rlx_core::sample::{Likely, SampleParams};
use rlx_core::target::Target;
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll};

/// The device, with every program run as a whole by its rest.
struct Whole(Arc<dyn Device>);

impl Device for Whole {
    fn target(&self) -> &Target {
        self.0.target()
    }
    fn info(&self) -> DeviceInfo {
        self.0.info()
    }
    fn allocate(&self, plan: Arc<WeightPlan>) -> Result<(ModelId, Ticket)> {
        self.0.allocate(plan)
    }
    fn extend(&self, m: ModelId, plan: Arc<WeightPlan>) -> Result<Ticket> {
        self.0.extend(m, plan)
    }
    fn poll_put(
        &self,
        m: ModelId,
        at: Placed,
        bytes: Bytes<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        self.0.poll_put(m, at, bytes, cx)
    }
    fn build(&self, m: ModelId, program: Arc<Program>) -> Result<(ProgramId, Ticket)> {
        self.0.build(m, program)
    }
    fn session(
        &self,
        m: ModelId,
        states: &[StateDecl],
        arena: &[u64],
    ) -> Result<(SessionId, Ticket)> {
        self.0.session(m, states, arena)
    }
    fn grow(&self, s: SessionId, arena: &[u64]) -> Result<Ticket> {
        self.0.grow(s, arena)
    }
    fn tensor(&self, s: SessionId, bytes: u64) -> Result<(TensorId, Ticket)> {
        self.0.tensor(s, bytes)
    }
    fn submit_with(&self, s: SessionId, p: ProgramId, how: &Submission<'_>) -> Result<Ticket> {
        self.0.submit_with(s, p, &Submission { begun: false, ..*how })
    }
    fn begin(&self, _: SessionId, _: ProgramId) -> Result<bool> {
        Ok(false)
    }
    fn copy(&self, s: SessionId, copies: &[Copy]) -> Result<()> {
        self.0.copy(s, copies)
    }
    fn read(&self, s: SessionId, from: Memory, offset: u64, bytes: u64) -> Result<Ticket> {
        self.0.read(s, from, offset, bytes)
    }
    fn poll(&self, t: Ticket, cx: &mut Context<'_>) -> Poll<Result<Outputs>> {
        self.0.poll(t, cx)
    }
    fn free(&self, id: AnyId) {
        self.0.free(id);
    }
    fn counters(&self) -> Counters {
        self.0.counters()
    }
}

/// Allows half of the tokens behind each token, and sometimes all.
struct Half(u64);

impl Half {
    fn draw(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(0x1234_5678_9abc_def1);
        (self.0 >> 32) as u32
    }
}

impl Constraint for Half {
    fn next(&mut self, sampled: &[u32], allowed: &mut [u32]) -> Result<bool> {
        for &id in sampled {
            self.0 ^= u64::from(id) << 17;
            self.draw();
        }
        if self.draw().is_multiple_of(5) {
            return Ok(false);
        }
        allowed.iter_mut().for_each(|word| *word = self.draw());
        Ok(true)
    }
}

/// An answer, and what it went on from.
#[derive(Debug, PartialEq)]
struct Told {
    tokens: Vec<u32>,
    text: String,
    reason: Reason,
    likely: Vec<Option<Likely>>,
    reused: usize,
}

/// A model of `tests/fixtures/gguf` on a device.
fn open(device: Arc<dyn Device>, name: &str) -> Engine {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let file = std::fs::read(root.join("tests/fixtures/gguf").join(name)).unwrap();
    let files: [SharedBytes; 1] = [Arc::new(file)];
    let header = headers(&files).unwrap();
    let mut options = ModelOptions::by(&device.target().policy);
    options.context = Some(64);
    let compiled = CompiledModel::from_gguf(&header, device.target(), &options).unwrap();
    let tokenizer = rlx_core::models::tokenizer(&header).unwrap();
    let session = fill(Opening::programs(device, &compiled).unwrap(), &files, Hand::Kept).unwrap();
    Engine::new(session, Arc::new(compiled), Arc::new(tokenizer)).unwrap()
}

/// One answer, cancelled when it has so many tokens.
fn ask(
    engine: &mut Engine,
    prompt: &[u32],
    (options, seed): (&GenerateOptions, u64),
    cancel: usize,
) -> Told {
    let mut generation = engine.start(prompt.to_vec(), options).unwrap();
    generation.constrain(engine, Box::new(Half(seed))).unwrap();
    let mut text = String::new();
    let reason = loop {
        match wait(|cx| generation.poll_next(engine, cx)).expect("an end") {
            Progress::Text(more) => text += &more,
            Progress::Prompt(..) | Progress::Control(_) => {}
            Progress::Done(reason) => break reason,
        }
        if generation.tokens().len() >= cancel {
            generation.cancel();
        }
    };
    let tokens = generation.tokens().to_vec();
    let likely = (0..tokens.len()).map(|i| generation.likely(i).cloned()).collect();
    Told { tokens, text, reason, likely, reused: generation.reused_tokens() }
}

/// Answers of a model in turn, each prompt going on from the one before: by temperature, penalties, biases, logprobs,
/// the most tokens, a stop string, a full context, a cancel in the middle.
fn turns(engine: &mut Engine) -> Vec<Told> {
    let usual = || GenerateOptions { max_tokens: Some(12), ..GenerateOptions::default() };
    let params = |temperature, seed| SampleParams { temperature, seed, ..SampleParams::default() };
    let penalties = SampleParams {
        repetition_penalty: 1.3,
        presence_penalty: 0.5,
        frequency_penalty: 0.25,
        logit_bias: vec![(40, 4.0), (41, -100.0)],
        top_k: 40,
        ..params(1.5, 3)
    };
    let cases = [
        (usual(), usize::MAX),
        (GenerateOptions { params: params(1.0, 1), ..usual() }, usize::MAX),
        (GenerateOptions { params: penalties, ..usual() }, usize::MAX),
        (GenerateOptions { params: params(0.8, 2), logprobs: Some(3), ..usual() }, usize::MAX),
        (GenerateOptions { params: params(1.9, 7), ..usual() }, 4),
        (
            GenerateOptions { params: params(1.9, 8), stops: vec!["e".into()], ..usual() },
            usize::MAX,
        ),
        (GenerateOptions { max_tokens: None, ignore_stops: true, ..usual() }, usize::MAX),
        (GenerateOptions { max_tokens: Some(1), ..usual() }, usize::MAX),
    ];
    let mut prompt: Vec<u32> = (0..9).map(|i| 20 + 37 * i).collect();
    let mut told = Vec::new();
    for (seed, (options, cancel)) in (0..).zip(&cases) {
        let answer = ask(engine, &prompt, (options, seed), *cancel);
        // Some of the answer, and more, in a context of 64.
        prompt.extend(answer.tokens.iter().take(3));
        prompt.push(30 + seed as u32);
        prompt.truncate(50);
        told.push(answer);
    }
    told
}

/// Holds a device to it: with caches, with rings beside them, and with states of all tokens.
pub fn answers_are_those_of_whole_steps(device: Arc<dyn Device>) {
    for (name, reuses) in [("llama.gguf", true), ("gemma3.gguf", true), ("qwen35.gguf", false)] {
        let got = turns(&mut open(device.clone(), name));
        let want = turns(&mut open(Arc::new(Whole(device.clone())), name));
        for (i, (got, want)) in got.iter().zip(&want).enumerate() {
            assert_eq!(got, want, "{name}, answer {i}");
        }
        let reasons: Vec<_> = want.iter().map(|told| told.reason.finish()).collect();
        assert!(reasons.contains(&None) && reasons.contains(&Some("length")), "{reasons:?}");
        assert_eq!(want[3].likely[0].as_ref().map(|likely| likely.top.len()), Some(3));
        assert_eq!(want[1].reused > 0, reuses, "{name}: states of all tokens cannot be taken back");
        assert!(want[6].tokens.len() > 12, "the context ends it");
    }
}
