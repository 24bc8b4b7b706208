//! Weights that are in memory on a device: what a host does with a session on its way.

use core::task::{Context, Poll, Waker};
use rlx_core::Result;
use rlx_core::gguf::{HeaderReader, ModelFiles, Progress};
use rlx_core::ir::lir::Program;
use rlx_core::plan::WeightPlan;
use rlx_core::runtime::device::{Bytes, Device, SharedBytes, Submission, Write};
use rlx_core::runtime::model::{CompiledModel, ModelOptions};
use rlx_core::runtime::session::load::{Destination, placements};
use rlx_core::runtime::session::{Opening, Session};
use std::sync::Arc;

/// How bytes are handed over.
#[derive(Clone, Copy)]
pub enum Hand {
    /// As parts of their file, which a device may keep.
    Kept,
    /// To be copied, in pieces of at most so many bytes.
    Pieces(usize),
}

/// Polls until there is an answer.
pub fn wait<T>(mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> T {
    loop {
        match poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => return answer,
            Poll::Pending => std::thread::yield_now(),
        }
    }
}

/// Puts every range of these files where the plan says; the session.
pub fn fill(mut opening: Opening, files: &[SharedBytes], hand: Hand) -> Result<Session> {
    wait(|cx| opening.poll_ready(cx))?;
    let loader = opening.loader();
    for (shard, map) in (0..).zip(files) {
        for range in placements(loader.plan(), shard) {
            let (offset, len) = (range.file_offset as usize, range.bytes as usize);
            let piece = match hand {
                Hand::Kept if matches!(range.to, Destination::Device(_)) => {
                    let bytes = Bytes::Shared { map: map.clone(), offset, len };
                    wait(|cx| loader.poll_put(&range.to, 0, bytes.clone(), cx))?;
                    continue;
                }
                Hand::Pieces(most) if matches!(range.to, Destination::Device(_)) => most,
                _ => len.max(1),
            };
            let all = &(**map).as_ref()[offset..offset + len];
            for (i, bytes) in all.chunks(piece).enumerate() {
                let skip = (i * piece) as u64;
                wait(|cx| loader.poll_put(&range.to, skip, Bytes::Slice(bytes), cx))?;
            }
        }
    }
    wait(|cx| opening.poll(cx))?;
    Ok(opening.finish())
}

/// Runs a program once, in a session of its own whose weights `plan` finds in `file`: the bytes of its outputs.
#[allow(dead_code)] // for crates that test single programs
pub fn run_once(
    device: Arc<dyn Device>,
    plan: WeightPlan,
    program: Program,
    file: SharedBytes,
    hand: Hand,
    writes: &[Write],
) -> Result<Vec<Vec<u8>>> {
    let (name, states) = (program.name.clone(), program.states.clone());
    let programs = vec![(name.clone(), Arc::new(program))];
    let session = fill(Opening::of_programs(device, plan, states, programs)?, &[file], hand)?;
    let ticket = session.submit(&name, &Submission::new(writes))?;
    Ok(wait(|cx| session.poll(ticket, cx))?.values)
}

/// The headers of a model's shards.
pub fn headers(shards: &[SharedBytes]) -> Result<ModelFiles> {
    let mut headers = Vec::new();
    for shard in shards {
        let bytes = (**shard).as_ref();
        let mut reader = HeaderReader::new("a fixture", Some(bytes.len() as u64));
        if reader.push(bytes)? != Progress::Done {
            reader.eof()?;
        }
        headers.push(reader.into_header().expect("the header is whole"));
    }
    ModelFiles::new(headers)
}

/// A language model of these shards on a device.
#[allow(dead_code)] // for crates that test language models without the library's own loader
pub fn model(
    shards: &[SharedBytes],
    device: Arc<dyn Device>,
    options: &ModelOptions,
    hand: Hand,
) -> Result<(ModelFiles, CompiledModel, Session)> {
    let files = headers(shards)?;
    let compiled = CompiledModel::from_gguf(&files, device.target(), options)?;
    let session = fill(Opening::programs(device, &compiled)?, shards, hand)?;
    Ok((files, compiled, session))
}
