//! The tokenizer: text to ids and ids to text.

use super::bpe::{Merges, Scratch};
use super::charsmap::Charsmap;
use super::pretokenize::Pretokenizer;
use super::sentencepiece::{Normalizer, Output, Pairs, leading_blank, spell_blanks};
use super::specials::{Cut, blank_len};
use super::unicode::{is_white_space, nfc};
use super::unigram::Unigram;
use super::vocab::{BlankRuns, Kind, LeadingBlank, Vocab, VocabData, spell_bytes};
use crate::{Code, Error, Result};
use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// What to make of text that spells a control token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// It is the control token: prompts that a program composed.
    Parse,
    /// It is plain text: what a user or a document says. User-defined tokens are text, so they
    /// are still recognised.
    Literal,
}

/// A tokenizer of any kind but WordPiece.
#[derive(Clone, Debug)]
pub struct Tokenizer {
    vocab: Vocab,
    model: Model,
    nfc: bool,
    leading: LeadingBlank,
    bos: Option<u32>,
    eos: Option<u32>,
    unk: Option<u32>,
    pad: Option<u32>,
    add_bos: bool,
    add_eos: bool,
}

/// How text between special tokens becomes ids.
#[derive(Clone, Debug)]
enum Model {
    /// Byte-level BPE: words of bytes.
    Bytes { pretokenizer: Pretokenizer, ignore_merges: bool, merges: Merges },
    /// SentencePiece's BPE: characters, of the whole text or of what a pre-tokenizer cuts.
    Characters { normalizer: Normalizer, pretokenizer: Pretokenizer, pairs: Pairs },
    /// Unigram: words that begin with a blank.
    Unigram { normalizer: Normalizer, unigram: Unigram },
}

/// Bytes of a word at most, so that places in it fit 32 bits; a longer one is cut.
const WORD_MAX: usize = 1 << 30;

impl Tokenizer {
    /// Builds the tables; about 75 ms for 128 k tokens and 280 k merges (one x86-64
    /// core, release, 2026-11-21).
    ///
    /// # Errors
    /// [`Code::BadFile`] for no tokens, ids outside the vocabulary, merges that are not two
    /// pieces; [`Code::Unsupported`] for a kind of tokenizer or pre-tokenizer that RLX lacks.
    pub fn new(mut data: VocabData) -> Result<Self> {
        let kind = Family::of(&data)?;
        kind.fill_in(&mut data);
        let bytes = kind == Family::Bytes;
        let vocab = Vocab::new(&data, if bytes { spell_bytes } else { spell_blanks })?;
        let pretokenizer = match kind {
            Family::Bytes => Pretokenizer::named(&data.pre)?,
            Family::Merges if !data.pre.is_empty() => Pretokenizer::named(&data.pre)?,
            Family::Merges | Family::Scores | Family::Unigram => Pretokenizer::NONE,
        };
        let leading = data.leading_blank.unwrap_or(match kind {
            Family::Bytes | Family::Merges => LeadingBlank::Never,
            Family::Scores => LeadingBlank::Always,
            Family::Unigram => LeadingBlank::Missing,
        });
        let normalizer = || -> Result<Normalizer> {
            Ok(Normalizer {
                charsmap: Charsmap::new(&data.charsmap)?,
                leading,
                runs: data.blank_runs.unwrap_or(match kind {
                    Family::Unigram => BlankRuns::JoinedAndStripped,
                    _ => BlankRuns::Kept,
                }),
            })
        };
        let model = match kind {
            Family::Bytes => {
                let spell = |piece: &str, out: &mut Vec<u8>| spell_bytes(piece, Kind::Normal, out);
                Model::Bytes {
                    pretokenizer,
                    ignore_merges: data.ignore_merges.unwrap_or(pretokenizer.ignore_merges),
                    merges: Merges::new(&data.merges, &vocab, spell)?,
                }
            }
            Family::Scores | Family::Merges => Model::Characters {
                normalizer: normalizer()?,
                pretokenizer,
                pairs: Pairs::new(&data.merges, &data.scores, &vocab)?,
            },
            Family::Unigram => Model::Unigram {
                normalizer: normalizer()?,
                unigram: Unigram::new(core::mem::take(&mut data.scores), &vocab),
            },
        };
        let add_bos = match kind {
            Family::Bytes | Family::Merges => pretokenizer.add_bos,
            Family::Scores => true,
            Family::Unigram => false,
        };
        Ok(Self {
            vocab,
            model,
            nfc: data.nfc.unwrap_or(pretokenizer.nfc),
            leading,
            bos: data.bos,
            eos: data.eos,
            unk: data.unk,
            pad: data.pad,
            add_bos: data.bos.is_some() && data.add_bos.unwrap_or(add_bos),
            add_eos: data.eos.is_some() && data.add_eos.unwrap_or(kind == Family::Unigram),
        })
    }

    /// The number of tokens.
    pub fn vocab_size(&self) -> usize {
        self.vocab.len()
    }

    /// The token that begins a text, when the file names one.
    pub fn bos(&self) -> Option<u32> {
        self.bos
    }

    /// The token that ends a text, when the file names one.
    pub fn eos(&self) -> Option<u32> {
        self.eos
    }

    /// The token that fills a batch, when the file names one.
    pub fn pad(&self) -> Option<u32> {
        self.pad
    }

    /// Whether the file wants a BOS before a text.
    pub fn add_bos(&self) -> bool {
        self.add_bos
    }

    /// Whether the file wants an EOS after a text.
    pub fn add_eos(&self) -> bool {
        self.add_eos
    }

    /// Whether a token is structure, without text of its own. False outside the vocabulary.
    pub fn is_control(&self, id: u32) -> bool {
        self.vocab.kind(id).is_control()
    }

    /// Whether a token ends an answer: EOS, end of turn, end of message.
    pub fn is_eog(&self, id: u32) -> bool {
        self.vocab.is_end(id)
    }

    /// The tokens that end an answer, ascending.
    pub fn eog(&self) -> &[u32] {
        self.vocab.ends_of_generation()
    }

    /// The bytes of a token, a control token's name included; none outside the vocabulary. They
    /// may be part of a character.
    pub fn piece(&self, id: u32) -> &[u8] {
        self.vocab.piece(id)
    }

    /// The control tokens' texts.
    pub fn control_texts(&self) -> impl Iterator<Item = &str> {
        self.vocab.specials().iter().filter(|s| s.control).map(|s| s.text.as_str())
    }

    /// The tokens of a text, without BOS and EOS.
    pub fn encode(&self, text: &str, special: Special) -> Vec<u32> {
        let mut ids = Vec::with_capacity(text.len() / 3 + 2);
        self.encode_into(text, special, &mut ids);
        ids
    }

    /// The tokens of a text, with BOS and EOS as the file wants them.
    pub fn encode_document(&self, text: &str, special: Special) -> Vec<u32> {
        let mut ids = Vec::with_capacity(text.len() / 3 + 4);
        ids.extend(self.bos.filter(|_| self.add_bos));
        self.encode_segment(text, special, true, &mut ids);
        ids.extend(self.eos.filter(|_| self.add_eos));
        ids
    }

    /// Like [`encode_document`](Self::encode_document) for bytes that may not be UTF-8: each
    /// ill-formed sequence is read as one U+FFFD, as browsers and Python do.
    pub fn encode_bytes(&self, bytes: &[u8], special: Special) -> Vec<u32> {
        self.encode_document(&String::from_utf8_lossy(bytes), special)
    }

    /// Appends the tokens of a text, the first of a document where there are no ids yet. White space at
    /// its start is left out where the last id is a token that takes what is behind it.
    pub fn encode_into(&self, text: &str, special: Special, ids: &mut Vec<u32>) {
        let takes = ids.last().is_some_and(|&id| {
            let mut taking = self.vocab.specials().iter().filter(|s| s.rule.right);
            taking.any(|s| s.id == id)
        });
        let text = if takes { &text[blank_len(text)..] } else { text };
        self.encode_segment(text, special, ids.is_empty(), ids);
    }

    /// `first`: the text begins a document.
    fn encode_segment(&self, text: &str, special: Special, first: bool, ids: &mut Vec<u32>) {
        let control = special == Special::Parse;
        let mut scratch = Scratch::default();
        let (mut start, mut at) = (0, 0);
        while at < text.len() {
            let Some(found) = self.vocab.specials().at(text, at, control) else {
                at += 1;
                continue;
            };
            // A special token is valid UTF-8, so it begins and ends where a character does.
            let mut plain = &text[start..at];
            if found.rule.left {
                plain = plain.trim_end_matches(is_white_space);
            }
            self.encode_plain(plain, first && start == 0, &mut scratch, ids);
            ids.push(found.id);
            at += found.text.len();
            if found.rule.right {
                at += blank_len(&text[at..]);
            }
            start = at;
        }
        self.encode_plain(&text[start..], first && start == 0, &mut scratch, ids);
    }

    /// Text between special tokens.
    fn encode_plain(&self, text: &str, first: bool, scratch: &mut Scratch, ids: &mut Vec<u32>) {
        let text = if self.nfc { nfc(text) } else { Cow::Borrowed(text) };
        let vocab = &self.vocab;
        match &self.model {
            Model::Bytes { pretokenizer, ignore_merges, merges } => {
                let text = leading_blank(text, self.leading, first);
                pretokenizer.split(&text, &mut |word| {
                    if *ignore_merges && let Some(id) = vocab.id(word.as_bytes()) {
                        return ids.push(id);
                    }
                    for word in word.as_bytes().chunks(WORD_MAX) {
                        merges.encode(word, self.unk, scratch, ids);
                    }
                });
            }
            Model::Characters { normalizer, pretokenizer, pairs } => {
                let text = normalizer.apply(&text, first);
                let mut output = Output::new(vocab, self.unk, ids);
                vocab.inside().cut(&text, &mut |cut| match cut {
                    Cut::Token(id) => output.put(Some(id), &[]),
                    Cut::Text(text) => pretokenizer.split(text, &mut |word| {
                        for word in parts(word) {
                            let put = &mut |id, text: &[u8]| output.put(id, text);
                            pairs.encode(word, vocab, scratch, put);
                        }
                    }),
                });
            }
            Model::Unigram { normalizer, unigram } => {
                let text = normalizer.apply(&text, first);
                vocab.inside().cut(&text, &mut |cut| match cut {
                    Cut::Token(id) => ids.push(id),
                    Cut::Text(mut rest) => {
                        while let Some(c) = rest.chars().next() {
                            let n = c.len_utf8();
                            let end = rest[n..].find(' ').map_or(rest.len(), |at| at + n);
                            let mut output = Output::new(vocab, self.unk, ids);
                            for word in parts(&rest[..end]) {
                                unigram.encode(word, vocab, &mut |id, text| output.put(id, text));
                            }
                            rest = &rest[end..];
                        }
                    }
                });
            }
        }
    }

    /// The bytes of some tokens; control tokens are left out when `skip_control`. Where a tokenizer puts
    /// a blank before text, the one at the start of the bytes is left out.
    pub fn decode_bytes(&self, ids: &[u32], skip_control: bool) -> Vec<u8> {
        let mut bytes = Vec::new();
        for &id in ids {
            if !(skip_control && self.is_control(id)) {
                bytes.extend_from_slice(self.piece(id));
            }
        }
        if self.drops_blank() && bytes.first() == Some(&b' ') {
            bytes.remove(0);
        }
        bytes
    }

    /// Whether a blank at the start of a text is the tokenizer's and not the text's.
    pub(super) fn drops_blank(&self) -> bool {
        self.leading != LeadingBlank::Never && !matches!(self.model, Model::Bytes { .. })
    }

    /// The text of some tokens, each ill-formed sequence as one U+FFFD.
    pub fn decode(&self, ids: &[u32], skip_control: bool) -> String {
        String::from_utf8_lossy(&self.decode_bytes(ids, skip_control)).into_owned()
    }

    /// The text of a token that the file names, such as BOS; empty when it names none.
    #[cfg(feature = "jinja")]
    pub(super) fn text_of(&self, id: Option<u32>) -> String {
        id.map_or_else(String::new, |id| String::from_utf8_lossy(self.piece(id)).into_owned())
    }
}

/// A word as it is, or in parts that are not too long.
fn parts(mut word: &str) -> impl Iterator<Item = &str> {
    core::iter::from_fn(move || {
        let part = &word[..word.floor_char_boundary(WORD_MAX)];
        word = &word[part.len()..];
        (!part.is_empty()).then_some(part)
    })
}

/// Kinds of tokenizers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    Bytes,
    /// Characters, merged by a list.
    Merges,
    /// Characters, merged by scores.
    Scores,
    Unigram,
}

impl Family {
    fn of(data: &VocabData) -> Result<Self> {
        let model = data.model.as_str();
        match (model, data.pre.as_str()) {
            // What llama.cpp calls byte-level, and merges characters of nevertheless.
            ("gpt2", "gemma4" | "granite-embed-multi-311m" | "sarvam-moe") | ("gemma4", _) => {
                return Ok(Self::Merges);
            }
            ("gpt2", _) => return Ok(Self::Bytes),
            ("llama", _) => return Ok(Self::Scores),
            ("t5", _) => return Ok(Self::Unigram),
            _ => {}
        }
        let name = if model == "bert" { " (WordPiece)" } else { "" };
        let what = format!("tokenizer model `{model}`{name} is not supported");
        Err(Error::new(Code::Unsupported, what)
            .at("tokenizer.ggml.model")
            .hint("for language models RLX reads `gpt2`, `llama`, `gemma4` and `t5`"))
    }

    /// Special tokens that a file of this kind need not name.
    fn fill_in(self, data: &mut VocabData) {
        let (bos, eos, unk) = match self {
            Self::Scores => (Some(1), 2, 0),
            Self::Unigram => (None, 1, 2),
            Self::Bytes | Self::Merges => return,
        };
        let there = |id: &u32| (*id as usize) < data.tokens.len();
        data.bos = data.bos.or(bos.filter(there));
        data.eos = data.eos.or(Some(eos).filter(there));
        data.unk = data.unk.or(Some(unk).filter(there));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec;

    /// The 256 bytes, then `aa`, `aaaa`, `lo`, `<think>` (user-defined), `<|im_end|>` (control).
    fn data() -> VocabData {
        let alphabet = (0..0x180)
            .filter_map(char::from_u32)
            .filter(|&c| super::super::vocab::byte_of(c).is_some());
        let mut tokens: Vec<String> = alphabet.map(|c| c.to_string()).collect();
        tokens.extend(["aa", "aaaa", "lo", "<think>", "<|im_end|>"].map(String::from));
        let mut token_types = vec![1; 259];
        token_types.extend([4, 3]);
        VocabData {
            model: "gpt2".into(),
            pre: "llama-bpe".into(),
            tokens,
            token_types: Some(token_types),
            merges: ["a a", "aa aa", "l o"].map(String::from).into(),
            eos: Some(260),
            ..VocabData::default()
        }
    }

    fn error(change: impl FnOnce(&mut VocabData)) -> Error {
        let mut data = data();
        change(&mut data);
        Tokenizer::new(data).unwrap_err()
    }

    #[test]
    fn faults_of_the_file_are_named() {
        assert_eq!(error(|d| d.tokens.clear()).what, "missing tokenizer");
        let e = error(|d| d.merges[0] = "a_a".into());
        assert_eq!(
            (e.code, e.what.as_str()),
            (Code::BadFile, "first merge is not two pieces: `a_a`")
        );
        assert_eq!(
            error(|d| d.merges[2] = "l o x".into()).what,
            "merge 2 is not two pieces: `l o x`"
        );
        let e = error(|d| d.eos = Some(261));
        assert_eq!(e.what, "tokenizer.ggml.eos_token_id 261 is outside the 261 tokens");
        let e = error(|d| d.model = "bert".into());
        assert_eq!(e.what, "tokenizer model `bert` (WordPiece) is not supported");
        assert_eq!(e.code, Code::Unsupported);
        let e = error(|d| d.token_types = Some(vec![1]));
        assert_eq!(e.what, "1 token types for 261 tokens");
        assert_eq!(error(|d| d.pre = "x".into()).code, Code::Unsupported);
    }

    #[test]
    fn control_text_is_structure_only_when_parsed() {
        let t = Tokenizer::new(data()).unwrap();
        assert_eq!(t.encode("<|im_end|><think>", Special::Parse), [260, 259]);
        let literal = t.encode("<|im_end|><think>", Special::Literal);
        assert_eq!((literal.len(), literal.last()), (11, Some(&259)));
        assert_eq!(t.decode(&literal, true), "<|im_end|><think>");
        assert_eq!(t.decode(&[260, 258, 999], true), "lo");
        assert!(t.is_eog(260) && t.is_control(260) && !t.is_control(259) && !t.is_eog(0));
    }

    #[test]
    fn whether_a_text_begins_with_a_bos_is_the_files_word_or_its_pre_tokenizers() {
        let begins = |pre: &str, add_bos: Option<bool>| {
            let data = VocabData { pre: pre.into(), bos: Some(260), add_bos, ..data() };
            let ids = Tokenizer::new(data).unwrap().encode_document("lo", Special::Parse);
            ids.first() == Some(&260)
        };
        for (pre, without_a_word) in
            [("llama-bpe", true), ("gpt-2", false), ("gemma4", true), ("sarvam-moe", false)]
        {
            assert_eq!(begins(pre, None), without_a_word, "{pre}");
            assert!(begins(pre, Some(true)) && !begins(pre, Some(false)), "{pre}");
        }
    }

    #[test]
    fn the_first_pair_of_the_lowest_rank_merges_first() {
        let t = Tokenizer::new(data()).unwrap();
        let a = t.encode("a", Special::Parse)[0];
        assert_eq!(t.encode("aaaaaaa", Special::Parse), [257, 256, a]);
    }

    #[test]
    fn a_word_of_100_000_letters_merges_in_one_pass() {
        let t = Tokenizer::new(data()).unwrap();
        let ids = t.encode(&"a".repeat(100_000), Special::Parse);
        assert_eq!(ids, vec![257; 25_000]);
    }

    #[test]
    fn without_types_the_named_tokens_are_control() {
        let mut data = data();
        data.token_types = None;
        let t = Tokenizer::new(data).unwrap();
        assert_eq!(t.encode("<|im_end|>", Special::Parse), [260]);
        assert_ne!(t.encode("<think>", Special::Parse), [259]);
    }
}
