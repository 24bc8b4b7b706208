//! Placing weights: where the ranges of each file go, and how to take the bytes that JavaScript does not write
//! to a GPU's buffers itself.

use crate::executor::Executor;
use core::task::{Context, Poll};
use rlx_core::plan::WeightPlan;
use rlx_core::runtime::device::Bytes;
use rlx_core::runtime::session::load::{Destination, Loader, Placement, placements};
use rlx_core::{Error, Result};

/// The target of placements whose bytes go to `put`.
const PUT: f64 = -1.0;

/// The placements of all files.
pub(crate) struct Placing(Vec<Vec<Placement>>);

impl Placing {
    /// The placements of a plan, for this many files.
    pub fn new(plan: &WeightPlan, shards: usize) -> Self {
        Placing((0..shards as u32).map(|i| placements(plan, i)).collect())
    }

    /// Rows of file offset, bytes, target, offset, for a file.
    pub fn table(&self, loader: &Loader, executor: &Executor, shard: usize) -> Result<Vec<f64>> {
        let mut rows = Vec::new();
        for p in self.0.get(shard).into_iter().flatten() {
            let (target, offset) = match (&p.to, &executor.webgpu) {
                (Destination::Device(at), Some(webgpu)) => {
                    let buffer = webgpu.weight_buffer(loader.model(), at.buffer);
                    let id = buffer.ok_or_else(|| Error::internal("a weight has no buffer"))?;
                    (f64::from(id), at.offset as f64)
                }
                _ => (PUT, 0.0),
            };
            rows.extend([p.file_offset as f64, p.bytes as f64, target, offset]);
        }
        Ok(rows)
    }

    /// Takes bytes for a row with target `PUT`. Nothing here waits: the CPU and the host have room at once.
    pub fn put(
        &self,
        loader: &mut Loader,
        shard: usize,
        file_offset: u64,
        bytes: &[u8],
    ) -> Result<()> {
        let rows = self.0.get(shard).map_or(&[][..], Vec::as_slice);
        // In ascending order. A tensor whose columns are taken apart has a row for each of their pieces.
        let behind = rows.partition_point(|p| p.file_offset <= file_offset);
        let row = rows[..behind].last().filter(|p| file_offset < p.file_offset + p.bytes);
        let row = row.ok_or_else(|| Error::internal(format!("byte {file_offset} has no place")))?;
        let mut cx = Context::from_waker(core::task::Waker::noop());
        let skip = file_offset - row.file_offset;
        match loader.poll_put(&row.to, skip, Bytes::Slice(bytes), &mut cx) {
            Poll::Ready(answer) => answer,
            Poll::Pending => Err(Error::internal("the device took no bytes")),
        }
    }

    /// Counts the bytes that JavaScript wrote to GPU buffers itself.
    pub fn note_written(&self, loader: &mut Loader, executor: &Executor) {
        if executor.webgpu.is_none() {
            return;
        }
        for p in self.0.iter().flatten() {
            if let Destination::Device(_) = p.to {
                loader.note_written(p.bytes);
            }
        }
    }
}
