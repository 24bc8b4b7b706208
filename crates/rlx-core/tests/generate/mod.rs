//! A fake device with delayed tickets drives reads, stops, cancels, failures and losses in every
//! order through the generation machine and the engine.
//!
//! The fake runs submissions in order, as a device does, and answers tickets when the test says. Its
//! cache rows are hashes of every token up to theirs: a step over a stale row samples `WRONG`, so
//! equal text proves that what was reused was right.
#![cfg(feature = "text")]

mod cases;
mod held;

use crate::load::{Hand, fill};
use rlx_core::ir::hir::{LinearWeights, Module, Weight};
use rlx_core::ir::lir::{Program, StateDecl};
use rlx_core::plan::WeightPlan;
use rlx_core::runtime::device::shared::Lock;
use rlx_core::runtime::device::{
    AnyId, Bytes, Copy, Counters, Device, DeviceInfo, Memory, ModelId, Outputs, Placed, ProgramId,
    SessionId, SharedBytes, Submission, TensorId, Ticket, Write, WriteTo,
};
use rlx_core::runtime::generate::engine::{Engine, GenerateOptions, Generation, Progress};
use rlx_core::runtime::generate::machine::Reason;
use rlx_core::runtime::model::{CompiledModel, ModelOptions};
use rlx_core::runtime::session::Opening;
use rlx_core::sample::{Control, IN_PROMPT, SampleParams, params};
use rlx_core::target::Target;
use rlx_core::text::{TextStream, Tokenizer, VocabData};
use rlx_core::types::{DType, Shape, Type};
use rlx_core::{Code, Error, Result};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Tokens: `a b c`, the two bytes of `é`, what a wrong step samples, the end of a text and that of a
/// turn, which both end an answer.
const TOKENS: [&str; 8] = ["a", "b", "c", "Ã", "©", "!", "<eos>", "<eot>"];
const WRONG: u32 = 5;
const EOS: u32 = 6;
const EOT: u32 = 7;
/// Rows the caches hold.
const CAPACITY: usize = 12;
const CHUNK: usize = 2;

/// What the model answers to what.
#[derive(Clone, Debug)]
struct Case {
    prompt: Vec<u32>,
    /// Repeated for ever.
    answer: Vec<u32>,
    max_tokens: Option<usize>,
    stops: Vec<String>,
    ahead: usize,
    /// Whether a constraint allows each step the one token that the answer has there.
    held: bool,
}

impl Case {
    fn held(self) -> Self {
        Case { held: true, ..self }
    }

    fn token(&self, step: usize) -> u32 {
        self.answer[step % self.answer.len()]
    }

    /// What a run without any hurry gives: tokens, text, reason.
    fn sequential(&self) -> (Vec<u32>, String, Reason) {
        let tokenizer = tokenizer();
        let mut stream = TextStream::new(self.stops.clone());
        let (mut tokens, mut text) = (Vec::new(), String::new());
        loop {
            let id = self.token(tokens.len());
            tokens.push(id);
            let reason = if id == EOS || id == EOT {
                Some(Reason::Stop)
            } else {
                text += stream.push_token(&tokenizer, id);
                let full = self.prompt.len() + tokens.len() > CAPACITY
                    || Some(tokens.len()) == self.max_tokens;
                if stream.stopped() { Some(Reason::Stop) } else { full.then_some(Reason::Length) }
            };
            if let Some(reason) = reason {
                text += stream.finish();
                return (tokens, text, reason);
            }
        }
    }
}

fn tokenizer() -> Tokenizer {
    let mut token_types = vec![1; TOKENS.len()];
    token_types[EOS as usize] = 3;
    token_types[EOT as usize] = 3;
    let data = VocabData {
        model: "gpt2".into(),
        pre: "llama-bpe".into(),
        tokens: TOKENS.map(String::from).into(),
        token_types: Some(token_types),
        eos: Some(EOS),
        eot: Some(EOT),
        ..VocabData::default()
    };
    Tokenizer::new(data).unwrap()
}

enum Answer {
    /// Computed, not yet given.
    Held(Vec<u8>),
    Released(Result<Vec<u8>>),
}

struct Inner {
    case: Case,
    control: Control,
    /// The ids of the last parameters that end an answer on the device.
    stop_ids: Vec<u32>,
    /// What the engine last wrote of tokens that were said, if it did.
    counts: Option<Vec<u32>>,
    /// Hash of all tokens up to each row's; 0 where nothing valid was written.
    rows: Vec<u64>,
    tickets: BTreeMap<u32, Answer>,
    next: u32,
    lost: bool,
    refuse: bool,
    /// Whether first parts run at once.
    parts: bool,
    /// The program of which the first part has been asked for, and whether it has run.
    begun: Option<(ProgramId, bool)>,
    /// First parts that have run.
    begins: u32,
    /// The token that the last mask allows.
    mask: Option<u32>,
    /// What was asked of the device, and of the constraint.
    log: Arc<Lock<Vec<&'static str>>>,
}

/// The ticket of all that takes this device no time.
const DONE: Ticket = Ticket(u32::MAX);

struct Fake {
    target: Target,
    /// Of its programs.
    names: Lock<Vec<String>>,
    inner: Lock<Inner>,
}

fn chain(before: u64, token: u32) -> u64 {
    (before ^ u64::from(token + 1)).wrapping_mul(0x0100_0000_01b3) | 1
}

fn hash(tokens: impl IntoIterator<Item = u32>) -> u64 {
    tokens.into_iter().fold(7, chain)
}

fn to_words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|b| u32::from_le_bytes(b.try_into().unwrap())).collect()
}

impl Inner {
    /// Writes a row over the row before it: a stale one makes a stale one.
    fn write_row(&mut self, at: usize, token: u32) {
        let before = if at == 0 { 7 } else { self.rows[at - 1] };
        self.rows[at] = if before == 0 { 0 } else { chain(before, token) };
    }

    /// The step before the sampler, over these tokens or the one before.
    fn body(&mut self, program: &str, mut ids: Vec<u32>) {
        if program == "decode" {
            ids = vec![self.control.token];
        }
        let Control { past, len, done, .. } = self.control;
        if done == 0 {
            assert_eq!(ids.len(), len as usize);
            for (i, &id) in ids.iter().enumerate() {
                self.write_row(past as usize + i, id);
            }
        }
    }

    /// The whole program, or the rest of it.
    fn run(&mut self, program: &str, writes: &[Write], rest: bool) -> Vec<u8> {
        let mut ids = Vec::new();
        for w in writes {
            let words = to_words(&w.bytes);
            match w.to {
                WriteTo::State(1) if w.offset > 0 => {
                    assert_eq!((w.offset, words[0]), (4 * params::MASKED as u64, 1));
                    let bits = words[params::WORDS - params::MASKED];
                    assert_eq!(bits.count_ones(), 1, "one token is allowed");
                    self.mask = Some(bits.trailing_zeros());
                }
                WriteTo::State(0) => {
                    self.control = Control::from_words(&words.try_into().unwrap());
                }
                WriteTo::State(1) => {
                    let n = words[params::N_STOP] as usize;
                    self.stop_ids = words[params::STOP..][..n].to_vec();
                }
                WriteTo::State(_) => self.counts = Some(words),
                WriteTo::Input(_) => ids = words,
            }
        }
        if program == "decode" {
            let free = self.mask.is_none();
            assert!(!free || writes.is_empty(), "a decode step needs nothing from the host");
        }
        if !rest {
            self.body(program, ids);
        }
        let Control { past, len, done, step, .. } = self.control;
        if done == 0 && program != "prefill" {
            let so_far = (0..step as usize).map(|s| self.case.token(s));
            let want = hash(self.case.prompt.iter().copied().chain(so_far));
            let right = self.rows[(past + len) as usize - 1] == want;
            let id = if right { self.case.token(step as usize) } else { WRONG };
            assert!(self.mask.is_none_or(|mask| mask == id), "the mask is that of the step");
            self.control.advance(id, self.stop_ids.contains(&id));
        }
        match program {
            "prefill" => Vec::new(),
            _ => self.control.token.to_le_bytes().to_vec(),
        }
    }

    /// How much was submitted so far.
    fn submitted(&self) -> u32 {
        self.next + self.begins
    }

    fn held(&self) -> Vec<u32> {
        let held = |a: &Answer| matches!(a, Answer::Held(_));
        self.tickets.iter().filter(|t| held(t.1)).map(|t| *t.0).collect()
    }

    fn release(&mut self, ticket: u32, fail: bool) {
        if let Some(answer) = self.tickets.get_mut(&ticket)
            && let Answer::Held(bytes) = answer
        {
            let bytes = std::mem::take(bytes);
            *answer = Answer::Released(if fail {
                Err(Error::new(Code::Internal, "a kernel failed"))
            } else {
                Ok(bytes)
            });
        }
        if fail {
            // Whatever the step wrote, or any after it, is not to be trusted.
            self.rows.fill(0);
        }
    }
}

impl Device for Fake {
    fn target(&self) -> &Target {
        &self.target
    }
    fn info(&self) -> DeviceInfo {
        DeviceInfo::default()
    }
    fn allocate(&self, _: Arc<WeightPlan>) -> Result<(ModelId, Ticket)> {
        Ok((ModelId(0), DONE))
    }
    fn extend(&self, _: ModelId, _: Arc<WeightPlan>) -> Result<Ticket> {
        unreachable!("a language model's weights are planned at once")
    }
    fn poll_put(
        &self,
        _: ModelId,
        _: Placed,
        _: Bytes<'_>,
        _: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        Poll::Ready(Ok(()))
    }
    fn build(&self, _: ModelId, program: Arc<Program>) -> Result<(ProgramId, Ticket)> {
        let mut names = self.names.lock();
        names.push(program.name.clone());
        Ok((ProgramId(names.len() as u32 - 1), DONE))
    }
    fn session(&self, _: ModelId, _: &[StateDecl], _: &[u64]) -> Result<(SessionId, Ticket)> {
        Ok((SessionId(0), DONE))
    }
    fn grow(&self, _: SessionId, _: &[u64]) -> Result<Ticket> {
        unreachable!("a generation has one arena")
    }
    fn tensor(&self, _: SessionId, _: u64) -> Result<(TensorId, Ticket)> {
        unreachable!("a generation makes no tensors")
    }
    fn copy(&self, _: SessionId, _: &[Copy]) -> Result<()> {
        unreachable!("a generation copies nothing")
    }
    fn read(&self, _: SessionId, _: Memory, _: u64, _: u64) -> Result<Ticket> {
        unreachable!("a generation reads its outputs alone")
    }
    fn submit_with(&self, _: SessionId, p: ProgramId, how: &Submission<'_>) -> Result<Ticket> {
        let writes = how.writes;
        let mut inner = self.inner.lock();
        if inner.lost {
            return Err(Error::new(Code::DeviceLost, "lost"));
        }
        if std::mem::take(&mut inner.refuse) {
            inner.rows.fill(0);
            return Err(Error::new(Code::OutOfMemory, "refused"));
        }
        let begun = inner.begun.take();
        assert!(!how.begun || begun.is_some_and(|b| b.0 == p), "the rest of what has begun");
        inner.log.lock().push(if how.begun { "rest" } else { "whole" });
        let rest = how.begun && begun.is_some_and(|b| b.1);
        let bytes = inner.run(&self.names.lock()[p.0 as usize], writes, rest);
        let ticket = inner.next;
        inner.next += 1;
        inner.tickets.insert(ticket, Answer::Held(bytes));
        Ok(Ticket(ticket))
    }
    fn begin(&self, _: SessionId, p: ProgramId) -> Result<bool> {
        let mut inner = self.inner.lock();
        if inner.lost {
            return Err(Error::new(Code::DeviceLost, "lost"));
        }
        if std::mem::take(&mut inner.refuse) {
            inner.rows.fill(0);
            return Err(Error::new(Code::OutOfMemory, "refused"));
        }
        let parts = inner.parts;
        inner.begun = Some((p, parts));
        if parts {
            inner.log.lock().push("body");
            inner.begins += 1;
            let name = self.names.lock()[p.0 as usize].clone();
            inner.body(&name, Vec::new());
        }
        Ok(parts)
    }
    fn poll(&self, t: Ticket, _: &mut Context<'_>) -> Poll<Result<Outputs>> {
        if t == DONE {
            return Poll::Ready(Ok(Outputs::default()));
        }
        let mut inner = self.inner.lock();
        if inner.lost {
            return Poll::Ready(Err(Error::new(Code::DeviceLost, "lost")));
        }
        match inner.tickets.remove(&t.0) {
            Some(Answer::Released(answer)) => Poll::Ready(answer.map(|bytes| Outputs {
                values: if bytes.is_empty() { vec![] } else { vec![bytes] },
            })),
            Some(held) => {
                inner.tickets.insert(t.0, held);
                Poll::Pending
            }
            None => panic!("ticket {} is polled after its answer", t.0),
        }
    }
    fn free(&self, _: AnyId) {}
    fn counters(&self) -> Counters {
        Counters::default()
    }
}

fn compiled() -> Arc<CompiledModel> {
    let ty = Type::tensor(DType::F32, Shape::of(&[TOKENS.len() as u64, 4]));
    let table = Weight { name: "table".into(), ty };
    let mut m = Module::new("fake", CAPACITY as u64, TOKENS.len() as u64);
    let ids = m.ids();
    let x = m.embedding(ids, table.clone());
    let x = m.out_rows(x);
    m.lm_head(x, LinearWeights { weight: table, bias: None });
    let options = ModelOptions::chat(CHUNK as u64);
    let bytes = TOKENS.len() as u64 * 16;
    let locate = |_: &str| Some((0, 0, bytes));
    Arc::new(CompiledModel::from_module(m, &Target::reference(), &options, locate).unwrap())
}

fn engine(
    compiled: &Arc<CompiledModel>,
    tokenizer: &Arc<Tokenizer>,
    case: &Case,
) -> (Engine, Arc<Fake>) {
    let inner = Inner {
        case: case.clone(),
        control: Control::default(),
        stop_ids: vec![],
        counts: None,
        rows: vec![0; CAPACITY],
        tickets: BTreeMap::new(),
        next: 0,
        lost: false,
        refuse: false,
        parts: true,
        begun: None,
        begins: 0,
        mask: None,
        log: Arc::default(),
    };
    let (target, names) = (Target::reference(), Lock::default());
    let fake = Arc::new(Fake { target, names, inner: Lock::new(inner) });
    let opening = Opening::programs(fake.clone(), compiled).unwrap();
    let file: SharedBytes = Arc::new(vec![0; TOKENS.len() * 16]);
    let session = fill(opening, &[file], Hand::Kept).unwrap();
    (Engine::new(session, compiled.clone(), tokenizer.clone()).unwrap(), fake)
}

fn options(case: &Case) -> GenerateOptions {
    GenerateOptions {
        max_tokens: case.max_tokens,
        stops: case.stops.clone(),
        ahead: case.ahead,
        ahead_most: 2 * case.ahead,
        ..GenerateOptions::default()
    }
}

/// Starts a case's answer, held to it if the case says so.
fn start(engine: &mut Engine, fake: &Fake, case: &Case) -> Generation {
    let mut generation = engine.start(case.prompt.clone(), &options(case)).unwrap();
    fake.inner.lock().mask = None;
    if case.held {
        let log = fake.inner.lock().log.clone();
        let constraint = held::Answer { case: case.clone(), told: 0, log };
        generation.constrain(engine, Box::new(constraint)).unwrap();
    }
    generation
}

fn poll(generation: &mut Generation, engine: &mut Engine) -> Poll<Option<Progress>> {
    generation.poll_next(engine, &mut Context::from_waker(Waker::noop()))
}

/// What the test does when the engine waits, or between two of its reports.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Do {
    GoOn,
    Release(u32),
    Cancel,
    Fail(u32),
    Lose,
    Refuse,
}

/// One run: `choose` picks among what may happen. Asserts everything that must hold.
fn run(
    world: &(Arc<CompiledModel>, Arc<Tokenizer>),
    case: &Case,
    mut specials: usize,
    mut choose: impl FnMut(&[Do]) -> usize,
) {
    let (mut engine, fake) = engine(&world.0, &world.1, case);
    let (want_tokens, want_text, want_reason) = case.sequential();
    let mut generation = start(&mut engine, &fake, case);
    let mut history = Vec::new();
    let (mut text, mut rows, mut cancelled_at) = (String::new(), 0, None);
    let (mut failed, mut lost) = (false, false);
    let reason = loop {
        let progress = poll(&mut generation, &mut engine);
        let submitted = fake.inner.lock().submitted();
        if let Some(at) = cancelled_at {
            assert_eq!(submitted, at, "nothing new is submitted after a cancel: {history:?}");
        }
        let in_flight = fake.inner.lock().tickets.len();
        assert!(lost || in_flight <= 2 * case.ahead.max(1), "{in_flight} in flight: {history:?}");
        let mut may = Vec::new();
        match progress {
            Poll::Ready(Some(Progress::Control(_)) | None) => panic!("no Done: {history:?}"),
            Poll::Ready(Some(Progress::Done(reason))) => break reason,
            Poll::Ready(Some(Progress::Text(ref t))) => {
                assert!(!t.is_empty());
                text += t;
                may.push(Do::GoOn);
            }
            Poll::Ready(Some(Progress::Prompt(n, of))) => {
                assert!(n > rows && n <= of && of == case.prompt.len());
                rows = n;
                may.push(Do::GoOn);
            }
            Poll::Pending => {
                may.extend(fake.inner.lock().held().into_iter().map(Do::Release));
                assert!(!may.is_empty(), "it waits for nothing: {history:?}");
            }
        }
        if specials > 0 {
            if cancelled_at.is_none() {
                may.push(Do::Cancel);
            }
            if progress.is_pending() {
                may.extend(fake.inner.lock().held().into_iter().map(Do::Fail));
                may.extend([Do::Lose, Do::Refuse]);
            }
        }
        let what = may[choose(&may)];
        history.push(what);
        specials -= usize::from(!matches!(what, Do::GoOn | Do::Release(_)));
        let mut inner = fake.inner.lock();
        match what {
            Do::GoOn => {}
            Do::Release(t) => inner.release(t, false),
            Do::Cancel => {
                generation.cancel();
                cancelled_at = Some(inner.submitted());
            }
            Do::Fail(t) => {
                inner.release(t, true);
                failed = true;
            }
            Do::Lose => {
                inner.lost = true;
                lost = true;
            }
            Do::Refuse => inner.refuse = true,
        }
    };
    for _ in 0..3 {
        assert_eq!(poll(&mut generation, &mut engine), Poll::Ready(None), "{history:?}");
    }
    let tokens = generation.tokens().to_vec();
    let refused = matches!(&reason, Reason::Failed(e) if e.code == Code::OutOfMemory);
    match &reason {
        Reason::Stop | Reason::Length => {
            assert_eq!((&reason, &text, &tokens), (&want_reason, &want_text, &want_tokens));
        }
        Reason::Cancelled => assert!(cancelled_at.is_some()),
        Reason::Failed(e) => match e.code {
            Code::DeviceLost => assert!(lost),
            Code::OutOfMemory => {}
            _ => assert!(failed),
        },
    }
    assert!(want_text.starts_with(&text), "{text:?} of {want_text:?}: {history:?}");
    assert!(want_tokens.starts_with(&tokens), "{tokens:?} of {want_tokens:?}: {history:?}");
    if cancelled_at.is_none() && !failed && !lost && !refused {
        assert_eq!(reason, want_reason, "{history:?}");
    }
    assert!(lost || fake.inner.lock().tickets.is_empty(), "tickets are left: {history:?}");

    // The next turn: what it reuses is what the caches hold, and its answer is right.
    let written = fake.inner.lock().rows.iter().take_while(|&&r| r != 0).count();
    let all: Vec<u32> = case.prompt.iter().chain(&tokens).copied().collect();
    let mut next = case.clone();
    next.prompt = all.iter().copied().take(CAPACITY - 1).chain([0]).collect();
    next.answer = vec![1, 2, EOS];
    fake.inner.lock().case = next.clone();
    fake.inner.lock().refuse = false;
    let knows_loss = matches!(&reason, Reason::Failed(e) if e.code == Code::DeviceLost);
    if knows_loss {
        return restored(world, case, (&mut engine, &all, tokens.len()), &history);
    }
    let mut generation = start(&mut engine, &fake, &next);
    let reused = generation.reused_tokens();
    let most = all.len().min(next.prompt.len() - 1);
    if lost {
        assert!(reused <= most, "{history:?}");
    } else if failed || refused {
        assert_eq!(reused, 0, "{history:?}");
    } else if reason == Reason::Cancelled && case.held {
        // The next step may have begun: the row of the last token may be there or not.
        assert!(reused <= written && reused + 1 >= written.min(most), "{history:?}");
    } else if reason == Reason::Cancelled {
        assert_eq!(reused, written.min(most), "{history:?}");
    } else if *tokens.last().unwrap() == EOS || reason == Reason::Length {
        assert_eq!(written, all.len() - 1, "{history:?}");
        assert_eq!(reused, written.min(most), "{history:?}");
    } else {
        // A stop string: the device went on; the row of the last token may be there or not.
        assert!(reused <= written && reused >= (all.len() - 1).min(most), "{history:?}");
    }
    let mut answer = String::new();
    let reason = loop {
        match poll(&mut generation, &mut engine) {
            Poll::Ready(Some(Progress::Text(t))) => answer += &t,
            Poll::Ready(Some(Progress::Done(reason))) => break reason,
            Poll::Ready(Some(Progress::Prompt(..))) => {}
            Poll::Ready(Some(Progress::Control(_)) | None) => panic!("no Done"),
            Poll::Pending => {
                let first = fake.inner.lock().held()[0];
                fake.inner.lock().release(first, false);
            }
        }
    };
    if lost {
        assert!(matches!(reason, Reason::Failed(e) if e.code == Code::DeviceLost));
    } else {
        let (_, text, want) = next.sequential();
        assert_eq!((answer, reason), (text, want), "the next turn after {history:?}");
    }
}

/// After a loss: no call begins, the engine knows what its caches held, and another one that reads
/// it answers as if nothing had happened. `all` is prompt and answer, `sampled` of it the answer.
fn restored(
    world: &(Arc<CompiledModel>, Arc<Tokenizer>),
    case: &Case,
    (lost, all, sampled): (&mut Engine, &[u32], usize),
    history: &[Do],
) {
    let refused = lost.start(case.prompt.clone(), &options(case)).err().map(|e| e.code);
    assert_eq!(refused, Some(Code::DeviceLost), "{history:?}");
    let held = lost.cached_tokens().to_vec();
    assert!(all.starts_with(&held), "{held:?} of {all:?}: {history:?}");
    if sampled > 0 {
        assert!(held.is_empty() || held.len() + 1 >= all.len(), "{held:?} of {all:?}: {history:?}");
    }
    let mut reading = case.clone();
    reading.prompt = held.clone();
    let (mut engine, fake) = engine(&world.0, &world.1, &reading);
    let mut restore = engine.restore(held.clone()).unwrap();
    loop {
        match restore.poll(&mut engine, &mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => break answer.unwrap(),
            Poll::Pending => {
                let held = fake.inner.lock().held();
                held.into_iter().for_each(|t| fake.inner.lock().release(t, false));
            }
        }
    }
    assert_eq!(engine.cached_tokens(), held, "{history:?}");
    fake.inner.lock().case = case.clone();
    let mut generation = engine.start(case.prompt.clone(), &options(case)).unwrap();
    assert_eq!(generation.reused_tokens(), held.len().min(case.prompt.len() - 1), "{history:?}");
    let mut text = String::new();
    let reason = loop {
        match poll(&mut generation, &mut engine) {
            Poll::Ready(Some(Progress::Text(t))) => text += &t,
            Poll::Ready(Some(Progress::Done(reason))) => break reason,
            Poll::Ready(Some(Progress::Prompt(..))) => {}
            Poll::Ready(Some(Progress::Control(_)) | None) => panic!("no Done"),
            Poll::Pending => {
                let held = fake.inner.lock().held();
                held.into_iter().for_each(|t| fake.inner.lock().release(t, false));
            }
        }
    };
    let (_, want, want_reason) = case.sequential();
    assert_eq!((text, reason), (want, want_reason), "{history:?}");
}

fn world() -> (Arc<CompiledModel>, Arc<Tokenizer>) {
    (compiled(), Arc::new(tokenizer()))
}

/// Every sequence of choices, by counting through them.
fn every_order(case: Case, specials: usize) -> usize {
    let world = world();
    let mut path: Vec<(usize, usize)> = Vec::new();
    let mut runs = 0;
    loop {
        let mut at = 0;
        run(&world, &case, specials, |may| {
            if at == path.len() {
                path.push((0, may.len()));
            }
            assert_eq!(path[at].1, may.len(), "the machine is deterministic");
            at += 1;
            path[at - 1].0
        });
        runs += 1;
        assert!(runs < 400_000, "too many orders for a test");
        path.truncate(at);
        while let Some((choice, of)) = path.pop() {
            if choice + 1 < of {
                path.push((choice + 1, of));
                break;
            }
        }
        if path.is_empty() {
            return runs;
        }
    }
}

fn case(
    prompt: &[u32],
    answer: &[u32],
    max_tokens: Option<usize>,
    stops: &[&str],
    ahead: usize,
) -> Case {
    Case {
        prompt: prompt.to_vec(),
        answer: answer.to_vec(),
        max_tokens,
        stops: stops.iter().map(|s| s.to_string()).collect(),
        ahead,
        held: false,
    }
}
