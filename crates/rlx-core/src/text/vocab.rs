//! A vocabulary: the bytes of each token, its kind, and the token of some bytes.
//!
//! All bytes stand in one arena, and the map from bytes to ids is one array of ids into it, so
//! a vocabulary of 128 k tokens takes about 2 MiB and no allocation of its own for each token.

use crate::{Error, Result};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// What a file says about its tokenizer, as plain values. The names are those of GGUF.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VocabData {
    /// `tokenizer.ggml.model`: the kind of tokenizer; `gpt2` is byte-level BPE.
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
    /// `tokenizer.ggml.add_eos_token`; absent: false.
    pub add_eos: Option<bool>,
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
}

impl Kind {
    fn of(value: i32) -> Self {
        match value {
            2 => Self::Unknown,
            3 => Self::Control,
            4 => Self::UserDefined,
            5 => Self::Unused,
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
    "<end_of_turn>",
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
    /// Tokens recognised in text before words are cut, by first byte, the longest first.
    specials: Vec<u32>,
    /// `specials[first[b]..first[b + 1]]` begin with byte `b`.
    first: Vec<u32>,
    /// Sorted.
    ends_of_generation: Vec<u32>,
}

impl Vocab {
    pub(super) fn new(data: &VocabData) -> Result<Self> {
        let n = data.tokens.len();
        if n == 0 {
            return Err(Error::bad_file("missing tokenizer")
                .at("tokenizer.ggml.tokens")
                .hint("the file has no vocabulary, so RLX can turn no text into tokens"));
        }
        let named = [
            ("bos", data.bos),
            ("eos", data.eos),
            ("eot", data.eot),
            ("eom", data.eom),
            ("unknown", data.unk),
            ("padding", data.pad),
        ];
        for (name, id) in named {
            if let Some(id) = id
                && id as usize >= n
            {
                let key = format!("tokenizer.ggml.{name}_token_id");
                let what = format!("{key} {id} is outside the {n} tokens");
                return Err(Error::bad_file(what).at(key));
            }
        }
        let kinds = kinds(data)?;

        let mut bytes = Vec::with_capacity(data.tokens.iter().map(String::len).sum());
        let mut ends = Vec::with_capacity(n);
        for (token, kind) in data.tokens.iter().zip(&kinds) {
            match kind {
                Kind::Normal | Kind::Unused => push_decoded(token, &mut bytes),
                _ => bytes.extend_from_slice(token.as_bytes()),
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
            specials: Vec::new(),
            first: Vec::new(),
            ends_of_generation: Vec::new(),
        };
        vocab.index();
        vocab.index_specials();
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

    fn index_specials(&mut self) {
        let special = |kind: Kind| kind.is_control() || kind == Kind::UserDefined;
        let mut specials: Vec<u32> = (0..self.len() as u32)
            .filter(|&id| special(self.kind(id)) && !self.piece(id).is_empty())
            .collect();
        specials.sort_by_key(|&id| {
            let piece = self.piece(id);
            (piece[0], core::cmp::Reverse(piece.len()), id)
        });
        self.first = (0..=256)
            .map(|b| specials.partition_point(|&id| usize::from(self.piece(id)[0]) < b) as u32)
            .collect();
        self.specials = specials;
    }

    fn find_ends(&mut self, data: &VocabData) {
        let mut ends: Vec<u32> = [data.eos, data.eot, data.eom].into_iter().flatten().collect();
        ends.extend((0..self.len() as u32).filter(|&id| {
            let is_end = |name: &&str| name.as_bytes() == self.piece(id);
            self.kind(id) == Kind::Control && ENDS.iter().any(is_end)
        }));
        ends.sort_unstable();
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
    pub(super) fn specials(&self) -> &[u32] {
        &self.specials
    }

    /// The longest special token at the start of `bytes`, control tokens only when asked for.
    pub(super) fn special_at(&self, bytes: &[u8], control: bool) -> Option<u32> {
        let first = usize::from(*bytes.first()?);
        let range = self.first[first] as usize..self.first[first + 1] as usize;
        self.specials[range].iter().copied().find(|&id| {
            (control || !self.kind(id).is_control()) && bytes.starts_with(self.piece(id))
        })
    }
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

/// Appends what `token` spells; a character outside the alphabet spells itself.
pub(super) fn push_decoded(token: &str, out: &mut Vec<u8>) {
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
