//! The tokenizer of CLIP (Radford et al. 2021, arXiv:2103.00020), by its `tokenizer.json`: words in lower case, without
//! the blanks between them, and byte-pair encoding in which a word's last character is another than the same within.
//!
//! ```text
//! text ─ NFC, lower case ─▶ words ─▶ characters that stand for bytes, the last with `</w>` ─▶ merges ─▶ ids
//! ```
//!
//! A special token's name in a text is text: what a user writes never begins or ends anything.

use super::unicode::{Class, class, is_white_space, nfc};
use crate::error::{Code, Error, Result};
use crate::safetensors::json::Json;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

/// What a word's last character has behind it.
const END: &str = "</w>";
/// Expressions of words, of files of several ages.
const WORDS: [&str; 2] = [
    r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+",
    r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+",
];
/// Endings that are words by themselves, the first that fits.
const SHORT: [&str; 7] = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d"];
/// Bytes of a text at most: no model reads as many tokens, and a word's merges are looked for again and again.
const BYTES_MOST: usize = 4096;

/// A tokenizer of CLIP.
#[derive(Clone, Debug)]
pub struct ClipTokenizer {
    vocab: BTreeMap<String, u32>,
    /// A pair of tokens: its rank, and what it becomes.
    merges: BTreeMap<(u32, u32), (u32, u32)>,
    unknown: u32,
    first: u32,
    last: u32,
}

fn bad(what: impl Into<String>) -> Error {
    Error::bad_file(what).hint("use the tokenizer.json that belongs to the model")
}

fn other(what: String) -> Error {
    let mut error = bad(what);
    error.code = Code::Unsupported;
    error
}

fn text<'a>(part: &'a Json, key: &str) -> &'a str {
    part.get(key).and_then(Json::as_str).unwrap_or_default()
}

/// The types of the members of a normalizer or a pre-tokenizer, and these.
fn parts<'a>(json: &'a Json, key: &str, list: &str) -> Vec<(&'a str, &'a Json)> {
    let Some(part) = json.get(key) else { return Vec::new() };
    let all = match part.get(list).and_then(Json::as_array) {
        Some(all) => all.iter().collect(),
        None => vec![part],
    };
    all.into_iter().map(|part| (text(part, "type"), part)).collect()
}

fn regex(part: &Json) -> &str {
    part.get("pattern").map_or("", |pattern| text(pattern, "Regex"))
}

impl ClipTokenizer {
    /// Reads a `tokenizer.json`; `file` is its name in errors.
    ///
    /// # Errors
    /// `BadFile` for what is no such file or contradicts itself, `Unsupported` for the tokenizer of another model.
    pub fn read(bytes: &[u8], file: &str) -> Result<Self> {
        Self::of(&Json::parse(bytes, file, 0)?).map_err(|e| match e.at.is_empty() {
            true => e.at(file),
            false => e,
        })
    }

    fn of(json: &Json) -> Result<Self> {
        let model = json.get("model").ok_or_else(|| bad("the model is missing"))?;
        let flag = |key: &str| model.get(key).and_then(Json::as_bool).unwrap_or(false);
        let plain = matches!(text(model, "type"), "" | "BPE")
            && text(model, "end_of_word_suffix") == END
            && text(model, "continuing_subword_prefix").is_empty()
            && !["fuse_unk", "byte_fallback", "ignore_merges"].into_iter().any(flag);
        if !plain {
            return Err(other(format!(
                "the model is no byte-pair encoding whose words end in {END}"
            )));
        }
        let normal: Vec<&str> = parts(json, "normalizer", "normalizers")
            .into_iter()
            .filter(|(kind, part)| {
                // Blanks become spaces, of which no word has any.
                let blanks = *kind == "Replace" && regex(part) == r"\s+";
                !(blanks && text(part, "content") == " ")
            })
            .map(|(kind, _)| kind)
            .collect();
        if normal != ["NFC", "Lowercase"] {
            return Err(other(format!("the normalizer is {}, not CLIP's", normal.join(", "))));
        }
        let split = parts(json, "pre_tokenizer", "pretokenizers");
        let words = match split.as_slice() {
            [("Split", words), ("ByteLevel", bytes)] => {
                WORDS.contains(&regex(words))
                    && text(words, "behavior") == "Removed"
                    && words.get("invert").and_then(Json::as_bool) == Some(true)
                    && bytes.get("add_prefix_space").and_then(Json::as_bool) == Some(false)
            }
            _ => false,
        };
        if !words {
            return Err(other("the pre-tokenizer is not CLIP's".into()));
        }
        let list = model.get("vocab").and_then(Json::as_object);
        let list = list.ok_or_else(|| bad("model.vocab is no object"))?;
        let mut vocab = BTreeMap::new();
        let mut ids = BTreeSet::new();
        for (token, id) in list {
            let id = id.as_u64().and_then(|id| u32::try_from(id).ok()).filter(|&id| ids.insert(id));
            let id = id.ok_or_else(|| bad(format!("the id of `{token}` is none, or another's")))?;
            vocab.insert(token.clone(), id);
        }
        let id = |token: &str, of: &str| {
            vocab.get(token).copied().ok_or_else(|| bad(format!("{of} `{token}` is no token")))
        };
        let unknown = id(text(model, "unk_token"), "unk_token")?;
        let [first, last] = ends(json)?;
        for (name, at) in [first, last] {
            if id(name, "post_processor's")? != at {
                return Err(bad(format!("`{name}` has two ids")));
            }
        }
        let list = model.get("merges").and_then(Json::as_array);
        let list = list.ok_or_else(|| bad("model.merges is no list"))?;
        let mut merges = BTreeMap::new();
        for (rank, merge) in list.iter().enumerate() {
            let pair = match merge.as_array() {
                Some([left, right]) => left.as_str().zip(right.as_str()),
                Some(_) => None,
                None => merge.as_str().and_then(|both| both.split_once(' ')),
            };
            let (left, right) = pair.ok_or_else(|| bad(format!("merge {rank} is no pair")))?;
            let whole = id(&format!("{left}{right}"), "a merge makes")?;
            let pair = (id(left, "a merge has")?, id(right, "a merge has")?);
            merges.entry(pair).or_insert((rank as u32, whole));
        }
        let (first, last) = (first.1, last.1);
        Ok(ClipTokenizer { vocab, merges, unknown, first, last })
    }

    /// The ids of a text, between the one that begins it and the one that ends it; `most` at most, of a vocabulary of
    /// `size`.
    ///
    /// # Errors
    /// `Usage` for a text of more tokens, or of more than 4,096 bytes; `BadFile` for an id that the model has not.
    pub fn encode(&self, text: &str, most: usize, size: u64) -> Result<Vec<u32>> {
        if text.len() > BYTES_MOST {
            let what = format!("a text of {} bytes is too long", text.len());
            return Err(Error::usage(what).hint("name a thing in a few words"));
        }
        let text: String = nfc(text).chars().flat_map(char::to_lowercase).collect();
        let mut ids = vec![self.first];
        let mut rest = text.as_str();
        while let Some(first) = rest.chars().next() {
            let end = match word(rest, first) {
                0 => first.len_utf8(),
                end => {
                    self.merge(&rest[..end], &mut ids);
                    end
                }
            };
            rest = &rest[end..];
        }
        ids.push(self.last);
        if ids.len() > most {
            let what = format!("the text has {} tokens, and the model reads {most}", ids.len());
            return Err(Error::usage(what).hint("name a thing in a few words"));
        }
        match ids.iter().find(|&&id| u64::from(id) >= size) {
            None => Ok(ids),
            Some(id) => Err(bad(format!("token {id} is none of the model's {size}"))),
        }
    }

    /// The tokens of a word: pairs become one in the order of their ranks, of equal ones the first.
    fn merge(&self, word: &str, out: &mut Vec<u32>) {
        let count = word.len();
        let id = |(at, byte): (usize, u8)| {
            let mut token = stands_for(byte).to_string();
            if at + 1 == count {
                token.push_str(END);
            }
            self.vocab.get(&token).copied().unwrap_or(self.unknown)
        };
        let mut ids: Vec<u32> = word.bytes().enumerate().map(id).collect();
        loop {
            let pairs = ids.windows(2).enumerate().filter_map(|(at, pair)| {
                let &(rank, whole) = self.merges.get(&(pair[0], pair[1]))?;
                Some((rank, at, whole))
            });
            let Some((_, at, whole)) = pairs.min() else { break };
            ids[at] = whole;
            ids.remove(at + 1);
        }
        out.extend(ids);
    }
}

/// The token that begins texts and the one that ends them, with their ids.
fn ends(json: &Json) -> Result<[(&str, u32); 2]> {
    let part = json.get("post_processor").filter(|part| text(part, "type") == "RobertaProcessing");
    let part = part.ok_or_else(|| other("the post-processor is not CLIP's".into()))?;
    let token = |key: &str| {
        let pair = part.get(key).and_then(Json::as_array);
        let pair = pair.and_then(|pair| match pair {
            [name, id] => Some((name.as_str()?, u32::try_from(id.as_u64()?).ok()?)),
            _ => None,
        });
        pair.ok_or_else(|| bad(format!("post_processor.{key} is no token with an id")))
    };
    Ok([token("cls")?, token("sep")?])
}

/// Bytes of the word that `rest` begins with; 0 where it begins with a blank.
fn word(rest: &str, first: char) -> usize {
    if let Some(short) = SHORT.iter().find(|short| rest.starts_with(**short)) {
        return short.len();
    }
    let run = |of: fn(char) -> bool| rest.find(|c: char| !of(c)).unwrap_or(rest.len());
    match class(first) {
        Class::Number => first.len_utf8(),
        Class::Letter => run(|c| class(c) == Class::Letter),
        _ => run(|c| !is_white_space(c) && !matches!(class(c), Class::Letter | Class::Number)),
    }
}

/// The character that stands for a byte in a vocabulary: itself where it can be seen, else one from U+0100 on.
fn stands_for(byte: u8) -> char {
    let seen = |b: u8| matches!(b, 33..=126 | 161..=172 | 174..=255);
    if seen(byte) {
        return char::from(byte);
    }
    let before = (0..byte).filter(|&b| !seen(b)).count() as u32;
    char::from_u32(0x100 + before).unwrap_or(char::REPLACEMENT_CHARACTER)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &[u8] = include_bytes!("../../../../tests/fixtures/sam3/tokenizer.json");

    /// Ids that Hugging Face's tokenizers 0.23 gives for the same file.
    #[test]
    fn texts_have_the_ids_of_the_published_library() {
        let tokenizer = ClipTokenizer::read(FILE, "tokenizer.json").unwrap();
        let cases: [(&str, &[u32]); 7] = [
            ("cat", &[1, 56, 2]),
            ("Red  DOG", &[1, 60, 58, 2]),
            ("a dog's tree", &[1, 29, 58, 2, 47, 22, 59, 33, 2]),
            ("we're 42!", &[1, 25, 33, 2, 20, 33, 2, 2, 2, 2]),
            ("", &[1, 2]),
            ("catatat dodog", &[1, 5, 3, 22, 3, 22, 55, 57, 58, 2]),
            ("r\u{e9}d x\tcat!!'s", &[1, 20, 2, 2, 32, 52, 56, 0, 0, 2, 47, 2]),
        ];
        for (text, ids) in cases {
            assert_eq!(tokenizer.encode(text, 32, 61).unwrap(), ids, "{text}");
        }
        // Composed first.
        let composed = tokenizer.encode("r\u{e9}d", 32, 61).unwrap();
        assert_eq!(tokenizer.encode("re\u{301}d", 32, 61).unwrap(), composed);
    }

    #[test]
    fn bytes_stand_for_themselves_or_for_what_can_be_seen() {
        assert_eq!([0x21, 0x7e, 0xa1, 0xff].map(stands_for), ['!', '~', '\u{a1}', '\u{ff}']);
        assert_eq!(
            [0, 0x20, 0x7f, 0xa0, 0xad].map(|b| stands_for(b) as u32),
            [0x100, 0x120, 0x121, 0x142, 0x143]
        );
    }

    #[test]
    fn texts_that_are_too_long_are_errors() {
        let tokenizer = ClipTokenizer::read(FILE, "tokenizer.json").unwrap();
        let e = tokenizer.encode("cat cat", 3, 61).unwrap_err();
        assert!(e.code == Code::Usage && e.to_string().contains("4 tokens"), "{e}");
        let e = tokenizer.encode(&"a".repeat(4097), 1 << 20, 61).unwrap_err();
        assert!(e.code == Code::Usage && e.to_string().contains("4097 bytes"), "{e}");
        let e = tokenizer.encode("dog", 32, 50).unwrap_err();
        assert!(e.code == Code::BadFile && e.to_string().contains("token 58"), "{e}");
        // As long as may be, in one word.
        assert!(tokenizer.encode(&"cat".repeat(1365), 1 << 20, 61).is_ok());
    }

    #[test]
    fn tokenizers_of_other_models_are_refused() {
        let file = core::str::from_utf8(FILE).unwrap();
        for (from, to, code, what) in [
            ("\"Lowercase\"", "\"NFKC\"", Code::Unsupported, "NFC, NFKC"),
            ("\"end_of_word_suffix\": \"</w>\"", "\"x\": 0", Code::Unsupported, "end in </w>"),
            ("\"fuse_unk\": false", "\"fuse_unk\": true", Code::Unsupported, "no byte-pair"),
            ("[\\\\p{N}]|", "[\\\\p{N}]+|", Code::Unsupported, "pre-tokenizer"),
            ("\"Removed\"", "\"Isolated\"", Code::Unsupported, "pre-tokenizer"),
            ("\"RobertaProcessing\"", "\"ByteLevel\"", Code::Unsupported, "post-processor"),
            ("\"unk_token\": \"<|endoftext|>\"", "\"unk_token\": \"?\"", Code::BadFile, "`?`"),
            ("\"<|startoftext|>\": 1", "\"<|startoftext|>\": 3", Code::BadFile, "another's"),
            ("\"<|startoftext|>\": 1", "\"<|startoftext|>\": 99", Code::BadFile, "two ids"),
            ("\"<|startoftext|>\": 1", "\"<|startoftext|>\": -1", Code::BadFile, "is none"),
            ("\"do\": 57", "\"od\": 57", Code::BadFile, "makes `do` is no token"),
            ("{", "[", Code::BadFile, ""),
        ] {
            assert!(file.contains(from), "{from}");
            let e = ClipTokenizer::read(file.replacen(from, to, 1).as_bytes(), "t.json");
            let e = e.unwrap_err();
            assert!(e.code == code && e.to_string().contains(what), "{to}: {e}");
        }
    }
}
