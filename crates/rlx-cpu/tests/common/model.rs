//! A GGUF model on the CPU: the road that the command line takes, without its files and options.

use core::task::{Context, Poll, Waker};
use rlx_core::gguf::{HeaderReader, ModelFiles, Progress as Read};
use rlx_core::models;
use rlx_core::runtime::device::{Bytes, Device, SharedBytes};
use rlx_core::runtime::engine::{Engine, GenerateOptions, Progress};
use rlx_core::runtime::load::{Destination, Loader, placements};
use rlx_core::runtime::model::{CompiledModel, ModelOptions};
use rlx_core::{Error, Result};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

/// Polls until it is ready; the CPU's wakers say only "poll again".
pub fn block_on<T>(mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> T {
    loop {
        if let Poll::Ready(value) = poll(&mut Context::from_waker(Waker::noop())) {
            return value;
        }
    }
}

/// Loads shards: kept where they are, or copied in pieces.
pub fn load(
    shards: &[&Path],
    device: Rc<dyn Device>,
    options: &ModelOptions,
    keep: bool,
) -> Result<Engine> {
    let (mut headers, mut maps) = (Vec::new(), Vec::<SharedBytes>::new());
    for path in shards {
        let io = |e: std::io::Error| Error::new(rlx_core::Code::Io, e.to_string());
        let bytes = std::fs::read(path).map_err(io)?;
        let name = path.display().to_string();
        let mut reader = HeaderReader::new(&name, Some(bytes.len() as u64));
        if reader.push(&bytes)? != Read::Done {
            reader.eof()?;
        }
        headers.push(reader.into_header().ok_or_else(|| Error::internal("half a header"))?);
        maps.push(Arc::new(bytes));
    }
    let files = ModelFiles::new(headers)?;
    let compiled = CompiledModel::from_gguf(&files, device.target(), options)?;
    let tokenizer = Rc::new(models::tokenizer(&files)?);
    let mut loader = Loader::new(device, &compiled)?;
    block_on(|cx| loader.poll_ready(cx))?;
    for (shard, map) in maps.iter().enumerate() {
        for range in placements(&compiled.plan, shard as u32) {
            let (offset, len) = (range.file_offset as usize, range.bytes as usize);
            if keep && matches!(range.to, Destination::Device(_)) {
                block_on(|cx| {
                    let bytes = Bytes::Shared { map: map.clone(), offset, len };
                    loader.poll_put(&range.to, 0, bytes, cx)
                })?;
                continue;
            }
            let piece = if keep { len.max(1) } else { 1000 };
            let bytes = &(**map).as_ref()[offset..offset + len];
            let piece = if matches!(range.to, Destination::Host(_)) { len.max(1) } else { piece };
            for (i, bytes) in bytes.chunks(piece).enumerate() {
                let skip = (i * piece) as u64;
                block_on(|cx| loader.poll_put(&range.to, skip, Bytes::Slice(bytes), cx))?;
            }
        }
    }
    block_on(|cx| loader.poll_finish(cx))?;
    Engine::new(loader.finish()?, Rc::new(compiled), tokenizer)
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
