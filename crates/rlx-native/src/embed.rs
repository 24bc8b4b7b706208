//! Vectors of texts on this machine: a model's files to an embedder.

use crate::block_on::block_on;
use crate::devices::DeviceRow;
use crate::network::{CheckpointFiles, Network};
pub use rlx_core::models::EmbedOptions;
use rlx_core::models::{self, Task};
use rlx_core::runtime::device::Device;
use rlx_core::runtime::embed::Embedder;
use rlx_core::runtime::session::network::check_task;
use rlx_core::target::{Activations, CompileOptions, Precision};
use rlx_core::{Code, Error, Result};
use std::sync::Arc;

/// Opens an encoder on a device, to compute in such floats; `None`: as its family's profile says. `progress` is told
/// bytes so far and of how many.
///
/// # Errors
/// As the readers, the compiler and the device; `Unsupported` for a model that is no encoder;
/// `Usage` for more tokens than it takes.
pub fn embedder(
    files: &CheckpointFiles,
    row: &DeviceRow,
    device: Arc<dyn Device>,
    (options, precision): (&EmbedOptions, Option<Precision>),
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Embedder> {
    let checkpoint = files.checkpoint();
    // Before a tokenizer is missed: a model of another kind is said to be one.
    check_task(&Network::of(checkpoint, files.maps(), None)?.1, Task::Embed)?;
    let (pooling, tokenizer, limit) = match files {
        CheckpointFiles::Gguf(source) => (None, models::wordpiece(&source.files)?, None),
        CheckpointFiles::Folder(folder) => {
            let texts = folder.texts()?;
            (texts.pooling()?, texts.tokenizer()?, texts.max_tokens())
        }
    };
    let (network, facts) = Network::of(options.pooled(checkpoint, pooling), files.maps(), None)?;
    let limit = options.limit(limit, &facts)?;
    let mut compile = CompileOptions {
        activations: options.activations.unwrap_or(Activations::F32),
        ..CompileOptions::default()
    };
    let network = match precision {
        Some(precision) => network.in_floats(precision, &mut compile),
        None => network,
    };
    let session = network.open(row, device, &compile, progress)?;
    Embedder::new(session, Arc::new(tokenizer), facts.vocab, limit)
}

/// The vectors of texts, one behind the other, and how many texts were cut. `progress` is told texts that are
/// done and all; it answers whether to go on.
///
/// # Errors
/// As a run; `Cancelled` where `progress` answered no.
pub fn embed(
    embedder: &mut Embedder,
    texts: &[&str],
    progress: &mut dyn FnMut(usize, usize) -> bool,
) -> Result<(Vec<f32>, usize)> {
    let mut embedding = embedder.start(texts);
    while !block_on(|cx| embedding.poll(embedder, cx))? {
        let (done, all) = embedding.progress();
        if !progress(done, all) {
            return Err(Error::new(Code::Cancelled, "embedding was cancelled"));
        }
    }
    let truncated = embedding.truncated();
    Ok((embedding.finish(), truncated))
}
