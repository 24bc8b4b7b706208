//! What SentencePiece's kinds of tokenizers have in common, and its BPE: text is one word or few, merged
//! from characters, and a character that no token spells is its bytes, `<0xF0>`.
//!
//! Such vocabularies write a blank as U+2581. Here a token has blanks, and U+2581 in a text is read as
//! one: the same tokens come out, and a token's bytes are its text.

use super::bpe::{Merges, NONE, Scratch};
use super::charsmap::Charsmap;
use super::unicode::is_white_space;
use super::vocab::{BlankRuns, Kind, LeadingBlank, Vocab};
use crate::Result;
use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

const BLANK: char = '\u{2581}';
/// Bytes of a token that pairs are merged to, at most: how a pair is looked up takes its bytes.
const LONGEST: usize = 1024;

/// How tokens are spelled.
pub(super) fn spell_blanks(token: &str, _: Kind, out: &mut Vec<u8>) {
    out.extend_from_slice(with_blanks(token).as_bytes());
}

/// The text with U+2581 as blanks.
fn with_blanks(text: &str) -> Cow<'_, str> {
    if text.contains(BLANK) {
        Cow::Owned(text.chars().map(|c| if c == BLANK { ' ' } else { c }).collect())
    } else {
        Cow::Borrowed(text)
    }
}

/// What is done to text before it is cut.
#[derive(Clone, Debug)]
pub(super) struct Normalizer {
    pub charsmap: Charsmap,
    pub leading: LeadingBlank,
    pub runs: BlankRuns,
}

impl Normalizer {
    /// `first`: the text begins a document.
    pub(super) fn apply<'a>(&self, text: &'a str, first: bool) -> Cow<'a, str> {
        let mut text = Cow::Borrowed(text);
        if !self.charsmap.is_empty() {
            let mut out = String::with_capacity(text.len() + 1);
            self.charsmap.apply(&text, &mut out);
            text = Cow::Owned(out);
        }
        if self.runs != BlankRuns::Kept {
            // Before U+2581 is a blank: one that a text holds stays.
            let whole = match self.runs {
                BlankRuns::JoinedAndStripped => text.trim_end_matches(is_white_space),
                _ => text.trim_matches(' '),
            };
            let mut out = String::with_capacity(whole.len() + 1);
            for c in whole.chars() {
                if c != ' ' || !out.ends_with(' ') {
                    out.push(c);
                }
            }
            text = Cow::Owned(out);
        }
        if text.contains(BLANK) {
            text = Cow::Owned(with_blanks(&text).into_owned());
        }
        leading_blank(text, self.leading, first)
    }
}

/// The text with a blank before it where there is to be one; `first`: it begins a document.
pub(super) fn leading_blank(
    text: Cow<'_, str>,
    leading: LeadingBlank,
    first: bool,
) -> Cow<'_, str> {
    let add = match leading {
        LeadingBlank::Never => false,
        LeadingBlank::Always => true,
        LeadingBlank::Missing => !text.starts_with(' '),
        LeadingBlank::First => first && !text.starts_with(' '),
    };
    if add && !text.is_empty() { Cow::Owned([" ", &text].concat()) } else { text }
}

/// Which pairs of symbols merge.
#[derive(Clone, Debug)]
pub(super) enum Pairs {
    /// Those of a list, the first merges first.
    Listed(Merges),
    /// Those that are a token together, the highest score first.
    Scored {
        /// By id, the better the smaller.
        ranks: Vec<u32>,
    },
}

impl Pairs {
    pub(super) fn new(merges: &[String], scores: &[f32], vocab: &Vocab) -> Result<Self> {
        if !merges.is_empty() {
            let spell = |piece: &str, out: &mut Vec<u8>| spell_blanks(piece, Kind::Normal, out);
            return Merges::new(merges, vocab, spell).map(Self::Listed);
        }
        // The order of floats as unsigned integers, the largest first.
        let rank = |score: &f32| {
            let bits = (score + 0.0).to_bits();
            if bits >> 31 == 1 { bits } else { !bits & !(1 << 31) }
        };
        let mut ranks: Vec<u32> = scores.iter().map(rank).collect();
        ranks.resize(vocab.len(), 0);
        Ok(Self::Scored { ranks })
    }

    /// Calls `put` with the tokens of a word in order: an id, or the bytes of what has none.
    pub(super) fn encode(
        &self,
        word: &str,
        vocab: &Vocab,
        scratch: &mut Scratch,
        put: &mut dyn FnMut(Option<u32>, &[u8]),
    ) {
        let bytes = word.as_bytes();
        scratch.clear();
        for (at, c) in word.char_indices() {
            let len = c.len_utf8();
            scratch.push(vocab.id(&bytes[at..at + len]).unwrap_or(NONE), at, len);
        }
        match self {
            Self::Listed(merges) => scratch.merge(|left, right| merges.rank(left, right)),
            Self::Scored { ranks } => scratch.merge(|left, right| {
                let (start, len) = (left.start as usize, (left.len + right.len) as usize);
                if len > vocab.longest().min(LONGEST) {
                    return None;
                }
                let id = vocab.id(&bytes[start..start + len])?;
                Some((ranks[id as usize], id))
            }),
        }
        for symbol in scratch.merged() {
            put(symbol.id(), &bytes[symbol.start as usize..][..symbol.len as usize]);
        }
    }
}

/// Appends what [`Pairs::encode`] and Unigram find. Text without a token is its bytes' tokens where there
/// are all of them, else the unknown token, one for all that stand beside each other.
pub(super) struct Output<'a> {
    vocab: &'a Vocab,
    unknown: Option<u32>,
    ids: &'a mut Vec<u32>,
    /// Whether the last was the unknown token.
    was_unknown: bool,
}

impl<'a> Output<'a> {
    pub(super) fn new(vocab: &'a Vocab, unknown: Option<u32>, ids: &'a mut Vec<u32>) -> Self {
        Self { vocab, unknown, ids, was_unknown: false }
    }

    pub(super) fn put(&mut self, id: Option<u32>, bytes: &[u8]) {
        match id {
            Some(id) => self.ids.push(id),
            None => match self.vocab.byte_tokens(bytes) {
                Some(tokens) => self.ids.extend(tokens),
                None => {
                    self.ids.extend(self.unknown.filter(|_| !self.was_unknown));
                    self.was_unknown = true;
                    return;
                }
            },
        }
        self.was_unknown = false;
    }
}
