//! A fixture's model on a device, and what it says.

pub use crate::load::wait as block;
use crate::load::{Hand, headers, model};
use rlx_core::Result;
use rlx_core::gguf::ModelFiles;
use rlx_core::models;
use rlx_core::runtime::device::{Device, SharedBytes};
use rlx_core::runtime::generate::engine::{Engine, GenerateOptions, Progress};
use rlx_core::runtime::model::ModelOptions;
use std::sync::Arc;

/// The folder of models with known answers.
pub const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures");

fn read(path: &str) -> SharedBytes {
    Arc::new(std::fs::read(format!("{FIXTURES}/{path}")).expect("the fixture is there"))
}

/// The header of a model of `tests/fixtures`.
#[allow(dead_code)] // executors' tests use parts of it
pub fn header(path: &str) -> ModelFiles {
    headers(&[read(path)]).unwrap()
}

/// Loads a model of `tests/fixtures`.
pub fn load(device: Arc<dyn Device>, path: &str, options: &ModelOptions) -> Engine {
    try_load(device, path, options).unwrap()
}

/// The same, where the device may refuse.
pub fn try_load(device: Arc<dyn Device>, path: &str, options: &ModelOptions) -> Result<Engine> {
    let (files, compiled, session) = model(&[read(path)], device, options, Hand::Kept)?;
    Engine::new(session, Arc::new(compiled), Arc::new(models::tokenizer(&files)?))
}

/// Greedy tokens after a prompt, and the logits if the model was compiled for them.
pub fn generate(
    engine: &mut Engine,
    prompt: Vec<u32>,
    tokens: usize,
    logits: bool,
) -> (Vec<u32>, Option<Vec<f32>>) {
    let options =
        GenerateOptions { max_tokens: Some(tokens), logits, ..GenerateOptions::default() };
    let mut generation = engine.start(prompt, &options).unwrap();
    while let Some(progress) = block(|cx| generation.poll_next(engine, cx)) {
        if let Progress::Done(reason) = progress {
            assert!(reason.finish().is_some(), "{reason:?}");
        }
    }
    (generation.tokens().to_vec(), generation.logits().map(<[f32]>::to_vec))
}

/// Ids of an `expected.json`.
pub fn numbers(json: &serde_json::Value) -> Vec<u32> {
    json.as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as u32).collect()
}
