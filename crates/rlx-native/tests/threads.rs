//! What is loaded on one thread answers on another.

use rlx_core::runtime::embed::Embedder;
use rlx_core::runtime::generate::engine::{Engine, GenerateOptions};
use rlx_core::runtime::session::{DeviceTensor, Opening, Session};
use rlx_native::devices::{OpenOptions, find};
use rlx_native::generate::generate;
use rlx_native::load::{LoadOptions, Model, load};
use rlx_native::network::CheckpointFiles;
use std::path::Path;

const MODEL: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/rustdoc-2m/rustdoc-2m-q4_k_m.gguf");

fn sent<T: Send>() {}

#[test]
fn sessions_and_what_is_made_of_them_go_to_other_threads() {
    sent::<Opening>();
    sent::<Session>();
    sent::<DeviceTensor>();
    sent::<Engine>();
    sent::<Embedder>();
    sent::<Model>();
}

/// A server answers on other threads than the one that loaded: one after another on the same model.
#[test]
fn a_model_answers_on_any_thread() {
    let source = CheckpointFiles::open(Path::new(MODEL)).unwrap();
    for device in ["reference", "cpu", "webgpu"] {
        let row = find(device).unwrap();
        let opened = (row.open)(&OpenOptions::default()).unwrap();
        let options = LoadOptions { context: Some(128), ..LoadOptions::default() };
        let mut model = load(&source, row, opened, &options, &mut |_, _| {}).unwrap();
        let mut answers = Vec::new();
        for _ in 0..2 {
            let (back, answer) = std::thread::spawn(move || {
                let options = GenerateOptions {
                    max_tokens: Some(8),
                    ignore_stops: true,
                    ..GenerateOptions::default()
                };
                let mut quiet = |_: &str| Ok(());
                let answer = generate(&mut model, vec![1, 5, 9], &options, &|| false, &mut quiet);
                (model, answer.unwrap().tokens)
            })
            .join()
            .unwrap();
            model = back;
            answers.push(answer);
        }
        assert_eq!(answers[0].len(), 8, "{device}");
        assert_eq!(answers[0], answers[1], "{device}");
    }
}
