//! A fixture's model on a device, and what it says.

use rlx_core::Result;
use rlx_core::gguf::{HeaderReader, ModelFiles};
use rlx_core::models;
use rlx_core::runtime::device::{Bytes, Device};
use rlx_core::runtime::engine::{Engine, GenerateOptions, Progress};
use rlx_core::runtime::load::{Loader, placements};
use rlx_core::runtime::model::{CompiledModel, ModelOptions};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// The folder of models with known answers.
pub const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures");

/// Polls until there is an answer.
pub fn block<T>(mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> T {
    let mut cx = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(answer) = poll(&mut cx) {
            return answer;
        }
    }
}

/// The header of a model of `tests/fixtures`.
pub fn header(path: &str) -> ModelFiles {
    let bytes = std::fs::read(format!("{FIXTURES}/{path}")).expect("the fixture is there");
    let mut reader = HeaderReader::new(path, Some(bytes.len() as u64));
    reader.push(&bytes).unwrap();
    ModelFiles::new(vec![reader.into_header().unwrap()]).unwrap()
}

/// Loads a model of `tests/fixtures`.
pub fn load(device: Rc<dyn Device>, path: &str, options: &ModelOptions) -> Engine {
    try_load(device, path, options).unwrap()
}

/// The same, where the device may refuse.
pub fn try_load(device: Rc<dyn Device>, path: &str, options: &ModelOptions) -> Result<Engine> {
    let bytes = std::fs::read(format!("{FIXTURES}/{path}")).expect("the fixture is there");
    let files = header(path);
    let compiled = CompiledModel::from_gguf(&files, device.target(), options).unwrap();
    let tokenizer = Rc::new(models::tokenizer(&files).unwrap());
    let mut loader = Loader::new(device, &compiled)?;
    block(|cx| loader.poll_ready(cx))?;
    for p in placements(&compiled.plan, 0) {
        let all = &bytes[p.file_offset as usize..][..p.bytes as usize];
        block(|cx| loader.poll_put(&p.to, 0, Bytes::Slice(all), cx))?;
    }
    block(|cx| loader.poll_finish(cx))?;
    Engine::new(loader.finish()?, Rc::new(compiled), tokenizer)
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
