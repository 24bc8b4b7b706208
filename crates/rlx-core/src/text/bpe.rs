//! Byte-pair encoding (arXiv:1508.07909): the symbols of a word, merged by rank until no pair is left.

use super::vocab::{Vocab, mix};
use crate::{Error, Result};
use alloc::collections::BinaryHeap;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// The id of what is no token.
pub(super) const NONE: u32 = u32::MAX;

/// The merges of a tokenizer: a pair of ids, what it becomes, and when. 280 k merges take
/// 12 bytes each and 2 MiB of slots.
#[derive(Clone, Debug)]
pub(super) struct Merges {
    rows: Vec<Merge>,
    /// Rows by open addressing: a power of two of slots, at most half of them taken.
    slots: Vec<u32>,
    /// The token of each single byte.
    bytes: Vec<Option<u32>>,
}

/// The rank of a merge is its row.
#[derive(Clone, Copy, Debug)]
struct Merge {
    left: u32,
    right: u32,
    whole: u32,
}

impl Merges {
    /// Merges of pieces that are not in the vocabulary can never happen and are left out. `spell` appends
    /// the bytes that a piece of a merge stands for.
    ///
    /// # Errors
    /// A merge that is not two pieces.
    pub(super) fn new(
        merges: &[String],
        vocab: &Vocab,
        spell: impl Fn(&str, &mut Vec<u8>),
    ) -> Result<Self> {
        let mut rows: Vec<Merge> = Vec::with_capacity(merges.len());
        let mut slots = vec![NONE; (2 * merges.len()).next_power_of_two().max(2)];
        let mut bytes = Vec::new();
        for (index, merge) in merges.iter().enumerate() {
            let Some((left, right)) = pieces(merge) else {
                let which =
                    if index == 0 { "first merge".into() } else { format!("merge {index}") };
                return Err(Error::bad_file(format!("{which} is not two pieces: `{merge}`"))
                    .at("tokenizer.ggml.merges"));
            };
            bytes.clear();
            spell(left, &mut bytes);
            let middle = bytes.len();
            spell(right, &mut bytes);
            let ids = (vocab.id(&bytes[..middle]), vocab.id(&bytes[middle..]), vocab.id(&bytes));
            let (Some(left), Some(right), Some(whole)) = ids else { continue };
            let slot = slot(&rows, &slots, left, right);
            if slots[slot] == NONE {
                slots[slot] = rows.len() as u32;
                rows.push(Merge { left, right, whole });
            }
        }
        let bytes = (0..=255).map(|byte| vocab.id(&[byte])).collect();
        Ok(Self { rows, slots, bytes })
    }

    /// Appends the tokens of a word. A byte without a token gives `unknown`, or nothing.
    pub(super) fn encode(
        &self,
        word: &[u8],
        unknown: Option<u32>,
        scratch: &mut Scratch,
        out: &mut Vec<u32>,
    ) {
        scratch.symbols.clear();
        for (at, &byte) in word.iter().enumerate() {
            let id = self.bytes[usize::from(byte)].unwrap_or(NONE);
            scratch.push(id, at, 1);
        }
        scratch.merge(|left, right| self.rank(left, right));
        out.extend(scratch.merged().filter_map(|s| s.id().or(unknown)));
    }

    /// The rank of the merge of two symbols, and what they become.
    pub(super) fn rank(&self, left: &Symbol, right: &Symbol) -> Option<(u32, u32)> {
        let rank = self.slots[slot(&self.rows, &self.slots, left.id, right.id)];
        self.rows.get(rank as usize).map(|row| (rank, row.whole))
    }
}

/// A part of a word on its way to a token.
#[derive(Clone, Copy, Debug)]
pub(super) struct Symbol {
    /// Its token; `NONE` for text that is none, and for what was merged into the symbol before.
    id: u32,
    /// Where it begins in the word, in bytes, and how many it has: none once it was merged away.
    pub start: u32,
    pub len: u32,
    previous: u32,
    next: u32,
}

impl Symbol {
    /// Its token, if it is one.
    pub(super) fn id(&self) -> Option<u32> {
        (self.id != NONE).then_some(self.id)
    }
}

/// A pair that could merge. The lowest rank and then the leftmost comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Pair {
    rank: u32,
    /// The number of the left symbol.
    at: u32,
    /// Bytes of both: symbols only grow, so a pair of another size is not the one that was queued.
    len: u32,
    whole: u32,
}

/// Working memory that is reused from word to word: its symbols, and the pairs that could merge.
#[derive(Default)]
pub(super) struct Scratch {
    symbols: Vec<Symbol>,
    queue: BinaryHeap<Reverse<Pair>>,
}

impl Scratch {
    /// Forgets the last word.
    pub(super) fn clear(&mut self) {
        self.symbols.clear();
    }

    /// Appends a symbol of a new word.
    pub(super) fn push(&mut self, id: u32, start: usize, len: usize) {
        let at = self.symbols.len() as u32;
        let (start, len) = (start as u32, len as u32);
        self.symbols.push(Symbol { id, start, len, previous: at.wrapping_sub(1), next: at + 1 });
    }

    /// Merges pairs until `rank` knows none; it gives a pair's rank and what it becomes.
    ///
    /// `n log n` in the symbols of the word: each merge takes a symbol away and queues two pairs at most.
    /// A pair that changed since it was queued is passed over.
    pub(super) fn merge(&mut self, rank: impl Fn(&Symbol, &Symbol) -> Option<(u32, u32)>) {
        let Scratch { symbols, queue } = self;
        queue.clear();
        let n = symbols.len() as u32;
        let pair = |symbols: &[Symbol], at: u32, next: u32| {
            let (left, right) = (&symbols[at as usize], &symbols[next as usize]);
            let (rank, whole) = rank(left, right)?;
            Some(Reverse(Pair { rank, at, len: left.len + right.len, whole }))
        };
        queue.extend((1..n).filter_map(|at| pair(symbols, at - 1, at)));
        while let Some(Reverse(Pair { at, len, whole, .. })) = queue.pop() {
            let here = symbols[at as usize];
            if here.len == 0 || here.next >= n || here.len + symbols[here.next as usize].len != len
            {
                continue;
            }
            let gone = &mut symbols[here.next as usize];
            let next = gone.next;
            (gone.id, gone.len) = (NONE, 0);
            let merged = &mut symbols[at as usize];
            (merged.id, merged.len, merged.next) = (whole, len, next);
            if here.previous != NONE {
                queue.extend(pair(symbols, here.previous, at));
            }
            if next < n {
                symbols[next as usize].previous = at;
                queue.extend(pair(symbols, at, next));
            }
        }
    }

    /// The symbols that are left, in order.
    pub(super) fn merged(&self) -> impl Iterator<Item = &Symbol> {
        self.symbols.iter().filter(|symbol| symbol.len > 0)
    }
}

/// Two pieces with one blank between: neither holds a blank, since the alphabet spells it `Ġ`.
fn pieces(merge: &str) -> Option<(&str, &str)> {
    let (left, right) = merge.split_once(' ')?;
    (!left.is_empty() && !right.is_empty() && !right.contains(' ')).then_some((left, right))
}

/// The slot of a pair, or the free one where it belongs.
fn slot(rows: &[Merge], slots: &[u32], left: u32, right: u32) -> usize {
    let mask = slots.len() - 1;
    let mut slot = mix(u64::from(left) << 32 | u64::from(right)) & mask;
    while let Some(row) = rows.get(slots[slot] as usize)
        && (row.left, row.right) != (left, right)
    {
        slot = (slot + 1) & mask;
    }
    slot
}
