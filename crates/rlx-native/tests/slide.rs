//! Answers that go on where the context is full: behind what stays, as a fresh engine that is asked with it goes on.

use rlx_core::Code;
use rlx_core::runtime::device::Device;
use rlx_core::runtime::generate::engine::GenerateOptions;
use rlx_core::runtime::generate::machine::Reason;
use rlx_core::sample::SampleParams;
use rlx_native::devices::{self, OpenOptions};
use rlx_native::generate::{Answer, generate};
use rlx_native::load::{LoadOptions, Model, load};
use rlx_native::network::CheckpointFiles;
use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;

const CONTEXT: u64 = 64;
/// Tokens of the prompt, and of what stays of it.
const PROMPT: u32 = 40;
const STAYS: u32 = 24;
/// Answered when the context is full first, and newest tokens that then stay.
const FIRST: usize = CONTEXT as usize - PROMPT as usize + 1;
const TAIL: usize = (CONTEXT as usize - STAYS as usize) / 2;

struct On {
    name: &'static str,
    device: Arc<dyn Device>,
    /// A file of `tests/fixtures/gguf`.
    file: &'static str,
}

impl On {
    fn new(name: &'static str, file: &'static str) -> On {
        let options = OpenOptions { threads: Some(1), ..OpenOptions::default() };
        let device = (devices::find(name).unwrap().open)(&options).unwrap();
        On { name, device, file }
    }

    fn model(&self, context: u64) -> Model {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
        let source =
            CheckpointFiles::open(&root.join("tests/fixtures/gguf").join(self.file)).unwrap();
        let options = LoadOptions { context: Some(context), ..LoadOptions::default() };
        let row = devices::find(self.name).unwrap();
        load(&source, row, self.device.clone(), &options, &mut |_, _| {}).unwrap()
    }
}

fn ask(model: &mut Model, prompt: &[u32], options: &GenerateOptions) -> Answer {
    generate(model, prompt.to_vec(), options, &|| false, &mut |_| Ok(())).unwrap()
}

/// Ids of no meaning.
fn ids(n: u32, seed: u32) -> Vec<u32> {
    (0..n).map(|i| 20 + (i * 37 + seed * 101) % 400).collect()
}

fn tokens(max_tokens: usize) -> GenerateOptions {
    GenerateOptions {
        max_tokens: Some(max_tokens),
        ignore_stops: true,
        ..GenerateOptions::default()
    }
}

fn sliding(max_tokens: usize) -> GenerateOptions {
    GenerateOptions { slide: Some(ids(STAYS, 1)), ..tokens(max_tokens) }
}

/// What fresh engines answer, each of which is asked with what stayed of the one before.
fn one_after_another(on: &On, answers: usize) -> Vec<u32> {
    let mut all = Vec::new();
    for i in 0..answers {
        let prompt = match i {
            0 => ids(PROMPT, 1),
            _ => [&ids(STAYS, 1), &all[all.len() - TAIL..]].concat(),
        };
        let answer = ask(&mut on.model(CONTEXT), &prompt, &tokens(usize::MAX));
        assert_eq!(
            answer.tokens.len(),
            CONTEXT as usize - prompt.len() + 1,
            "it fills the context"
        );
        all.extend(answer.tokens);
    }
    all
}

/// Four contexts in one answer, which ends in the fourth.
fn goes_on(on: &On) {
    let want = one_after_another(on, 4);
    let n = want.len() - 3;
    let mut model = on.model(CONTEXT);
    let answer = ask(&mut model, &ids(PROMPT, 1), &sliding(n));
    assert_eq!(answer.tokens, want[..n], "{} on {}", on.file, on.name);
    assert_eq!((answer.prompt_tokens, answer.reason), (PROMPT as usize, Reason::Length));
    let third = FIRST + 2 * (CONTEXT as usize - STAYS as usize - TAIL + 1);
    assert_eq!(answer.left_out, Some(third - TAIL));
    // The caches have what stayed and what came since; a next prompt goes on from there.
    let held = [&ids(STAYS, 1), &want[third - TAIL..n]].concat();
    assert_eq!(model.engine.cached_tokens(), &held[..held.len() - 1]);
    let further: Vec<u32> = held.into_iter().take(50).collect();
    let again = ask(&mut model, &further, &tokens(5)).tokens;
    assert_eq!(again, ask(&mut on.model(CONTEXT), &further, &tokens(5)).tokens);
}

#[test]
fn an_answer_goes_on_as_that_of_a_fresh_engine() {
    // Caches; recurrences beside caches.
    for file in ["llama.gguf", "qwen35.gguf"] {
        goes_on(&On::new("cpu", file));
    }
}

#[test]
fn on_the_reference_too() {
    goes_on(&On::new("reference", "llama.gguf"));
}

#[test]
#[ignore = "a minute on a GPU in software: npm test -- --only wide"]
fn on_webgpu_too() {
    for file in ["llama.gguf", "qwen35.gguf"] {
        goes_on(&On::new("webgpu", file));
    }
}

#[test]
fn without_a_limit_it_has_as_many_tokens_as_the_context() {
    let on = On::new("cpu", "llama.gguf");
    let options = GenerateOptions { max_tokens: None, ..sliding(1) };
    let answer = ask(&mut on.model(CONTEXT), &ids(PROMPT, 1), &options);
    assert_eq!(answer.tokens.len(), CONTEXT as usize);
}

#[test]
fn a_prompt_that_fills_the_context_slides_after_its_first_token() {
    let on = On::new("cpu", "llama.gguf");
    let prompt = ids(CONTEXT as u32, 1);
    let answer = ask(&mut on.model(CONTEXT), &prompt, &sliding(9));
    let first = ask(&mut on.model(CONTEXT), &prompt, &tokens(9)).tokens;
    assert_eq!((first.len(), answer.left_out), (1, Some(0)));
    let behind = [ids(STAYS, 1), first].concat();
    assert_eq!(answer.tokens[1..], ask(&mut on.model(CONTEXT), &behind, &tokens(8)).tokens);
}

#[test]
fn seeded_tokens_go_on_with_other_random_numbers() {
    let on = On::new("cpu", "llama.gguf");
    let with = |seed: u64, options: GenerateOptions| {
        let params = SampleParams { temperature: 2.0, seed, ..SampleParams::default() };
        GenerateOptions { params, ..options }
    };
    let got = ask(&mut on.model(CONTEXT), &ids(PROMPT, 1), &with(7, sliding(60))).tokens;
    let first = ask(&mut on.model(CONTEXT), &ids(PROMPT, 1), &with(7, tokens(60))).tokens;
    assert_eq!(got[..FIRST], first);
    let stays = [&ids(STAYS, 1), &got[FIRST - TAIL..FIRST]].concat();
    let second = ask(&mut on.model(CONTEXT), &stays, &with(7 + (1 << 32), tokens(60))).tokens;
    assert_eq!(got[FIRST..][..second.len()], second);
    let same = ask(&mut on.model(CONTEXT), &stays, &with(7, tokens(60))).tokens;
    assert_ne!(second, same);
}

/// They are in one state with what was counted for penalties.
#[test]
fn biases_go_on() {
    let on = On::new("cpu", "llama.gguf");
    let logit_bias: Vec<(u32, f32)> = (450..500).map(|id| (id, 100.0)).collect();
    let params = SampleParams { frequency_penalty: 2.0, logit_bias, ..SampleParams::default() };
    let options = GenerateOptions { params, ..sliding(80) };
    let got = ask(&mut on.model(CONTEXT), &ids(PROMPT, 1), &options).tokens;
    assert!(got.iter().all(|id| (450..500).contains(id)), "{got:?}");
    let mut different = got;
    different.sort_unstable();
    different.dedup();
    assert!(different.len() > 30, "{different:?}");
}

#[test]
fn a_stop_text_is_found_across_a_slide_and_text_has_no_seam() {
    let on = On::new("cpu", "llama.gguf");
    let whole = ask(&mut on.model(CONTEXT), &ids(PROMPT, 1), &sliding(60));
    let model = on.model(CONTEXT);
    let text = |ids: &[u32]| model.engine.tokenizer().decode(ids, true);
    assert_eq!(whole.text, text(&whole.tokens));
    let stop = text(&whole.tokens[FIRST - 3..FIRST + 3]);
    let until = whole.text.find(&stop).expect("text");
    let options = GenerateOptions { stops: vec![stop], ..sliding(60) };
    let stopped = ask(&mut on.model(CONTEXT), &ids(PROMPT, 1), &options);
    assert_eq!((stopped.text.as_str(), &stopped.reason), (&whole.text[..until], &Reason::Stop));
}

#[test]
fn how_likely_tokens_are_is_told_behind_a_slide_too() {
    let on = On::new("cpu", "llama.gguf");
    let options = GenerateOptions { logprobs: Some(1), ..sliding(60) };
    let mut model = on.model(CONTEXT);
    let mut generation = model.engine.start(ids(PROMPT, 1), &options).unwrap();
    let mut cx = core::task::Context::from_waker(std::task::Waker::noop());
    while !matches!(generation.poll_next(&mut model.engine, &mut cx), core::task::Poll::Ready(None))
    {
    }
    assert_eq!(generation.tokens().len(), 60);
    for (i, &id) in generation.tokens().iter().enumerate() {
        let likely = generation.likely(i).expect("one for each token");
        // Greedily: the likeliest.
        assert_eq!((likely.chosen.id, likely.top[0].id), (id, id));
    }
}

#[test]
fn a_cancel_while_what_stays_is_read_again_ends_it() {
    let on = On::new("cpu", "llama.gguf");
    let whole = ask(&mut on.model(CONTEXT), &ids(PROMPT, 1), &sliding(60));
    let polls = Cell::new(0);
    for after in (1..400).step_by(3) {
        polls.set(0);
        let mut model = on.model(CONTEXT);
        let cancelled = || {
            polls.set(polls.get() + 1);
            polls.get() > after
        };
        let answer =
            generate(&mut model, ids(PROMPT, 1), &sliding(60), &cancelled, &mut |_| Ok(()))
                .unwrap();
        assert!(whole.text.starts_with(&answer.text), "{answer:?}");
        if answer.reason != Reason::Cancelled {
            assert!(after > 60, "{after} polls");
            return;
        }
        let next = ask(&mut model, &ids(20, 9), &tokens(4)).tokens;
        assert_eq!(next, ask(&mut on.model(CONTEXT), &ids(20, 9), &tokens(4)).tokens);
    }
    panic!("it never ended by itself");
}

#[test]
fn what_stays_must_leave_room_and_have_tokens_of_the_model() {
    let on = On::new("cpu", "llama.gguf");
    let mut model = on.model(CONTEXT);
    let mut refused = |stays: Vec<u32>| {
        let options = GenerateOptions { slide: Some(stays), ..tokens(9) };
        model.engine.start(ids(9, 1), &options).err().expect("an error")
    };
    let error = refused(ids(64, 1));
    assert_eq!(error.code, Code::ContextFull);
    assert_eq!(error.what, "what stays in the context has 64 tokens, of 64");
    assert_eq!(refused(vec![1 << 30]).code, Code::Usage);
}
