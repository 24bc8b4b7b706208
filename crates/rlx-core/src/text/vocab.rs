//! A vocabulary: the bytes of each token, its kind, and the token of some bytes.
//!
//! All bytes stand in one arena, and the map from bytes to ids is one array of ids into it, so
//! a vocabulary of 128 k tokens takes about 2 MiB and no allocation of its own for each token.

use super::specials::{Special, Specials, TokenRule};
use crate::order;
use crate::{Error, Result};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

/// What a file says about its tokenizer, as plain values. The names are those of GGUF.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VocabData {
    /// `tokenizer.ggml.model`: the kind of tokenizer. `gpt2` is byte-level BPE, `llama` is SentencePiece's
    /// BPE, whose scores say what is merged first, `gemma4` the same with merges, `t5` is Unigram.
    pub model: String,
    /// `tokenizer.ggml.pre`: the name of the pre-tokenizer; empty when the file has none.
    pub pre: String,
    /// `tokenizer.ggml.tokens`, one text an id; ordinary tokens spell bytes in GPT-2's alphabet.
    pub tokens: Vec<String>,
    /// `tokenizer.ggml.token_type`: 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused,
    /// 6 byte. Absent: all normal but the tokens named below.
    pub token_types: Option<Vec<i32>>,
    /// `tokenizer.ggml.merges`: `left right`, the first merges first.
    pub merges: Vec<String>,
    /// `tokenizer.ggml.bos_token_id`
    pub bos: Option<u32>,
    /// `tokenizer.ggml.eos_token_id`
    pub eos: Option<u32>,
    /// `tokenizer.ggml.eot_token_id`
    pub eot: Option<u32>,
    /// `tokenizer.ggml.eom_token_id`
    pub eom: Option<u32>,
    /// `tokenizer.ggml.unknown_token_id`
    pub unk: Option<u32>,
    /// `tokenizer.ggml.padding_token_id`
    pub pad: Option<u32>,
    /// `tokenizer.ggml.add_bos_token`; absent: as the pre-tokenizer's family does.
    pub add_bos: Option<bool>,
    /// `tokenizer.ggml.add_eos_token`; absent: as the kind of tokenizer does, true for `t5` alone.
    pub add_eos: Option<bool>,
    /// `tokenizer.ggml.scores`, one an id: the higher, the earlier a piece is merged; for Unigram the
    /// logarithm of its probability.
    pub scores: Vec<f32>,
    /// Where a blank is put before text. `tokenizer.ggml.add_space_prefix`; absent: as the kind does.
    pub leading_blank: Option<LeadingBlank>,
    /// What becomes of runs of blanks. `tokenizer.ggml.remove_extra_whitespaces`, for Unigram; absent:
    /// joined and stripped there, else kept.
    pub blank_runs: Option<BlankRuns>,
    /// Whether user-defined tokens are looked for in the text as it is after all that was replaced and put
    /// before it, as SentencePiece does, and not in the text that was given.
    pub user_defined_inside: bool,
    /// `tokenizer.ggml.precompiled_charsmap`: what SentencePiece replaces before all else; may be empty.
    pub charsmap: Vec<u8>,
    /// Whether text is brought to NFC; absent: as the pre-tokenizer's family does.
    pub nfc: Option<bool>,
    /// Whether a word that is a token is taken whole, merges or not; absent: as the family does.
    pub ignore_merges: Option<bool>,
    /// Tokens that end an answer, beside those that are named above.
    pub ends: Vec<u32>,
    /// How some tokens are recognised in a text. The text is that of the list where it is not empty.
    pub rules: Vec<(u32, TokenRule, String)>,
}

impl VocabData {
    /// Ids of tokens with a meaning of their own, by their names in keys of GGUF (`tokenizer.ggml.NAME_token_id`).
    pub(crate) fn named_ids(&self) -> [(&'static str, Option<u32>); 6] {
        [
            ("bos", self.bos),
            ("eos", self.eos),
            ("eot", self.eot),
            ("eom", self.eom),
            ("unknown", self.unk),
            ("padding", self.pad),
        ]
    }
}

/// What becomes of runs of blanks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlankRuns {
    /// They stay.
    Kept,
    /// One blank takes their place, and at either end of a text none: SentencePiece.
    Joined,
    /// One blank takes their place, and all white space at the end of a text goes: transformers.
    JoinedAndStripped,
}

/// Where a blank is put before text, so that a word at its start is the same token as behind a blank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeadingBlank {
    /// Nowhere.
    Never,
    /// Before every text, and behind every special token.
    Always,
    /// The same, where the text does not begin with one.
    Missing,
    /// Before a document that does not begin with one, nowhere else.
    First,
}

/// What a token is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Text.
    Normal,
    /// The stand-in for what the vocabulary cannot spell; no text of its own.
    Unknown,
    /// Structure, such as the end of a turn; no text of its own.
    Control,
    /// Text that is always one token.
    UserDefined,
    /// Never produced.
    Unused,
    /// A byte of what no other token spells, `<0x0A>`.
    Byte,
}

impl Kind {
    fn of(value: i32) -> Self {
        match value {
            2 => Self::Unknown,
            3 => Self::Control,
            4 => Self::UserDefined,
            5 => Self::Unused,
            6 => Self::Byte,
            _ => Self::Normal,
        }
    }

    /// Recognised in text only when the caller says that text may hold structure.
    pub(super) fn is_control(self) -> bool {
        matches!(self, Self::Unknown | Self::Control)
    }
}

/// Control tokens that end an answer, by name: files often name only one of them as EOS.
const ENDS: &[&str] = &[
    "<|eot_id|>",
    "<|eom_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|end_of_text|>",
    "<|endoftext|>",
    "<|return|>",
    "<|call|>",
    "<|calls|>",
    "<|flush|>",
    "<end_of_turn>",
    "<turn|>",
    "<|tool_response>",
    "</s>",
    "<eos>",
    "[EOS]",
    "[EOT]",
    "[e~[",
    "<end_of_utterance>",
    "<EOT>",
    "_<EOT>",
    "<|END_OF_TURN_TOKEN|>",
    "<｜end▁of▁sentence｜>",
];

#[derive(Clone, Debug)]
pub(super) struct Vocab {
    bytes: Vec<u8>,
    /// Where each token's bytes end.
    ends: Vec<u32>,
    kinds: Vec<Kind>,
    ids: IdTable,
    specials: Specials,
    /// User-defined tokens that are looked for after text was normalized.
    inside: Specials,
    /// The byte tokens of [`Kind::Byte`].
    byte_tokens: Vec<Option<u32>>,
    /// Bytes of the longest ordinary token.
    longest: usize,
    /// Sorted.
    ends_of_generation: Vec<u32>,
}

impl Vocab {
    /// `spell` appends the bytes that an ordinary token stands for.
    ///
    /// # Errors
    /// `BadFile` for no tokens, ids outside the vocabulary, and lists of other lengths than the tokens'.
    pub(super) fn new(data: &VocabData, spell: Spell) -> Result<Self> {
        let n = data.tokens.len();
        if n == 0 {
            return Err(Error::bad_file("missing tokenizer")
                .at("tokenizer.ggml.tokens")
                .hint("the file has no vocabulary, so RLX can turn no text into tokens"));
        }
        for (name, id) in data.named_ids() {
            if let Some(id) = id
                && id as usize >= n
            {
                let key = format!("tokenizer.ggml.{name}_token_id");
                let what = format!("{key} {id} is outside the {n} tokens");
                return Err(Error::bad_file(what).at(key));
            }
        }
        let kinds = kinds(data)?;
        if !data.scores.is_empty() && data.scores.len() != n {
            let what = format!("{} scores for {n} tokens", data.scores.len());
            return Err(Error::bad_file(what).at("tokenizer.ggml.scores"));
        }
        if let Some(at) = data.scores.iter().position(|score| !score.is_finite()) {
            let what = format!("the score of token {at} is {}", data.scores[at]);
            return Err(Error::bad_file(what).at("tokenizer.ggml.scores"));
        }

        let mut bytes = Vec::with_capacity(data.tokens.iter().map(String::len).sum());
        let mut ends = Vec::with_capacity(n);
        for (token, kind) in data.tokens.iter().zip(&kinds) {
            match kind {
                Kind::Unknown | Kind::Control => bytes.extend_from_slice(token.as_bytes()),
                Kind::Byte if let Some(byte) = byte_token(token) => bytes.push(byte),
                _ => spell(token, *kind, &mut bytes),
            }
            let end = u32::try_from(bytes.len())
                .map_err(|_| Error::bad_file("the tokens hold more than 4 GiB of text"))?;
            ends.push(end);
        }
        let mut vocab = Self {
            bytes,
            ends,
            kinds,
            ids: IdTable::with_capacity(n),
            specials: Specials::default(),
            inside: Specials::default(),
            byte_tokens: vec![None; 256],
            longest: 0,
            ends_of_generation: Vec::new(),
        };
        vocab.index();
        vocab.index_specials(data)?;
        vocab.find_ends(data);
        Ok(vocab)
    }

    /// Ordinary tokens first: where a user-defined token spells the same bytes, they win. Control
    /// tokens stay out, so no plain text ever becomes one.
    fn index(&mut self) {
        let mut ids = core::mem::take(&mut self.ids);
        for kind in [Kind::Normal, Kind::UserDefined] {
            for id in 0..self.len() as u32 {
                if self.kind(id) == kind && !self.piece(id).is_empty() {
                    ids.insert(self, id);
                }
            }
        }
        self.ids = ids;
    }

    fn index_specials(&mut self, data: &VocabData) -> Result<()> {
        let mut rules: Vec<(u32, TokenRule, &str)> =
            data.rules.iter().map(|(id, rule, text)| (*id, *rule, text.as_str())).collect();
        order::sort_by_key(&mut rules, |rule| rule.0);
        let special = |id: u32| {
            let kind = self.kind(id);
            if !kind.is_control() && kind != Kind::UserDefined {
                return None;
            }
            let found = rules.binary_search_by_key(&id, |rule| rule.0);
            let (_, rule, text) = found.map_or((id, TokenRule::default(), ""), |at| rules[at]);
            let text = if text.is_empty() { data.tokens.get(id as usize)? } else { text };
            Some(Special { id, text: text.to_string(), control: kind.is_control(), rule })
        };
        let all = (0..self.len() as u32).filter_map(special);
        let (inside, specials): (Vec<Special>, _) =
            all.partition(|special| data.user_defined_inside && !special.control);
        (self.specials, self.inside) = (Specials::new(specials)?, Specials::new(inside)?);
        for id in 0..self.len() as u32 {
            if let (Kind::Byte, &[byte]) = (self.kind(id), self.piece(id)) {
                self.byte_tokens[usize::from(byte)].get_or_insert(id);
            }
        }
        self.longest = (0..self.len() as u32).map(|id| self.piece(id).len()).max().unwrap_or(0);
        Ok(())
    }

    fn find_ends(&mut self, data: &VocabData) {
        let mut ends: Vec<u32> = [data.eos, data.eot, data.eom].into_iter().flatten().collect();
        ends.extend(data.ends.iter().copied().filter(|&id| (id as usize) < self.len()));
        ends.extend((0..self.len() as u32).filter(|&id| {
            let is_end = |name: &&str| name.as_bytes() == self.piece(id);
            self.kind(id) == Kind::Control && ENDS.iter().any(is_end)
        }));
        // In gpt-oss, which answers in several messages, this ends a message and no answer.
        let has = |name: &str| ends.iter().any(|&id| self.piece(id) == name.as_bytes());
        if (has("<|call|>") && has("<|return|>")) || (has("<|calls|>") && has("<|flush|>")) {
            ends.retain(|&id| self.piece(id) != b"<|end|>" || data.eos == Some(id));
        }
        order::sort(&mut ends);
        ends.dedup();
        self.ends_of_generation = ends;
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The bytes of a token; none for an id outside the vocabulary.
    pub(super) fn piece(&self, id: u32) -> &[u8] {
        let id = id as usize;
        let Some(&end) = self.ends.get(id) else { return &[] };
        let start = if id == 0 { 0 } else { self.ends[id - 1] };
        &self.bytes[start as usize..end as usize]
    }

    pub(super) fn kind(&self, id: u32) -> Kind {
        self.kinds.get(id as usize).copied().unwrap_or(Kind::Unused)
    }

    pub(super) fn is_end(&self, id: u32) -> bool {
        self.ends_of_generation.binary_search(&id).is_ok()
    }

    pub(super) fn ends_of_generation(&self) -> &[u32] {
        &self.ends_of_generation
    }

    /// The ordinary or user-defined token of exactly these bytes.
    pub(super) fn id(&self, bytes: &[u8]) -> Option<u32> {
        self.ids.get(self, bytes)
    }

    /// Control and user-defined tokens.
    pub(super) fn specials(&self) -> &Specials {
        &self.specials
    }

    /// User-defined tokens, where they are looked for in normalized text.
    pub(super) fn inside(&self) -> &Specials {
        &self.inside
    }

    /// The byte tokens that spell these bytes; `None` where one of them is missing.
    pub(super) fn byte_tokens(&self, bytes: &[u8]) -> Option<impl Iterator<Item = u32>> {
        let token = |byte: &u8| self.byte_tokens[usize::from(*byte)];
        bytes.iter().all(|b| token(b).is_some()).then(|| bytes.iter().filter_map(token))
    }

    /// Bytes of the longest token.
    pub(super) fn longest(&self) -> usize {
        self.longest
    }
}

/// The byte of a token such as `<0x0A>`.
fn byte_token(token: &str) -> Option<u8> {
    let digits = token.strip_prefix("<0x")?.strip_suffix('>')?;
    (digits.len() == 2).then(|| u8::from_str_radix(digits, 16).ok())?
}

fn kinds(data: &VocabData) -> Result<Vec<Kind>> {
    let n = data.tokens.len();
    if let Some(types) = &data.token_types {
        if types.len() != n {
            let what = format!("{} token types for {n} tokens", types.len());
            return Err(Error::bad_file(what).at("tokenizer.ggml.token_type"));
        }
        return Ok(types.iter().map(|&value| Kind::of(value)).collect());
    }
    let mut kinds = vec![Kind::Normal; n];
    for id in [data.bos, data.eos, data.eot, data.eom, data.pad].into_iter().flatten() {
        kinds[id as usize] = Kind::Control;
    }
    Ok(kinds)
}

/// The byte that a character stands for in GPT-2's alphabet: printable Latin-1 for itself, the
/// other 68 bytes, in order, for U+0100 and on.
pub(super) fn byte_of(c: char) -> Option<u8> {
    let byte = match c as u32 {
        c @ (0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff) => c,
        c @ 0x100..=0x120 => c - 0x100,
        c @ 0x121..=0x142 => c - 0x121 + 0x7f,
        0x143 => 0xad,
        _ => return None,
    };
    Some(byte as u8)
}

/// Appends the bytes that a token of some kind stands for.
pub(super) type Spell = fn(&str, Kind, &mut Vec<u8>);

/// How byte-level tokens are spelled: in GPT-2's alphabet; a character outside of it stands for itself,
/// and so does all of a user-defined token.
pub(super) fn spell_bytes(token: &str, kind: Kind, out: &mut Vec<u8>) {
    if kind == Kind::UserDefined {
        return out.extend_from_slice(token.as_bytes());
    }
    for c in token.chars() {
        match byte_of(c) {
            Some(byte) => out.push(byte),
            None => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}

const EMPTY: u32 = u32::MAX;

/// A hash table of ids by open addressing; the keys are the vocabulary's own bytes.
#[derive(Clone, Debug, Default)]
struct IdTable {
    /// A power of two of slots, at most half of them taken.
    slots: Vec<u32>,
}

impl IdTable {
    fn with_capacity(n: usize) -> Self {
        Self { slots: vec![EMPTY; (2 * n).next_power_of_two().max(2)] }
    }

    /// The first id of some bytes stays.
    fn insert(&mut self, vocab: &Vocab, id: u32) {
        let slot = self.slot(vocab, vocab.piece(id));
        if self.slots[slot] == EMPTY {
            self.slots[slot] = id;
        }
    }

    fn get(&self, vocab: &Vocab, bytes: &[u8]) -> Option<u32> {
        let id = self.slots[self.slot(vocab, bytes)];
        (id != EMPTY).then_some(id)
    }

    /// The slot of these bytes, or the free one where they belong.
    fn slot(&self, vocab: &Vocab, bytes: &[u8]) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = hash_bytes(bytes) & mask;
        while self.slots[slot] != EMPTY && vocab.piece(self.slots[slot]) != bytes {
            slot = (slot + 1) & mask;
        }
        slot
    }
}

fn hash_bytes(bytes: &[u8]) -> usize {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for &byte in bytes {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    mix(hash)
}

/// Spreads all bits of a key over the low ones that a table uses.
pub(super) fn mix(key: u64) -> usize {
    let key = (key ^ (key >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (key ^ (key >> 29)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_one_character() {
        let mut bytes: Vec<u8> =
            (0..0x180).filter_map(char::from_u32).filter_map(byte_of).collect();
        bytes.sort_unstable();
        assert_eq!(bytes, (0..=255).collect::<Vec<u8>>());
        for (c, byte) in [('Ġ', b' '), ('Ċ', b'\n'), ('ĉ', b'\t'), ('a', b'a'), ('Ń', 0xad)] {
            assert_eq!(byte_of(c), Some(byte));
        }
    }
}
