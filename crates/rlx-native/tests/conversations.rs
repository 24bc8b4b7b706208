//! Several conversations on one engine: going back to one computes only what is new of it, and the answer is that of
//! an engine that was asked nothing before.

use rlx_core::runtime::device::Device;
use rlx_core::runtime::generate::engine::GenerateOptions;
use rlx_core::types::DType;
use rlx_native::devices::{self, OpenOptions};
use rlx_native::generate::{Answer, generate};
use rlx_native::load::{LoadOptions, Model, load};
use rlx_native::network::CheckpointFiles;
use std::path::Path;
use std::sync::Arc;

const CONTEXT: u64 = 512;

struct On {
    name: &'static str,
    device: Arc<dyn Device>,
    /// A file of `tests/fixtures/gguf`.
    file: &'static str,
    kv: Option<DType>,
}

impl On {
    fn new(name: &'static str, file: &'static str) -> On {
        let options = OpenOptions { threads: Some(1), ..OpenOptions::default() };
        let device = (devices::find(name).unwrap().open)(&options).unwrap();
        On { name, device, file, kv: None }
    }

    fn model(&self, conversations: u64) -> Model {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
        let source =
            CheckpointFiles::open(&root.join("tests/fixtures/gguf").join(self.file)).unwrap();
        let (context, kv) = (Some(CONTEXT), self.kv);
        let options = LoadOptions { context, kv, conversations, ..LoadOptions::default() };
        let row = devices::find(self.name).unwrap();
        load(&source, row, self.device.clone(), &options, &mut |_, _| {}).unwrap()
    }

    /// What a model says that was asked nothing before.
    fn fresh(&self, prompt: &[u32]) -> Vec<u32> {
        ask(&mut self.model(0), prompt).tokens
    }
}

fn ask(model: &mut Model, prompt: &[u32]) -> Answer {
    let options =
        GenerateOptions { max_tokens: Some(5), ignore_stops: true, ..GenerateOptions::default() };
    generate(model, prompt.to_vec(), &options, &|| false, &mut |_| Ok(())).unwrap()
}

/// Ids of no meaning.
fn ids(n: u32, seed: u32) -> Vec<u32> {
    (0..n).map(|i| 20 + (i * 37 + seed * 101) % 400).collect()
}

/// A prompt, its answer, and a further question.
fn further(prompt: &[u32], answer: &Answer, seed: u32) -> Vec<u32> {
    prompt.iter().chain(&answer.tokens).copied().chain(ids(9, seed)).collect()
}

/// Three conversations in turn, each longer with every round.
fn in_turn(on: &On) {
    let mut model = on.model(64 << 20);
    let mut prompts = [ids(90, 1), ids(121, 2), ids(67, 3)];
    for round in 0..3 {
        for prompt in &mut prompts {
            let answer = ask(&mut model, prompt);
            // All but what is new: a prompt's last token is computed for its logits, an answer's has no row.
            let known = if round == 0 { 0 } else { prompt.len() - 9 - 1 };
            assert_eq!(answer.reused_tokens, known, "{} on {}", on.file, on.name);
            assert_eq!(answer.tokens, on.fresh(prompt), "{} on {}", on.file, on.name);
            *prompt = further(prompt, &answer, round);
        }
    }
}

#[test]
fn conversations_in_turn_on_the_cpu() {
    // Caches; rings beside caches; recurrences beside caches.
    for file in ["llama.gguf", "gemma3.gguf", "qwen35.gguf"] {
        in_turn(&On::new("cpu", file));
    }
}

#[test]
fn conversations_in_turn_in_caches_of_blocks() {
    let kv = DType::from_name("q8_0");
    in_turn(&On { kv, ..On::new("cpu", "llama-q4_k_m.gguf") });
}

#[test]
fn conversations_in_turn_on_webgpu() {
    for file in ["llama.gguf", "qwen35.gguf"] {
        in_turn(&On::new("webgpu", file));
    }
}

#[test]
fn conversations_in_turn_on_the_reference() {
    in_turn(&On::new("reference", "llama.gguf"));
}

#[test]
fn without_room_the_one_that_was_left_longest_ago_is_computed_again() {
    let on = On::new("cpu", "llama.gguf");
    let prompts = [ids(90, 1), ids(90, 2), ids(90, 3)];
    let (mut one, mut none) = (None, None);
    for kib in 1..2048 {
        // The least room for the rows of one of them.
        let mut model = on.model(kib * 1024);
        let first = ask(&mut model, &prompts[0]);
        ask(&mut model, &prompts[1]);
        match ask(&mut model, &further(&prompts[0], &first, 4)).reused_tokens {
            0 => none = Some(kib),
            _ => {
                one = Some(kib);
                break;
            }
        }
    }
    let one = one.expect("room for one");
    assert!(none.is_some(), "less room is enough for one too");
    let mut model = on.model(one * 1024);
    let answers = prompts.each_ref().map(|prompt| ask(&mut model, prompt));
    // The second was left last. The first gave way to it.
    let last = further(&prompts[1], &answers[1], 5);
    let answer = ask(&mut model, &last);
    assert_eq!(answer.reused_tokens, last.len() - 10);
    assert_eq!(answer.tokens, on.fresh(&last));
    let lost = further(&prompts[0], &answers[0], 6);
    let answer = ask(&mut model, &lost);
    assert_eq!(answer.reused_tokens, 0);
    assert_eq!(answer.tokens, on.fresh(&lost));
}

#[test]
fn what_a_prompt_changes_at_its_end_is_not_copied() {
    let on = On::new("cpu", "llama.gguf");
    let mut model = on.model(64 << 20);
    let first = ids(90, 1);
    ask(&mut model, &first);
    // Another end: less is lost than a copy is worth.
    let edited: Vec<u32> = first[..80].iter().copied().chain(ids(20, 7)).collect();
    let answer = ask(&mut model, &edited);
    assert_eq!(answer.reused_tokens, 80);
    assert_eq!(answer.tokens, on.fresh(&edited));
}

/// Programs that give logits are added when they are asked for, to a session that has conversations.
#[test]
fn how_likely_tokens_are_is_told_beside_conversations() {
    let on = On::new("cpu", "llama.gguf");
    let mut model = on.model(64 << 20);
    let prompt = ids(90, 1);
    ask(&mut model, &prompt);
    let options = GenerateOptions {
        max_tokens: Some(5),
        ignore_stops: true,
        logprobs: Some(2),
        ..GenerateOptions::default()
    };
    let other = ids(80, 2);
    let answer = generate(&mut model, other.clone(), &options, &|| false, &mut |_| Ok(())).unwrap();
    assert_eq!(answer.tokens, on.fresh(&other));
    let back = ask(&mut model, &prompt);
    assert_eq!(back.reused_tokens, 90 - 1);
    assert_eq!(back.tokens, on.fresh(&prompt));
}
