//! A rank's share of a tensor, as a weight of its own: its name says which, the same on every rank.

use crate::error::{Error, Result};
use crate::plan::weights::Piece;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// What follows the tensor's name.
const MARK: &str = ".share_";

/// A part of a tensor for each of several ranks. The tensor is `runs` runs of bytes, of each of which every rank has
/// one of `ranks` equal parts, in order: one run where the first axis is split, one for each row where the last is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share<'a> {
    /// Name of the tensor in the file.
    pub tensor: &'a str,
    /// Ranks of the group.
    pub ranks: u64,
    /// Runs of the tensor, or of what is shared of it.
    pub runs: u64,
    /// The bytes of the tensor that are shared, if not all are: from which on, and how many.
    pub within: Option<(u64, u64)>,
}

/// Bytes of a file at equal distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// Which shard, as the caller numbers them, or that of packed tensors.
    pub shard: u32,
    /// Bytes from the file's start to the first of them.
    pub offset: u64,
    /// Bytes of each run.
    pub run: u64,
    /// Bytes from the start of one run to that of the next.
    pub stride: u64,
    /// How many runs.
    pub count: u64,
}

impl Rows {
    /// Bytes from the first to behind the last.
    pub fn span(&self) -> u64 {
        (self.count - 1) * self.stride + self.run
    }
}

impl<'a> Share<'a> {
    /// The share of that name.
    pub fn of(name: &'a str) -> Option<Share<'a>> {
        let (tensor, rest) = name.rsplit_once(MARK)?;
        let numbers: Option<Vec<u64>> = rest.split('_').map(|n| n.parse().ok()).collect();
        let (ranks, runs, within) = match *numbers?.as_slice() {
            [ranks, runs] => (ranks, runs, None),
            [ranks, runs, from, bytes] => (ranks, runs, Some((from, bytes))),
            _ => return None,
        };
        (ranks > 0 && runs > 0).then_some(Share { tensor, ranks, runs, within })
    }

    /// Its name.
    pub fn name(&self) -> String {
        let name = format!("{}{MARK}{}_{}", self.tensor, self.ranks, self.runs);
        match self.within {
            None => name,
            Some((from, bytes)) => format!("{name}_{from}_{bytes}"),
        }
    }

    /// Where the share of a rank lies, of a tensor that is this piece of a file.
    ///
    /// # Errors
    /// `Internal` for a tensor that is no such runs.
    pub fn rows(&self, mut whole: Piece, rank: u64) -> Result<Rows> {
        if let Some((from, bytes)) = self.within {
            let end = from.checked_add(bytes);
            if end.is_none_or(|end| end > whole.bytes) {
                let what = format!("{} has no {bytes} bytes from {from} on", self.tensor);
                return Err(Error::internal(what));
            }
            whole = Piece { offset: whole.offset + from, bytes, ..whole };
        }
        let parts = self.ranks.checked_mul(self.runs);
        let run = parts.filter(|&n| whole.bytes.is_multiple_of(n)).map(|n| whole.bytes / n);
        match run.filter(|_| rank < self.ranks) {
            Some(run) => Ok(Rows {
                shard: whole.shard,
                offset: whole.offset + rank * run,
                run,
                stride: run * self.ranks,
                count: self.runs,
            }),
            None => Err(Error::internal(format!(
                "{} bytes of {} are no {} runs for {} ranks",
                whole.bytes, self.tensor, self.runs, self.ranks
            ))),
        }
    }
}
