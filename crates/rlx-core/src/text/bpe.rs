//! Byte-pair encoding: the bytes of a word, merged by rank until no pair is left to merge.

use super::vocab::{Vocab, mix, push_decoded};
use crate::{Error, Result};
use alloc::collections::BinaryHeap;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

const NONE: u32 = u32::MAX;

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
    /// Merges of pieces that are not in the vocabulary can never happen and are left out.
    ///
    /// # Errors
    /// A merge that is not two pieces.
    pub(super) fn new(merges: &[String], vocab: &Vocab) -> Result<Self> {
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
            push_decoded(left, &mut bytes);
            let middle = bytes.len();
            push_decoded(right, &mut bytes);
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

    /// The rank of the merge of two tokens.
    fn rank(&self, left: u32, right: u32) -> Option<u32> {
        let rank = self.slots[slot(&self.rows, &self.slots, left, right)];
        (rank != NONE).then_some(rank)
    }

    /// Appends the tokens of a word. A byte without a token gives `unknown`, or nothing.
    ///
    /// `n log n` in the bytes of the word: a queue of the pairs that could merge, the lowest rank
    /// and then the leftmost first; a pair that changed since it was queued is passed over.
    pub(super) fn encode(
        &self,
        word: &[u8],
        unknown: Option<u32>,
        scratch: &mut Scratch,
        out: &mut Vec<u32>,
    ) {
        let Scratch { symbols, queue } = scratch;
        symbols.clear();
        queue.clear();
        for (at, &byte) in word.iter().enumerate() {
            let id = self.bytes[usize::from(byte)].unwrap_or(NONE);
            symbols.push(Symbol { id, previous: (at as u32).wrapping_sub(1), next: at as u32 + 1 });
        }
        let n = symbols.len() as u32;
        for at in 1..n {
            self.enqueue(symbols, queue, at - 1, at);
        }
        while let Some(Reverse((rank, at))) = queue.pop() {
            let Merge { left, right, whole } = self.rows[rank as usize];
            let here = symbols[at as usize];
            // A symbol that was merged away has no id, so it equals neither side of a merge.
            if here.id != left || here.next >= n || symbols[here.next as usize].id != right {
                continue;
            }
            let gone = core::mem::replace(
                &mut symbols[here.next as usize],
                Symbol { id: NONE, previous: NONE, next: n },
            );
            symbols[at as usize].id = whole;
            symbols[at as usize].next = gone.next;
            if here.previous != NONE {
                self.enqueue(symbols, queue, here.previous, at);
            }
            if gone.next < n {
                symbols[gone.next as usize].previous = at;
                self.enqueue(symbols, queue, at, gone.next);
            }
        }
        let mut at = 0;
        while at < n {
            let symbol = symbols[at as usize];
            out.extend(if symbol.id == NONE { unknown } else { Some(symbol.id) });
            at = symbol.next;
        }
    }

    fn enqueue(&self, symbols: &[Symbol], queue: &mut Queue, left: u32, right: u32) {
        if let Some(rank) = self.rank(symbols[left as usize].id, symbols[right as usize].id) {
            queue.push(Reverse((rank, left)));
        }
    }
}

/// (rank, place of the left symbol), the smallest first.
type Queue = BinaryHeap<Reverse<(u32, u32)>>;

#[derive(Clone, Copy, Debug)]
struct Symbol {
    id: u32,
    previous: u32,
    next: u32,
}

/// Working memory that is reused from word to word.
#[derive(Default)]
pub(super) struct Scratch {
    symbols: Vec<Symbol>,
    queue: Queue,
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
