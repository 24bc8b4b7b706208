//! Loading for a group of ranks: each has a loader of its own behind that of rank 0, and parts of rows are gathered on
//! the host before a device gets them.

use super::{Destination, Loader, SLICE, slices};
use crate::error::{Error, Result};
use crate::plan::{Entry, PACKED, Piece, WeightPlan};
use crate::runtime::device::{Bytes, Placed};
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;
use core::task::{Context, Poll, ready};

/// What a loader of a group has.
#[derive(Default)]
pub(super) struct Shares {
    /// Loaders of the other ranks, from rank 1 on.
    others: Vec<Loader>,
    /// Parts of rows on their way.
    staged: Option<Staged>,
}

/// Gathered bytes that the device has not got.
struct Staged {
    /// Where the weight begins.
    weight: Placed,
    /// Where these go.
    to: Placed,
    bytes: Vec<u8>,
}

/// The plans of the other ranks as a loader sees them: the buffers of rank 1 have the numbers behind those of rank 0,
/// and so on.
pub(super) fn plans(plan: &WeightPlan) -> Vec<WeightPlan> {
    let count = plan.buffers.len() as u32;
    let numbered = |(rank, own): (u32, &WeightPlan)| {
        let mut own = own.clone();
        own.entries.iter_mut().for_each(|e| e.buffer += rank * count);
        own
    };
    (1..).zip(&plan.ranks).map(numbered).collect()
}

/// Gathers behind a packed tensor's bytes the parts of its rows that entries are, and adds where they go.
pub(super) fn of_packed(
    entries: &[Entry],
    tensor: Piece,
    mut bytes: Vec<u8>,
    to: &mut Vec<(Placed, Range<usize>)>,
) -> Result<Vec<u8>> {
    for e in entries {
        let Some(rows) = e.rows().filter(|r| r.shard == PACKED) else { continue };
        let Some(from) = rows.offset.checked_sub(tensor.offset) else { continue };
        if from + rows.span() > tensor.bytes {
            continue;
        }
        let first = bytes.len();
        for i in 0..rows.count {
            let at = (from + i * rows.stride) as usize;
            let run = at..at + rows.run as usize;
            if run.end > first {
                return Err(Error::internal(format!("{} lies outside of its tensor", e.name)));
            }
            bytes.extend_from_within(run);
        }
        slices(Placed { buffer: e.buffer, offset: e.offset }, first as u64, e.bytes, to);
    }
    Ok(bytes)
}

impl Loader {
    /// The loader with those of the other ranks.
    pub(super) fn with_ranks(mut self) -> Self {
        let own = |plan: WeightPlan| {
            let mut other = Loader::of(self.device.clone(), Arc::new(plan), self.model, None);
            // The model is freed once, by the loader of rank 0.
            other.kept = true;
            other
        };
        self.shares.others = plans(&self.plan).into_iter().map(own).collect();
        self
    }

    /// As [`poll_put`](Loader::poll_put), for destinations of a group.
    pub(super) fn poll_put_share(
        &mut self,
        to: &Destination,
        skip: u64,
        bytes: Bytes<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        let (weight, run, stride) = match to {
            Destination::Rank(rank, to) => {
                let other =
                    rank.checked_sub(1).and_then(|i| self.shares.others.get_mut(i as usize));
                let none = || Error::internal(format!("there is no rank {rank}"));
                return match other {
                    Some(other) => other.poll_put(to, skip, bytes, cx),
                    None => Poll::Ready(Err(none())),
                };
            }
            Destination::Rows { at, run, stride } if *stride > 0 => (*at, *run, *stride),
            _ => return Poll::Ready(Err(Error::internal("no destination of a group"))),
        };
        if let Some(staged) = &self.shares.staged {
            let other = staged.weight != weight;
            if (other || staged.bytes.len() >= SLICE)
                && let Err(e) = ready!(self.poll_staged(other, cx))
            {
                return Poll::Ready(Err(e));
            }
        }
        let bytes = bytes.as_slice();
        let empty = || Staged { weight, to: weight, bytes: Vec::new() };
        let staged = self.shares.staged.get_or_insert_with(empty);
        let before = staged.bytes.len();
        let end = skip + bytes.len() as u64;
        for row in skip / stride..end.div_ceil(stride) {
            let from = (row * stride).max(skip);
            let to = (row * stride + run).min(end);
            if from < to {
                let own = bytes.get((from - skip) as usize..(to - skip) as usize);
                staged.bytes.extend_from_slice(own.unwrap_or(&[]));
            }
        }
        let more = (staged.bytes.len() - before) as u64;
        self.missing = self.missing.saturating_sub(more);
        Poll::Ready(Ok(()))
    }

    /// Gives the device what was gathered: all, or whole words of it.
    fn poll_staged(&mut self, all: bool, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let Some(staged) = &mut self.shares.staged else { return Poll::Ready(Ok(())) };
        let whole = staged.bytes.len() / 4 * 4;
        let n = if all { staged.bytes.len() } else { whole };
        if n > 0 {
            let bytes = Bytes::Slice(&staged.bytes[..n]);
            if let Err(e) = ready!(self.device.poll_put(self.model, staged.to, bytes, cx)) {
                return Poll::Ready(Err(e));
            }
            staged.bytes.drain(..n);
            staged.to.offset += n as u64;
        }
        if all {
            self.shares.staged = None;
        }
        Poll::Ready(Ok(()))
    }

    /// Ends the loading of what is gathered, and of the other ranks.
    pub(super) fn poll_finish_shares(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        if let Err(e) = ready!(self.poll_staged(true, cx)) {
            return Poll::Ready(Err(e));
        }
        for other in &mut self.shares.others {
            if let Err(e) = ready!(other.poll_finish(cx)) {
                return Poll::Ready(Err(e));
            }
        }
        Poll::Ready(Ok(()))
    }
}
