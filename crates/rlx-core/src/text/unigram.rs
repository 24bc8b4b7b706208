//! Unigram (arXiv:1804.10959): of all ways to spell a word with pieces, the one whose scores sum highest.

use super::prefixes::Prefixes;
use super::vocab::{Kind, Vocab};
use alloc::vec;
use alloc::vec::Vec;

/// How much lower an unknown character scores than the lowest piece.
const UNKNOWN: f64 = 10.0;

/// The pieces of a Unigram tokenizer.
#[derive(Clone, Debug)]
pub(super) struct Unigram {
    pieces: Prefixes,
    /// Logarithms of probabilities, by id.
    scores: Vec<f32>,
    unknown: f64,
}

/// The best way to spell a word up to some byte.
#[derive(Clone, Copy, Debug)]
struct Best {
    score: f64,
    /// Where its last piece begins.
    start: u32,
    /// Its last piece; `None` for a character that no piece spells.
    id: Option<u32>,
}

impl Unigram {
    /// `scores` has one for each token, or none at all: then every piece scores 0.
    pub(super) fn new(mut scores: Vec<f32>, vocab: &Vocab) -> Self {
        scores.resize(vocab.len(), 0.0);
        let text = |kind: Kind| matches!(kind, Kind::Normal | Kind::UserDefined);
        let ids: Vec<u32> = (0..vocab.len() as u32).filter(|&id| text(vocab.kind(id))).collect();
        for &id in ids.iter().filter(|&&id| vocab.kind(id) == Kind::UserDefined) {
            scores[id as usize] = 0.0;
        }
        let lowest = ids.iter().map(|&id| f64::from(scores[id as usize])).fold(0.0, f64::min);
        let pieces = Prefixes::new(ids, |id| vocab.piece(id));
        Self { pieces, scores, unknown: lowest - UNKNOWN }
    }

    /// Calls `put` with the pieces of a word in order: an id, or the bytes of a character that no piece
    /// spells. Viterbi: for each character, all pieces that begin there.
    pub(super) fn encode(
        &self,
        word: &str,
        vocab: &Vocab,
        put: &mut dyn FnMut(Option<u32>, &[u8]),
    ) {
        let none = Best { score: f64::NEG_INFINITY, start: 0, id: None };
        let mut best = vec![none; word.len() + 1];
        best[0].score = 0.0;
        for (at, c) in word.char_indices() {
            let here = best[at].score;
            let mut offer = |len: usize, score: f64, id: Option<u32>| {
                let end = &mut best[at + len];
                if here + score > end.score {
                    *end = Best { score: here + score, start: at as u32, id };
                }
            };
            let mut whole = false;
            let piece = |id| vocab.piece(id);
            self.pieces.each(&word.as_bytes()[at..], piece, |id, len| {
                whole |= len == c.len_utf8();
                offer(len, f64::from(self.scores[id as usize]), Some(id));
            });
            if !whole {
                offer(c.len_utf8(), self.unknown, None);
            }
        }
        let mut ends = Vec::new();
        let mut end = word.len();
        while end > 0 {
            ends.push(end);
            end = best[end].start as usize;
        }
        for end in ends.into_iter().rev() {
            let Best { start, id, .. } = best[end];
            put(id, &word.as_bytes()[start as usize..end]);
        }
    }
}
