//! A GGUF model on the CPU: the road that the command line takes, without its files and options.

pub use crate::load::wait as block_on;
use crate::load::{Hand, model};
use rlx_core::models;
use rlx_core::runtime::device::{Device, SharedBytes};
use rlx_core::runtime::generate::engine::{Engine, GenerateOptions, Progress};
use rlx_core::runtime::model::ModelOptions;
use rlx_core::{Error, Result};
use std::path::Path;
use std::sync::Arc;

/// Loads shards: kept where they are, or copied in pieces.
pub fn load(
    shards: &[&Path],
    device: Arc<dyn Device>,
    options: &ModelOptions,
    keep: bool,
) -> Result<Engine> {
    let io = |e: std::io::Error| Error::new(rlx_core::Code::Io, e.to_string());
    let read =
        |path: &&Path| -> Result<SharedBytes> { Ok(Arc::new(std::fs::read(path).map_err(io)?)) };
    let shards = shards.iter().map(read).collect::<Result<Vec<_>>>()?;
    let hand = if keep { Hand::Kept } else { Hand::Pieces(1000) };
    let (files, compiled, session) = model(&shards, device, options, hand)?;
    Engine::new(session, Arc::new(compiled), Arc::new(models::tokenizer(&files)?))
}

/// The tokens of a generation.
pub fn generate(
    engine: &mut Engine,
    prompt: &[u32],
    options: &GenerateOptions,
) -> Result<Vec<u32>> {
    let mut generation = engine.start(prompt.to_vec(), options)?;
    while let Some(progress) = block_on(|cx| generation.poll_next(engine, cx)) {
        if let Progress::Done(reason) = progress
            && reason.finish().is_none()
        {
            return Err(Error::internal(format!("the generation ended with {reason:?}")));
        }
    }
    Ok(generation.tokens().to_vec())
}
