//! The tokenizer: text to ids and ids to text.

use super::bpe::{Merges, Scratch};
use super::pretokenize::Pretokenizer;
use super::unicode::nfc;
use super::vocab::{Vocab, VocabData};
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

/// A byte-level BPE tokenizer.
#[derive(Clone, Debug)]
pub struct Tokenizer {
    vocab: Vocab,
    merges: Merges,
    pretokenizer: Pretokenizer,
    bos: Option<u32>,
    eos: Option<u32>,
    unk: Option<u32>,
    pad: Option<u32>,
    add_bos: bool,
    add_eos: bool,
}

impl Tokenizer {
    /// Builds the tables; about 75 ms for 128 k tokens and 280 k merges (one x86-64
    /// core, release, 2026-11-21).
    ///
    /// # Errors
    /// [`Code::BadFile`] for no tokens, ids outside the vocabulary, merges that are not two
    /// pieces; [`Code::Unsupported`] for a kind of tokenizer or pre-tokenizer that RLX lacks.
    pub fn new(data: VocabData) -> Result<Self> {
        let vocab = Vocab::new(&data)?;
        check_model(&data.model)?;
        let pretokenizer = Pretokenizer::named(&data.pre)?;
        let merges = Merges::new(&data.merges, &vocab)?;
        Ok(Self {
            vocab,
            merges,
            pretokenizer,
            bos: data.bos,
            eos: data.eos,
            unk: data.unk,
            pad: data.pad,
            add_bos: data.bos.is_some() && data.add_bos.unwrap_or(pretokenizer.add_bos),
            add_eos: data.eos.is_some() && data.add_eos.unwrap_or(false),
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
        let control = self.vocab.specials().iter().filter(|&&id| self.is_control(id));
        control.filter_map(|&id| core::str::from_utf8(self.vocab.piece(id)).ok())
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
        self.encode_into(text, special, &mut ids);
        ids.extend(self.eos.filter(|_| self.add_eos));
        ids
    }

    /// Like [`encode_document`](Self::encode_document) for bytes that may not be UTF-8: each
    /// ill-formed sequence is read as one U+FFFD, as browsers and Python do.
    pub fn encode_bytes(&self, bytes: &[u8], special: Special) -> Vec<u32> {
        self.encode_document(&String::from_utf8_lossy(bytes), special)
    }

    /// Appends the tokens of a text.
    pub fn encode_into(&self, text: &str, special: Special, ids: &mut Vec<u32>) {
        let control = special == Special::Parse;
        let mut scratch = Scratch::default();
        let (mut start, mut at) = (0, 0);
        let bytes = text.as_bytes();
        while at < bytes.len() {
            match self.vocab.special_at(&bytes[at..], control) {
                Some(id) => {
                    self.encode_plain(&text[start..at], &mut scratch, ids);
                    ids.push(id);
                    // A special token is valid UTF-8, so it ends where a character does.
                    at += self.vocab.piece(id).len();
                    start = at;
                }
                None => at += 1,
            }
        }
        self.encode_plain(&text[start..], &mut scratch, ids);
    }

    /// Text between special tokens.
    fn encode_plain(&self, text: &str, scratch: &mut Scratch, ids: &mut Vec<u32>) {
        let text = if self.pretokenizer.nfc { nfc(text) } else { Cow::Borrowed(text) };
        self.pretokenizer.split(&text, &mut |word| {
            let word = word.as_bytes();
            if self.pretokenizer.ignore_merges
                && let Some(id) = self.vocab.id(word)
            {
                ids.push(id);
            } else {
                self.merges.encode(word, self.unk, scratch, ids);
            }
        });
    }

    /// The bytes of some tokens; control tokens are left out when `skip_control`.
    pub fn decode_bytes(&self, ids: &[u32], skip_control: bool) -> Vec<u8> {
        let mut bytes = Vec::new();
        for &id in ids {
            if !(skip_control && self.is_control(id)) {
                bytes.extend_from_slice(self.piece(id));
            }
        }
        bytes
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

fn check_model(model: &str) -> Result<()> {
    let family = match model {
        "gpt2" => return Ok(()),
        "llama" => " (SentencePiece)",
        "bert" => " (WordPiece)",
        "t5" => " (Unigram)",
        _ => "",
    };
    let what = format!("tokenizer model `{model}`{family} is not supported yet");
    Err(Error::new(Code::Unsupported, what)
        .at("tokenizer.ggml.model")
        .hint("RLX reads `gpt2`, byte-level BPE"))
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
        let e = error(|d| d.model = "llama".into());
        assert_eq!(e.what, "tokenizer model `llama` (SentencePiece) is not supported yet");
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
