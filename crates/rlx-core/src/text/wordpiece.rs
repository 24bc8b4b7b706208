//! WordPiece, the tokenizer of BERT (arXiv:1810.04805; Schuster and Nakajima 2012): text is cleaned and
//! cut into words, and a word into the longest pieces that the vocabulary has, from its beginning on.
//!
//! ```text
//! text ─ special tokens cut out ─▶ no controls, no accents, lower case ─▶ words ─▶ pieces ─▶ ids
//! ```
//!
//! Words end at white space; punctuation and Chinese characters are words by themselves. A word that no
//! pieces spell, or of more than 100 characters, is the unknown token. Work grows with the text alone: a
//! word's pieces are found within those characters, and nothing is kept of what is too long.

use super::Special;
use super::unicode::{Class, class, decompose, is_control, is_spacing_mark, is_white_space};
use crate::error::{Code, Error, Result};
use crate::order;
use crate::safetensors::json::Json;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

/// Characters of a word that is looked up.
const WORD_MAX: usize = 100;
/// What begins a piece that continues a word, in `vocab.txt` and `tokenizer.json`.
const CONTINUES: &str = "##";
/// What begins a piece that begins a word, in GGUF files.
const BEGINS: char = '\u{2581}';
/// Names of the special tokens where a file does not say which are.
const NAMES: [&str; 5] = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];

/// What a file says about a WordPiece tokenizer, as plain values.
#[derive(Clone, Debug, PartialEq)]
pub struct WordPieceData {
    /// Tokens that begin a word, by id; `None` for what is no such token.
    pub words: Vec<Option<String>>,
    /// Tokens that continue one, without what marks them so.
    pub continuations: Vec<Option<String>>,
    /// Special tokens with their ids.
    pub specials: Vec<(String, u32)>,
    /// Stands for what cannot be spelled.
    pub unk: u32,
    /// Begins a text.
    pub cls: Option<u32>,
    /// Ends a text.
    pub sep: Option<u32>,
    /// Fills a batch.
    pub pad: Option<u32>,
    /// Whether control characters go, and every blank is a space.
    pub clean: bool,
    /// Whether Chinese characters are words by themselves.
    pub chinese: bool,
    /// Whether accents go.
    pub strip_accents: bool,
    /// Whether letters become lower case.
    pub lowercase: bool,
}

/// A WordPiece tokenizer.
#[derive(Clone, Debug)]
pub struct WordPiece {
    /// Pieces that begin a word and those that continue one, sorted by bytes.
    pieces: [Vec<(String, u32)>; 2],
    /// Bytes of the longest of both.
    longest: [usize; 2],
    /// Sorted by text, and the distinct lengths of all, the longest first.
    specials: Vec<(String, u32)>,
    special_lengths: Vec<usize>,
    size: usize,
    data: Rules,
}

/// What of the data is no list.
#[derive(Clone, Copy, Debug)]
struct Rules {
    unk: u32,
    cls: Option<u32>,
    sep: Option<u32>,
    pad: Option<u32>,
    clean: bool,
    chinese: bool,
    strip_accents: bool,
    lowercase: bool,
}

fn bad(what: impl Into<String>, at: &str) -> Error {
    Error::bad_file(what).at(at)
}

fn unsupported(what: String, at: &str, hint: &str) -> Error {
    Error::new(Code::Unsupported, what).at(at).hint(hint)
}

/// The id of a token of that name.
fn find(specials: &[(String, u32)], name: &str) -> Option<u32> {
    specials.iter().find(|s| s.0 == name).map(|s| s.1)
}

impl WordPieceData {
    /// Sorts a vocabulary whose continuations begin with `##`; lower case, without accents.
    fn marked(tokens: Vec<String>, specials: Vec<(String, u32)>, at: &str) -> Result<Self> {
        let Some(unk) = find(&specials, "[UNK]") else {
            return Err(bad("the vocabulary has no token [UNK]", at));
        };
        let mut data = WordPieceData {
            words: vec![None; tokens.len()],
            continuations: vec![None; tokens.len()],
            unk,
            cls: find(&specials, "[CLS]"),
            sep: find(&specials, "[SEP]"),
            pad: find(&specials, "[PAD]"),
            specials,
            clean: true,
            chinese: true,
            strip_accents: true,
            lowercase: true,
        };
        let special = |id: usize| data.specials.iter().any(|s| s.1 as usize == id);
        let special: Vec<bool> = match data.specials.len() <= 64 {
            true => (0..tokens.len()).map(special).collect(),
            false => {
                let mut is = vec![false; tokens.len()];
                let ids = data.specials.iter().map(|s| s.1 as usize);
                ids.for_each(|id| {
                    if let Some(is) = is.get_mut(id) {
                        *is = true
                    }
                });
                is
            }
        };
        for (id, token) in tokens.into_iter().enumerate() {
            match token.strip_prefix(CONTINUES) {
                _ if special[id] => {}
                Some(rest) if !rest.is_empty() => data.continuations[id] = Some(rest.into()),
                _ => data.words[id] = Some(token),
            }
        }
        Ok(data)
    }

    /// Reads a `vocab.txt`: one token a line, of BERT's uncased kind.
    ///
    /// # Errors
    /// `BadFile` without the token `[UNK]`.
    pub fn from_vocab_txt(text: &str) -> Result<Self> {
        let tokens: Vec<String> = text.lines().map(ToString::to_string).collect();
        let specials = tokens.iter().enumerate();
        let specials = specials.filter(|(_, t)| NAMES.contains(&t.as_str()));
        let specials = specials.map(|(id, t)| (t.clone(), id as u32)).collect();
        Self::marked(tokens, specials, "vocab.txt")
    }

    /// Reads a `tokenizer.json` of a WordPiece model. Its padding and truncation are not looked at:
    /// who encodes says how long a text may be.
    ///
    /// # Errors
    /// `BadFile` for what is missing or mistyped; `Unsupported` for parts of other kinds.
    pub fn from_tokenizer_json(json: &Json) -> Result<Self> {
        const AT: &str = "tokenizer.json";
        let kind = |part: Option<&Json>| -> Option<String> {
            part.and_then(|p| p.get("type")).and_then(Json::as_str).map(ToString::to_string)
        };
        let expect = |name: &str, known: &str| -> Result<()> {
            match kind(json.get(name)) {
                Some(k) if k == known => Ok(()),
                other => {
                    let other = other.unwrap_or_else(|| "none".into());
                    let what = format!("a {name} of type {other} is not supported");
                    Err(unsupported(what, AT, &format!("supported: {known}")))
                }
            }
        };
        let model = json.get("model").ok_or_else(|| bad("model is missing", AT))?;
        expect("model", "WordPiece")?;
        expect("normalizer", "BertNormalizer")?;
        expect("pre_tokenizer", "BertPreTokenizer")?;
        let text = |key: &str| model.get(key).and_then(Json::as_str);
        if text("continuing_subword_prefix").is_some_and(|p| p != CONTINUES) {
            let what = "pieces that continue a word are not marked by ##".to_string();
            return Err(unsupported(what, AT, "supported: ##"));
        }
        let most = model.get("max_input_chars_per_word").and_then(Json::as_u64);
        if most.is_some_and(|n| n != WORD_MAX as u64) {
            let what = format!("words of other than {WORD_MAX} characters are not supported");
            return Err(unsupported(what, AT, "supported: max_input_chars_per_word of 100"));
        }
        let vocab = model.get("vocab").and_then(Json::as_object);
        let vocab = vocab.ok_or_else(|| bad("model.vocab is no object", AT))?;
        let added = json.get("added_tokens").and_then(Json::as_array).unwrap_or(&[]);
        let id = |value: Option<&Json>| -> Result<u32> {
            // No id is beyond the tokens there are, so none makes a list longer than the file.
            let most = (vocab.len() + added.len()) as u64;
            let n = value.and_then(Json::as_u64).filter(|&n| n < most);
            n.map(|n| n as u32).ok_or_else(|| bad("a token's id is outside the vocabulary", AT))
        };
        let mut tokens = vec![String::new(); vocab.len() + added.len()];
        for (token, value) in vocab {
            tokens[id(Some(value))? as usize].clone_from(token);
        }
        let mut specials = Vec::new();
        for token in added {
            let content = token.get("content").and_then(Json::as_str);
            let content = content.ok_or_else(|| bad("an added token has no content", AT))?;
            let id = id(token.get("id"))?;
            tokens[id as usize] = content.into();
            specials.push((content.to_string(), id));
        }
        // The last ids that no token has.
        let used = tokens.iter().rposition(|t| !t.is_empty()).map_or(0, |last| last + 1);
        tokens.truncate(used);
        let unk = text("unk_token").unwrap_or("[UNK]");
        if find(&specials, unk).is_none()
            && let Some(at) = tokens.iter().position(|t| t == unk)
        {
            specials.push((unk.into(), at as u32));
        }
        let mut data = match unk {
            "[UNK]" => Self::marked(tokens, specials, AT)?,
            other => {
                let what = format!("the unknown token {other} is not supported");
                return Err(unsupported(what, AT, "supported: [UNK]"));
            }
        };
        let normalizer = json.get("normalizer");
        let flag = |key: &str| normalizer.and_then(|n| n.get(key)).and_then(Json::as_bool);
        data.clean = flag("clean_text").unwrap_or(true);
        data.chinese = flag("handle_chinese_chars").unwrap_or(true);
        data.lowercase = flag("lowercase").unwrap_or(true);
        // Where nothing is said accents go as capitals do.
        data.strip_accents = flag("strip_accents").unwrap_or(data.lowercase);
        (data.cls, data.sep) = ends(json.get("post_processor"), &data.specials)?;
        Ok(data)
    }

    /// Sorts the tokens of a GGUF file, where U+2581 marks what begins a word.
    ///
    /// # Errors
    /// `BadFile` for another number of kinds than of tokens, and without an unknown token.
    pub fn from_gguf(
        tokens: &[&str],
        kinds: Option<&[i32]>,
        unk: Option<u32>,
        lowercase: bool,
    ) -> Result<Self> {
        const AT: &str = "tokenizer.ggml.tokens";
        let n = tokens.len();
        if let Some(kinds) = kinds.filter(|k| k.len() != n) {
            let what = format!("{} token types for {n} tokens", kinds.len());
            return Err(bad(what, "tokenizer.ggml.token_type"));
        }
        let mut data = WordPieceData {
            words: vec![None; n],
            continuations: vec![None; n],
            specials: Vec::new(),
            unk: 0,
            cls: None,
            sep: None,
            pad: None,
            clean: true,
            chinese: true,
            strip_accents: lowercase,
            lowercase,
        };
        for (id, &token) in tokens.iter().enumerate() {
            let special = match kinds {
                // Unknown, control, user-defined.
                Some(kinds) => matches!(kinds[id], 2..=4),
                None => NAMES.contains(&token),
            };
            match token.strip_prefix(BEGINS) {
                _ if special => data.specials.push((token.into(), id as u32)),
                Some(word) => data.words[id] = Some(word.into()),
                None => data.continuations[id] = Some(token.into()),
            }
        }
        let unk = unk.or_else(|| find(&data.specials, "[UNK]"));
        data.unk = unk.ok_or_else(|| bad("the vocabulary has no unknown token", AT))?;
        (data.cls, data.sep) = (find(&data.specials, "[CLS]"), find(&data.specials, "[SEP]"));
        data.pad = find(&data.specials, "[PAD]");
        Ok(data)
    }
}

/// What a post-processor puts before and behind one text.
fn ends(part: Option<&Json>, specials: &[(String, u32)]) -> Result<(Option<u32>, Option<u32>)> {
    const AT: &str = "tokenizer.json";
    const HINT: &str = "supported: one token before a text and one behind it, or none";
    let Some(part) = part.filter(|p| **p != Json::Null) else { return Ok((None, None)) };
    let token = |name: Option<&str>| -> Result<Option<u32>> {
        let id = name.and_then(|name| find(specials, name));
        id.map(Some).ok_or_else(|| bad("the post-processor names no special token", AT))
    };
    match part.get("type").and_then(Json::as_str) {
        Some("TemplateProcessing") => {
            let single = part.get("single").and_then(Json::as_array).unwrap_or(&[]);
            let named = |p: &Json, kind: &str| -> Option<String> {
                p.get(kind)?.get("id")?.as_str().map(ToString::to_string)
            };
            let texts = single.iter().position(|p| named(p, "Sequence").is_some());
            let Some(at) = texts.filter(|&at| at < 2 && single.len() <= at + 2) else {
                return Err(unsupported("a template of another form".into(), AT, HINT));
            };
            let special = |p: &Json| token(named(p, "SpecialToken").as_deref());
            let before = single[..at].first().map(special).transpose()?.flatten();
            Ok((before, single[at + 1..].first().map(special).transpose()?.flatten()))
        }
        Some("BertProcessing") => {
            let named =
                |key: &str| -> Option<&str> { part.get(key)?.as_array()?.first()?.as_str() };
            Ok((token(named("cls"))?, token(named("sep"))?))
        }
        other => {
            let what = format!("a post-processor of type {} ", other.unwrap_or("none"));
            Err(unsupported(what + "is not supported", AT, HINT))
        }
    }
}

/// Whether a character is of a block of Chinese ideographs, each of which is a word.
fn is_chinese(c: char) -> bool {
    matches!(c as u32,
        0x4e00..=0x9fff | 0x3400..=0x4dbf | 0xf900..=0xfaff | 0x20000..=0x2a6df
        | 0x2a700..=0x2b73f | 0x2b740..=0x2b81f | 0x2b820..=0x2ceaf | 0x2f800..=0x2fa1f)
}

fn is_punctuation(c: char) -> bool {
    c.is_ascii_punctuation() || class(c) == Class::Punctuation
}

/// The word that is being read.
#[derive(Default)]
struct Word {
    text: String,
    chars: usize,
}

impl WordPiece {
    /// Builds the tables.
    ///
    /// # Errors
    /// `BadFile` for ids outside the vocabulary, and for a vocabulary without words.
    pub fn new(data: WordPieceData) -> Result<Self> {
        let size = data.words.len().max(data.continuations.len());
        let named = [Some(data.unk), data.cls, data.sep, data.pad].into_iter().flatten();
        let mut ids = named.chain(data.specials.iter().map(|s| s.1));
        if let Some(id) = ids.find(|&id| id as usize >= size) {
            return Err(Error::bad_file(format!("token {id} is outside the {size} tokens")));
        }
        let sorted = |list: Vec<Option<String>>| {
            let ids = list.into_iter().zip(0u32..);
            let mut list: Vec<(String, u32)> = ids.filter_map(|(t, id)| Some((t?, id))).collect();
            list.retain(|t| !t.0.is_empty());
            // Of two equal tokens the later one holds, as in every reader of a vocabulary.
            order::sort_by(&mut list, |a, b| (&a.0, b.1).cmp(&(&b.0, a.1)));
            list.dedup_by(|a, b| a.0 == b.0);
            list
        };
        let pieces = [sorted(data.words), sorted(data.continuations)];
        let longest =
            [0, 1].map(|i| pieces[i].iter().map(|t: &(String, u32)| t.0.len()).max().unwrap_or(0));
        let mut specials = data.specials;
        specials.retain(|s| !s.0.is_empty());
        order::sort(&mut specials);
        let mut special_lengths: Vec<usize> = specials.iter().map(|s| s.0.len()).collect();
        order::sort_by(&mut special_lengths, |a, b| b.cmp(a));
        special_lengths.dedup();
        Ok(WordPiece {
            pieces,
            longest,
            specials,
            special_lengths,
            size,
            data: Rules {
                unk: data.unk,
                cls: data.cls,
                sep: data.sep,
                pad: data.pad,
                clean: data.clean,
                chinese: data.chinese,
                strip_accents: data.strip_accents,
                lowercase: data.lowercase,
            },
        })
    }

    /// The number of tokens.
    pub fn vocab_size(&self) -> usize {
        self.size
    }

    /// The token that begins a text.
    pub fn cls(&self) -> Option<u32> {
        self.data.cls
    }

    /// The token that ends a text.
    pub fn sep(&self) -> Option<u32> {
        self.data.sep
    }

    /// The token that fills a batch.
    pub fn pad(&self) -> Option<u32> {
        self.data.pad
    }

    /// The token of what cannot be spelled.
    pub fn unk(&self) -> u32 {
        self.data.unk
    }

    /// The tokens of a text, without those that begin and end it.
    pub fn encode(&self, text: &str, special: Special) -> Vec<u32> {
        let mut ids = Vec::with_capacity(text.len() / 4 + 2);
        self.encode_into(text, special, usize::MAX, &mut ids);
        ids
    }

    /// The tokens of a text with those that begin and end it, `[CLS] … [SEP]`, at most `limit` of all:
    /// what is longer is cut off at its end, and not read further than that.
    pub fn encode_document(&self, text: &str, special: Special, limit: usize) -> Vec<u32> {
        let ends = usize::from(self.data.cls.is_some()) + usize::from(self.data.sep.is_some());
        let mut ids = Vec::with_capacity((text.len() / 4 + 4).min(limit));
        ids.extend(self.data.cls);
        let inner = limit.saturating_sub(ends) + ids.len();
        self.encode_into(text, special, inner, &mut ids);
        ids.truncate(inner);
        ids.extend(self.data.sep);
        ids
    }

    /// Appends tokens until there are `limit` or somewhat more.
    fn encode_into(&self, text: &str, special: Special, limit: usize, ids: &mut Vec<u32>) {
        let mut word = Word::default();
        let mut at = 0;
        while let Some(c) = text.get(at..).and_then(|rest| rest.chars().next()) {
            if ids.len() >= limit {
                return;
            }
            let found = match special {
                Special::Parse => self.special_at(&text[at..]),
                Special::Literal => None,
            };
            match found {
                Some((id, bytes)) => {
                    self.flush(&mut word, ids);
                    ids.push(id);
                    at += bytes;
                }
                None => {
                    self.character(c, &mut word, ids);
                    at += c.len_utf8();
                }
            }
        }
        self.flush(&mut word, ids);
    }

    /// The longest special token at the start of a text, and its bytes.
    fn special_at(&self, text: &str) -> Option<(u32, usize)> {
        self.special_lengths.iter().find_map(|&n| {
            let start = text.get(..n)?;
            let at = self.specials.binary_search_by(|s| s.0.as_str().cmp(start)).ok()?;
            Some((self.specials[at].1, n))
        })
    }

    /// Takes a character of the text as it came.
    fn character(&self, c: char, word: &mut Word, ids: &mut Vec<u32>) {
        let rules = &self.data;
        let blank = matches!(c, '\t' | '\n' | '\r');
        if rules.clean && !blank && (c == '\u{fffd}' || is_control(c)) {
            return;
        }
        let alone = rules.chinese && is_chinese(c);
        if alone {
            self.flush(word, ids);
        }
        if rules.strip_accents {
            let mut parts = Vec::new();
            decompose(c as u32, &mut parts);
            for c in parts.into_iter().filter_map(|(_, c)| char::from_u32(c)) {
                if class(c) != Class::Mark || is_spacing_mark(c) {
                    self.lowered(c, word, ids);
                }
            }
        } else {
            self.lowered(c, word, ids);
        }
        if alone {
            self.flush(word, ids);
        }
    }

    /// Takes a character without its accents.
    fn lowered(&self, c: char, word: &mut Word, ids: &mut Vec<u32>) {
        if self.data.lowercase {
            c.to_lowercase().for_each(|c| self.plain(c, word, ids));
        } else {
            self.plain(c, word, ids);
        }
    }

    /// Takes a character that goes into a word, is one, or ends one.
    fn plain(&self, c: char, word: &mut Word, ids: &mut Vec<u32>) {
        if is_white_space(c) {
            return self.flush(word, ids);
        }
        let alone = is_punctuation(c);
        if alone {
            self.flush(word, ids);
        }
        word.chars += 1;
        if word.chars <= WORD_MAX {
            word.text.push(c);
        }
        if alone {
            self.flush(word, ids);
        }
    }

    /// Ends the word: appends its pieces.
    fn flush(&self, word: &mut Word, ids: &mut Vec<u32>) {
        let before = ids.len();
        if word.chars > WORD_MAX {
            ids.push(self.data.unk);
        } else {
            let mut rest = word.text.as_str();
            while !rest.is_empty() {
                let Some((id, bytes)) = self.longest(rest, ids.len() > before) else {
                    ids.truncate(before);
                    ids.push(self.data.unk);
                    break;
                };
                ids.push(id);
                rest = &rest[bytes..];
            }
        }
        word.text.clear();
        word.chars = 0;
    }

    /// The longest piece at the start of a word's rest, and its bytes.
    fn longest(&self, rest: &str, continues: bool) -> Option<(u32, usize)> {
        let pieces = &self.pieces[usize::from(continues)];
        let mut end = rest.len().min(self.longest[usize::from(continues)]);
        while end > 0 {
            if let Some(start) = rest.get(..end)
                && let Ok(at) = pieces.binary_search_by(|p| p.0.as_str().cmp(start))
            {
                return Some((pieces[at].1, end));
            }
            end -= 1;
        }
        None
    }
}
