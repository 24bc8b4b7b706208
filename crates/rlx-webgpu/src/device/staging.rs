//! Weight bytes on their way: at most 16 MiB are written and not yet known done.
//!
//! `writeBuffer` copies at once and never refuses, so nothing but this keeps a fast source from
//! filling the host's memory.

use crate::gpu::Gpu;
use core::task::{Context, Poll};
use rlx_core::runtime::device::table::{Ids, Table};
use std::collections::VecDeque;

/// Bytes in flight.
const RING_BYTES: u64 = 16 << 20;
/// Bytes between two fences, and the most that one write takes.
const PIECE_BYTES: u64 = 4 << 20;

#[derive(Default)]
pub(super) struct Staging {
    /// Fences not yet reached, with the bytes before each.
    fences: VecDeque<(u32, u64)>,
    /// Bytes behind the last fence.
    unfenced: u64,
    /// Bytes already written of puts that answered `Pending`, by buffer and offset.
    begun: Table<(u32, u64), usize>,
}

impl Staging {
    /// Writes `bytes`, the last word filled up with zeros; `Pending` while the ring is full.
    pub fn poll_put(
        &mut self,
        gpu: &impl Gpu,
        ids: &mut Ids,
        buffer: u32,
        offset: u64,
        bytes: &[u8],
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        let key = (buffer, offset);
        let mut done = self.begun.remove(&key).unwrap_or(0);
        while done < bytes.len() {
            let n = (bytes.len() - done).min(PIECE_BYTES as usize);
            if self.in_flight() + n as u64 > RING_BYTES {
                self.fence(gpu, ids);
                let Some(&(oldest, _)) = self.fences.front() else { continue };
                if gpu.poll_fence(oldest, cx).is_pending() {
                    self.begun.insert(key, done);
                    return Poll::Pending;
                }
                self.fences.pop_front();
                continue;
            }
            let piece = &bytes[done..done + n];
            let (whole, tail) = piece.split_at(n / 4 * 4);
            if !whole.is_empty() {
                gpu.write_buffer(buffer, offset + done as u64, whole);
            }
            if !tail.is_empty() {
                let mut word = [0; 4];
                word[..tail.len()].copy_from_slice(tail);
                gpu.write_buffer(buffer, offset + (done + whole.len()) as u64, &word);
            }
            done += n;
            self.unfenced += n.next_multiple_of(4) as u64;
            if self.unfenced >= PIECE_BYTES {
                self.fence(gpu, ids);
            }
        }
        Poll::Ready(())
    }

    /// Forgets what was begun for a buffer that is gone.
    pub fn forget(&mut self, buffer: u32) {
        self.begun.retain(|key, _| key.0 != buffer);
    }

    fn in_flight(&self) -> u64 {
        self.fences.iter().map(|f| f.1).sum::<u64>() + self.unfenced
    }

    fn fence(&mut self, gpu: &impl Gpu, ids: &mut Ids) {
        if self.unfenced > 0 {
            let id = ids.next();
            gpu.fence(id);
            self.fences.push_back((id, core::mem::take(&mut self.unfenced)));
        }
    }
}
