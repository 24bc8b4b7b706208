//! A fake device with delayed tickets drives reads, stops, cancels, failures and losses in every
//! order through the generation machine and the engine.
//!
//! The fake runs submissions in order, as a device does, and answers tickets when the test says. Its
//! cache rows are hashes of every token up to theirs: a step over a stale row samples `WRONG`, so
//! equal text proves that what was reused was right.
#![cfg(feature = "text")]

use rlx_core::ir::hir::{LinearWeights, Module, Weight};
use rlx_core::ir::lir::{Program, StateDecl};
use rlx_core::plan::WeightPlan;
use rlx_core::runtime::device::{
    AnyId, Bytes, Counters, Device, DeviceInfo, ModelId, Outputs, Placed, ProgramId, SessionId,
    Ticket, Write, WriteTo,
};
use rlx_core::runtime::engine::{Engine, GenerateOptions, Generation, Progress};
use rlx_core::runtime::generate::Reason;
use rlx_core::runtime::load::Loaded;
use rlx_core::runtime::model::{CompiledModel, ModelOptions};
use rlx_core::sample::{Control, IN_PROMPT, SampleParams, params};
use rlx_core::target::Target;
use rlx_core::text::{TextStream, Tokenizer, VocabData};
use rlx_core::types::{DType, Shape, Type};
use rlx_core::{Code, Error, Result};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
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
}

impl Case {
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
}

struct Fake {
    target: Target,
    names: Vec<String>,
    inner: RefCell<Inner>,
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

    fn run(&mut self, program: &str, writes: &[Write]) -> Vec<u8> {
        let mut ids = Vec::new();
        for w in writes {
            let words = to_words(&w.bytes);
            match w.to {
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
            assert!(writes.is_empty(), "a decode step needs nothing from the host");
            ids = vec![self.control.token];
        }
        let Control { past, len, done, step, .. } = self.control;
        if done == 0 {
            assert_eq!(ids.len(), len as usize);
            for (i, &id) in ids.iter().enumerate() {
                self.write_row(past as usize + i, id);
            }
            if program != "prefill" {
                let so_far = (0..step as usize).map(|s| self.case.token(s));
                let want = hash(self.case.prompt.iter().copied().chain(so_far));
                let right = self.rows[(past + len) as usize - 1] == want;
                let id = if right { self.case.token(step as usize) } else { WRONG };
                self.control.advance(id, self.stop_ids.contains(&id));
            }
        }
        match program {
            "prefill" => Vec::new(),
            _ => self.control.token.to_le_bytes().to_vec(),
        }
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
    fn allocate(&self, _: Rc<WeightPlan>) -> Result<(ModelId, Ticket)> {
        unreachable!("the test makes `Loaded` itself")
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
    fn build(&self, _: ModelId, _: Rc<Program>) -> Result<(ProgramId, Ticket)> {
        unreachable!("the test makes `Loaded` itself")
    }
    fn session(&self, _: ModelId, _: &[StateDecl], _: u64) -> Result<(SessionId, Ticket)> {
        unreachable!("the test makes `Loaded` itself")
    }
    fn submit(&self, _: SessionId, p: ProgramId, writes: &[Write]) -> Result<Ticket> {
        let mut inner = self.inner.borrow_mut();
        if inner.lost {
            return Err(Error::new(Code::DeviceLost, "lost"));
        }
        if std::mem::take(&mut inner.refuse) {
            inner.rows.fill(0);
            return Err(Error::new(Code::OutOfMemory, "refused"));
        }
        let bytes = inner.run(&self.names[p.0 as usize], writes);
        let ticket = inner.next;
        inner.next += 1;
        inner.tickets.insert(ticket, Answer::Held(bytes));
        Ok(Ticket(ticket))
    }
    fn poll(&self, t: Ticket, _: &mut Context<'_>) -> Poll<Result<Outputs>> {
        let mut inner = self.inner.borrow_mut();
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

fn compiled() -> Rc<CompiledModel> {
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
    Rc::new(CompiledModel::from_module(m, &Target::reference(), &options, locate).unwrap())
}

fn engine(
    compiled: &Rc<CompiledModel>,
    tokenizer: &Rc<Tokenizer>,
    case: &Case,
) -> (Engine, Rc<Fake>) {
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
    };
    let names: Vec<String> = compiled.specs.iter().map(|s| s.name.clone()).collect();
    let programs = (0..names.len() as u32).map(ProgramId).collect();
    let fake = Rc::new(Fake { target: Target::reference(), names, inner: RefCell::new(inner) });
    let device: Rc<dyn Device> = fake.clone();
    let loaded = Loaded { device, model: ModelId(0), session: SessionId(0), programs };
    (Engine::new(loaded, compiled.clone(), tokenizer.clone()).unwrap(), fake)
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
    world: &(Rc<CompiledModel>, Rc<Tokenizer>),
    case: &Case,
    mut specials: usize,
    mut choose: impl FnMut(&[Do]) -> usize,
) {
    let (mut engine, fake) = engine(&world.0, &world.1, case);
    let (want_tokens, want_text, want_reason) = case.sequential();
    let mut generation = engine.start(case.prompt.clone(), &options(case)).unwrap();
    let mut history = Vec::new();
    let (mut text, mut rows, mut cancelled_at) = (String::new(), 0, None);
    let (mut failed, mut lost) = (false, false);
    let reason = loop {
        let progress = poll(&mut generation, &mut engine);
        let submitted = fake.inner.borrow().next;
        if let Some(at) = cancelled_at {
            assert_eq!(submitted, at, "nothing new is submitted after a cancel: {history:?}");
        }
        let in_flight = fake.inner.borrow().tickets.len();
        assert!(lost || in_flight <= 2 * case.ahead.max(1), "{in_flight} in flight: {history:?}");
        let mut may = Vec::new();
        match progress {
            Poll::Ready(None) => panic!("no Done: {history:?}"),
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
                may.extend(fake.inner.borrow().held().into_iter().map(Do::Release));
                assert!(!may.is_empty(), "it waits for nothing: {history:?}");
            }
        }
        if specials > 0 {
            if cancelled_at.is_none() {
                may.push(Do::Cancel);
            }
            if progress.is_pending() {
                may.extend(fake.inner.borrow().held().into_iter().map(Do::Fail));
                may.extend([Do::Lose, Do::Refuse]);
            }
        }
        let what = may[choose(&may)];
        history.push(what);
        specials -= usize::from(!matches!(what, Do::GoOn | Do::Release(_)));
        let mut inner = fake.inner.borrow_mut();
        match what {
            Do::GoOn => {}
            Do::Release(t) => inner.release(t, false),
            Do::Cancel => {
                generation.cancel();
                cancelled_at = Some(inner.next);
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
    assert!(lost || fake.inner.borrow().tickets.is_empty(), "tickets are left: {history:?}");

    // The next turn: what it reuses is what the caches hold, and its answer is right.
    let written = fake.inner.borrow().rows.iter().take_while(|&&r| r != 0).count();
    let all: Vec<u32> = case.prompt.iter().chain(&tokens).copied().collect();
    let mut next = case.clone();
    next.prompt = all.iter().copied().take(CAPACITY - 1).chain([0]).collect();
    next.answer = vec![1, 2, EOS];
    fake.inner.borrow_mut().case = next.clone();
    fake.inner.borrow_mut().refuse = false;
    let knows_loss = matches!(&reason, Reason::Failed(e) if e.code == Code::DeviceLost);
    if knows_loss {
        return restored(world, case, (&mut engine, &all, tokens.len()), &history);
    }
    let mut generation = engine.start(next.prompt.clone(), &options(&next)).unwrap();
    let reused = generation.reused_tokens();
    let most = all.len().min(next.prompt.len() - 1);
    if lost {
        assert!(reused <= most, "{history:?}");
    } else if failed || refused {
        assert_eq!(reused, 0, "{history:?}");
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
            Poll::Ready(None) => panic!("no Done"),
            Poll::Pending => {
                let first = fake.inner.borrow().held()[0];
                fake.inner.borrow_mut().release(first, false);
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
    world: &(Rc<CompiledModel>, Rc<Tokenizer>),
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
                let held = fake.inner.borrow().held();
                held.into_iter().for_each(|t| fake.inner.borrow_mut().release(t, false));
            }
        }
    }
    assert_eq!(engine.cached_tokens(), held, "{history:?}");
    fake.inner.borrow_mut().case = case.clone();
    let mut generation = engine.start(case.prompt.clone(), &options(case)).unwrap();
    assert_eq!(generation.reused_tokens(), held.len().min(case.prompt.len() - 1), "{history:?}");
    let mut text = String::new();
    let reason = loop {
        match poll(&mut generation, &mut engine) {
            Poll::Ready(Some(Progress::Text(t))) => text += &t,
            Poll::Ready(Some(Progress::Done(reason))) => break reason,
            Poll::Ready(Some(Progress::Prompt(..))) => {}
            Poll::Ready(None) => panic!("no Done"),
            Poll::Pending => {
                let held = fake.inner.borrow().held();
                held.into_iter().for_each(|t| fake.inner.borrow_mut().release(t, false));
            }
        }
    };
    let (_, want, want_reason) = case.sequential();
    assert_eq!((text, reason), (want, want_reason), "{history:?}");
}

fn world() -> (Rc<CompiledModel>, Rc<Tokenizer>) {
    (compiled(), Rc::new(tokenizer()))
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
    }
}

#[test]
fn a_stop_token_in_every_order_with_two_faults() {
    // Two chunks, four sampled tokens, steps ahead of the stop.
    let runs = every_order(case(&[0, 1, 2], &[0, 1, 1, EOS], None, &[], 3), 2);
    println!("{runs} orders");
    assert!(runs > 1000);
}

#[test]
fn every_end_token_of_the_model_ends_an_answer() {
    // The device stops by the ids that the engine writes: beyond them it would sample on.
    for end in [EOS, EOT] {
        let runs = every_order(case(&[0, 1, 2], &[0, 1, end], None, &[], 3), 0);
        assert!(runs > 1);
    }
    let (compiled, tokenizer) = world();
    let case = case(&[0], &[0, 1], Some(2), &[], 1);
    let stop_ids = |ignore_stops: bool, own: &[u32]| {
        let (mut engine, fake) = engine(&compiled, &tokenizer, &case);
        let params = SampleParams { stop_ids: own.to_vec(), ..SampleParams::default() };
        let options = GenerateOptions { params, ignore_stops, ..options(&case) };
        let mut generation = engine.start(case.prompt.clone(), &options).unwrap();
        assert!(poll(&mut generation, &mut engine).is_pending());
        let inner = fake.inner.borrow();
        inner.stop_ids.clone()
    };
    assert_eq!(stop_ids(false, &[]), [EOS, EOT]);
    assert_eq!(stop_ids(false, &[2, EOT]), [2, EOT, EOS]);
    assert_eq!(stop_ids(true, &[2]), Vec::<u32>::new());
}

#[test]
fn penalties_know_which_tokens_the_prompt_has() {
    let (compiled, tokenizer) = world();
    let case = case(&[0, 2, 0], &[1, 1], Some(2), &[], 1);
    let counts = |params: SampleParams| {
        let (mut engine, fake) = engine(&compiled, &tokenizer, &case);
        let options = GenerateOptions { params, ..options(&case) };
        let mut generation = engine.start(case.prompt.clone(), &options).unwrap();
        assert!(poll(&mut generation, &mut engine).is_pending());
        let inner = fake.inner.borrow();
        inner.counts.clone()
    };
    assert_eq!(counts(SampleParams::default()), None, "without penalties nobody counts");
    let expected = [IN_PROMPT, 0, IN_PROMPT, 0, 0, 0, 0, 0];
    for params in [
        SampleParams { repetition_penalty: 1.1, ..SampleParams::default() },
        SampleParams { frequency_penalty: 0.5, ..SampleParams::default() },
        SampleParams { presence_penalty: -0.5, ..SampleParams::default() },
    ] {
        assert_eq!(counts(params).as_deref(), Some(&expected[..]));
    }
}

#[test]
fn a_stop_string_in_every_order_with_a_fault() {
    // `bc` is found two tokens after it could begin; the device runs on past it.
    let runs = every_order(case(&[0], &[0, 1, 2, 0, 1], None, &["bc", "bb"], 3), 1);
    println!("{runs} orders");
    assert!(runs > 200);
}

#[test]
fn the_most_tokens_in_every_order_with_two_faults() {
    let runs = every_order(case(&[0, 1], &[3, 4, 2], Some(4), &["é!"], 3), 2);
    println!("{runs} orders");
    assert!(runs > 500);
}

#[test]
fn a_full_context_in_every_order_with_a_fault() {
    // Ten of twelve rows are the prompt: three tokens are sampled.
    let runs = every_order(case(&[0, 1, 2, 0, 1, 2, 0, 1, 2, 0], &[0, 1, 2], None, &[], 2), 1);
    println!("{runs} orders");
    assert!(runs > 100);
    // The prompt fills the context: one token.
    every_order(case(&[0; CAPACITY], &[1], None, &[], 4), 1);
}

/// A small generator: the seed replays a failure.
struct Rng(u64);

impl Rng {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) as usize) % n
    }
}

#[test]
fn random_cases_in_random_orders() {
    let world = world();
    for seed in 0..4000u64 {
        let mut rng = Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678);
        let n = 1 + rng.below(CAPACITY);
        let prompt: Vec<u32> = (0..n).map(|_| rng.below(5) as u32).collect();
        let mut answer: Vec<u32> = (0..1 + rng.below(9)).map(|_| rng.below(5) as u32).collect();
        if rng.below(2) == 0 {
            answer.push([EOS, EOT][rng.below(2)]);
        }
        let max_tokens = (rng.below(2) == 0).then(|| 1 + rng.below(8));
        let stops: &[&str] =
            [&[][..], &["ab"], &["abc", "cc"], &["é"], &["\u{fffd}a"]][rng.below(5)];
        let case = case(&prompt, &answer, max_tokens, stops, 1 + rng.below(6));
        println!("seed {seed}: {case:?}");
        let faults = rng.below(4);
        run(&world, &case, faults, |may| {
            // Faults are rare among releases, so that they come early and late.
            let i = rng.below(may.len());
            if matches!(may[i], Do::GoOn | Do::Release(_)) || rng.below(4) == 0 { i } else { 0 }
        });
    }
}

#[test]
fn a_generation_that_is_dropped_leaves_the_engine_usable() {
    let (compiled, tokenizer) = world();
    let first = case(&[0, 1, 2], &[0, 1, 2], None, &[], 3);
    let (mut engine, fake) = engine(&compiled, &tokenizer, &first);
    let mut dropped = engine.start(first.prompt.clone(), &options(&first)).unwrap();
    assert!(poll(&mut dropped, &mut engine).is_pending());
    let second = case(&[0, 1, 1], &[2, EOS], None, &[], 3);
    fake.inner.borrow_mut().case = second.clone();
    let mut generation = engine.start(second.prompt.clone(), &options(&second)).unwrap();
    // The older one, polled again, submits nothing and ends as cancelled.
    let submitted = fake.inner.borrow().next;
    let mut text = String::new();
    for t in 0..40 {
        let held = fake.inner.borrow().held();
        held.into_iter().for_each(|t| fake.inner.borrow_mut().release(t, false));
        let _ = poll(&mut dropped, &mut engine);
        if t < 10 {
            assert_eq!(fake.inner.borrow().next, submitted);
        } else if let Poll::Ready(Some(Progress::Text(t))) = poll(&mut generation, &mut engine) {
            text += &t;
        }
    }
    assert_eq!(text, "c");
    let mut third = second.clone();
    third.prompt = vec![0, 1, 1, 2, 0];
    let generation = engine.start(third.prompt, &options(&second)).unwrap();
    assert_eq!(generation.reused_tokens(), 4, "what the second wrote, not the first");
}

#[test]
fn refusals_at_the_start_say_why() {
    let (compiled, tokenizer) = world();
    let c = case(&[0], &[0], None, &[], 1);
    let (mut engine, _) = engine(&compiled, &tokenizer, &c);
    let mut say = |prompt: &[u32], options: GenerateOptions| {
        let e = engine.start(prompt.to_vec(), &options).err().unwrap();
        (e.code, e.what)
    };
    let (code, what) = say(&[], options(&c));
    assert_eq!((code, what.as_str()), (Code::Usage, "the prompt is empty"));
    let (code, what) = say(&[0; CAPACITY + 1], options(&c));
    assert_eq!(
        (code, what.as_str()),
        (Code::ContextFull, "the prompt has 13 tokens, the context holds 12")
    );
    let (_, what) = say(&[99], options(&c));
    assert_eq!(what, "token 99 is outside the vocabulary");
    let (_, what) = say(&[0], GenerateOptions { max_tokens: Some(0), ..options(&c) });
    assert_eq!(what, "max_tokens is 0, expected 1 or more");
    let (_, what) = say(&[0], GenerateOptions { logits: true, ..options(&c) });
    assert_eq!(what, "the model was compiled without logits");
}
