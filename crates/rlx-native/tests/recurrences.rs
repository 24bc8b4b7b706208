//! A model with linear attention and convolutions answers as a freshly loaded one does, whatever it was asked
//! before: its states of all tokens so far are never those of another conversation.

use rlx_core::runtime::device::Device;
use rlx_core::runtime::generate::engine::GenerateOptions;
use rlx_native::devices::{self, DeviceRow, OpenOptions};
use rlx_native::generate::{Answer, generate};
use rlx_native::load::{LoadOptions, Model, load};
use rlx_native::network::CheckpointFiles;
use std::path::Path;
use std::sync::Arc;

/// A device that loads the model often: kernels are compiled once.
struct On {
    row: &'static DeviceRow,
    device: Arc<dyn Device>,
}

fn on(name: &str) -> On {
    let row = devices::find(name).unwrap();
    On {
        row,
        device: (row.open)(&OpenOptions { threads: Some(1), ..OpenOptions::default() }).unwrap(),
    }
}

fn model(on: &On) -> Model {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let source = CheckpointFiles::open(&root.join("tests/fixtures/gguf/qwen35.gguf")).unwrap();
    load(&source, on.row, on.device.clone(), &LoadOptions::default(), &mut |_, _| {}).unwrap()
}

fn options() -> GenerateOptions {
    GenerateOptions { max_tokens: Some(6), ignore_stops: true, ..GenerateOptions::default() }
}

fn ask(model: &mut Model, prompt: &[u32], options: &GenerateOptions) -> Answer {
    generate(model, prompt.to_vec(), options, &|| false, &mut |_| Ok(())).unwrap()
}

/// What a model says that was asked nothing before.
fn fresh(on: &On, prompt: &[u32]) -> Vec<u32> {
    ask(&mut model(on), prompt, &options()).tokens
}

/// Ids of no meaning.
fn ids(n: u32, seed: u32) -> Vec<u32> {
    (0..n).map(|i| 20 + (i * 37 + seed * 101) % 400).collect()
}

#[test]
fn a_longer_conversation_goes_on_from_the_state() {
    let on = on("cpu");
    let mut model = model(&on);
    let first = ids(20, 1);
    let answer = ask(&mut model, &first, &options());
    assert_eq!(answer.tokens, fresh(&on, &first));
    let longer: Vec<u32> = first.iter().chain(&answer.tokens).copied().chain(ids(5, 2)).collect();
    let answer = ask(&mut model, &longer, &options());
    // The last sampled token has no row.
    assert_eq!(answer.reused_tokens, 20 + 6 - 1);
    assert_eq!(answer.tokens, fresh(&on, &longer));
}

#[test]
fn an_edited_conversation_starts_from_a_snapshot_or_anew() {
    edited(&on("cpu"));
}

/// Its states are copied on the device.
#[test]
fn on_webgpu_too() {
    edited(&on("webgpu"));
}

fn edited(on: &On) {
    let mut model = model(on);
    let first = ids(20, 1);
    let said = ask(&mut model, &first, &options()).tokens;
    let turn = |more: u32| -> Vec<u32> {
        first.iter().chain(&said).copied().chain(ids(7, more)).collect()
    };
    ask(&mut model, &turn(3), &options());
    // Another second question: its state is that of before the second question.
    let edited = ask(&mut model, &turn(4), &options());
    assert_eq!(edited.reused_tokens, 20 + 6 - 1);
    assert_eq!(edited.tokens, fresh(on, &turn(4)));
    // The same question again.
    let again = ask(&mut model, &turn(4), &options());
    assert_eq!(again.reused_tokens, 20 + 6 - 1);
    assert_eq!(again.tokens, edited.tokens);
    // Another first question: nothing is left of it but the cache's first rows, which are no use.
    let other: Vec<u32> = first[..10].iter().copied().chain(ids(9, 5)).collect();
    let answer = ask(&mut model, &other, &options());
    assert_eq!(answer.reused_tokens, 0);
    assert_eq!(answer.tokens, fresh(on, &other));
}

#[test]
fn an_end_that_the_device_did_not_know_of_leaves_no_state() {
    let on = on("cpu");
    let mut model = model(&on);
    let prompt = ids(20, 6);
    let whole = ask(&mut model, &prompt, &GenerateOptions { max_tokens: Some(12), ..options() });
    // A text that comes early: steps behind it were in flight.
    let text = model.engine.tokenizer().decode(&whole.tokens[1..3], true);
    let stops = vec![text];
    let options_with = GenerateOptions { max_tokens: Some(12), stops, ..options() };
    let stopped = ask(&mut model, &prompt, &options_with);
    assert!(stopped.tokens.len() < 12, "{stopped:?}");
    let longer: Vec<u32> = prompt.iter().chain(&stopped.tokens).copied().chain(ids(4, 7)).collect();
    assert_eq!(ask(&mut model, &longer, &options()).tokens, fresh(&on, &longer));
}
