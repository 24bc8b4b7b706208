//! From a token of each frame to text and words: connectionist temporal classification (Graves et al. 2006),
//! the likeliest token of each frame taken.
//!
//! Frames beside each other that have the same token are one token. One token, the *blank*, is then left
//! out: it says that nothing is said, and keeps two equal letters apart. Another stands between words.

use super::text_stream::{Style, TextStream};
use crate::error::{Error, Result};
use crate::models::Keys;
use crate::safetensors::json::Json;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::mem::take;

/// A word, and the frames in which it is said: from its first letter's first to behind its last letter's last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// The word as the tokens have it.
    pub text: String,
    /// Its first frame.
    pub start: u64,
    /// The frame behind its last one.
    pub end: u64,
}

/// The texts of a folder's small files that say what tokens mean. Only `vocab.json` must be there.
#[derive(Clone, Copy, Default)]
pub struct VocabularyFiles<'a> {
    /// `vocab.json`: ids of tokens.
    pub vocab: &'a [u8],
    /// `tokenizer_config.json`.
    pub config: Option<&'a [u8]>,
    /// `special_tokens_map.json`: names of special tokens that `tokenizer_config.json` leaves out.
    pub special: Option<&'a [u8]>,
    /// `added_tokens.json`: tokens with ids that `vocab.json` does not have.
    pub added: Option<&'a [u8]>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Blank,
    /// What stands between words.
    Between,
    Text(String),
}

/// What the tokens of a model that hears mean: those of transformers' `Wav2Vec2CTCTokenizer`.
#[derive(Clone, Debug)]
pub struct CtcVocabulary {
    /// Of each id the number of its token: ids that have one name are one token.
    numbers: Vec<u32>,
    tokens: Vec<Token>,
    style: Style,
}

const VOCAB: &str = "vocab.json";
const CONFIG: &str = "tokenizer_config.json";
const SPECIAL: &str = "special_tokens_map.json";
const ADDED: &str = "added_tokens.json";
const DELIMITER: &str = "word_delimiter_token";
/// What a word is followed by in a text.
const SPACE: &str = " ";

/// Keys that concern how text becomes ids, or programs in Python.
const INERT: &[&str] = &[
    "additional_special_tokens",
    "auto_map",
    "backend",
    "bos_token",
    "cls_token",
    "do_normalize",
    "eos_token",
    "extra_special_tokens",
    "is_local",
    "local_files_only",
    "mask_token",
    "model_input_names",
    "model_max_length",
    "model_specific_special_tokens",
    "name_or_path",
    "padding_side",
    "processor_class",
    "return_attention_mask",
    "sep_token",
    "special_tokens_map_file",
    "split_special_tokens",
    "tokenizer_file",
    "truncation_side",
];

impl CtcVocabulary {
    /// Reads the files of a folder, for a model with `vocab` ids: 0 to `vocab - 1`.
    ///
    /// # Errors
    /// `BadFile` for what is no JSON of the right form, and where no id of the model is the blank; `Unsupported`
    /// for other tokenizers, vocabularies of several languages, and keys that this version does not know.
    pub fn read(files: &VocabularyFiles<'_>, vocab: u64) -> Result<Self> {
        let parse = |text: Option<&[u8]>, name: &str| match text {
            Some(text) => Json::parse(text, name, 0),
            None => Ok(Json::Object(Vec::new())),
        };
        let config = parse(files.config, CONFIG)?;
        let (special, added) = (parse(files.special, SPECIAL)?, parse(files.added, ADDED)?);
        let own = Json::parse(files.vocab, VOCAB, 0)?;
        let keys = Keys::json(&config, CONFIG)?;
        keys.inert(INERT);
        const CLASS: &str = "tokenizer_class";
        let usual = |class: &str| matches!(class, "Wav2Vec2CTCTokenizer" | "Wav2Vec2Tokenizer");
        if let Some(other) = keys.opt_str(CLASS)?.filter(|class| !usual(class)) {
            let what = format!("{CLASS} `{other}` is not supported");
            return Err(keys.unsupported(CLASS, what, "supported: Wav2Vec2CTCTokenizer"));
        }
        const LANGUAGE: &str = "target_lang";
        if keys.has(LANGUAGE) {
            let what = format!("{LANGUAGE} is set: vocabularies of languages are not supported");
            return Err(keys.unsupported(LANGUAGE, what, "use a model of one language"));
        }
        const REPLACED: &str = "replace_word_delimiter_char";
        if let Some(other) = keys.opt_str(REPLACED)?.filter(|&c| c != SPACE) {
            let what = format!("{REPLACED} `{other}` is not supported");
            return Err(keys.unsupported(REPLACED, what, "supported: a space"));
        }
        let flag = |name: &str| Ok::<bool, Error>(keys.opt_bool(name)?.unwrap_or(false));
        let style = Style {
            lower_case: flag("do_lower_case")?,
            clean: flag("clean_up_tokenization_spaces")?,
        };
        let name = |key: &str, usual: &str| -> Result<String> {
            // Asked for, whichever of the two files has it.
            keys.inert(&[key]);
            let at = |json: &Json, file: &str| match json.get(key) {
                None | Some(Json::Null) => Ok(None),
                Some(value) => content(value)
                    .map(|text| Some(text.to_string()))
                    .ok_or_else(|| Error::bad_file(format!("{key} is no token")).at(file)),
            };
            let found = at(&config, CONFIG)?.or(at(&special, SPECIAL)?);
            Ok(found.unwrap_or_else(|| usual.into()))
        };
        let (blank, unknown) = (name("pad_token", "<pad>")?, name("unk_token", "<unk>")?);
        // Null says that no token stands between words, which is not the same as to say nothing.
        let between = match config.get(DELIMITER) {
            Some(Json::Null) => None,
            _ => Some(name(DELIMITER, "|")?),
        };
        let mut names = BTreeMap::new();
        const DECODER: &str = "added_tokens_decoder";
        keys.inert(&[DECODER]);
        added_tokens(config.get(DECODER), &mut names)?;
        ids(&added, ADDED, &mut names)?;
        ids(&own, VOCAB, &mut names)?;
        keys.finish()?;
        let mut out = CtcVocabulary { numbers: Vec::new(), tokens: Vec::new(), style };
        let mut known: BTreeMap<&str, usize> = BTreeMap::new();
        for id in 0..vocab {
            let name = names.get(&id).copied().unwrap_or(&unknown);
            let number = *known.entry(name).or_insert_with(|| {
                out.tokens.push(match name {
                    _ if name == blank => Token::Blank,
                    _ if between.as_deref() == Some(name) => Token::Between,
                    _ => Token::Text(name.into()),
                });
                out.tokens.len() - 1
            });
            out.numbers.push(number as u32);
        }
        if !out.tokens.contains(&Token::Blank) {
            let what = format!("no id below {vocab} is `{blank}`, which stands for no letter");
            return Err(Error::bad_file(what)
                .at(VOCAB)
                .hint("use the files that belong to one model"));
        }
        Ok(out)
    }
}

/// The name of a token that a file has as a string, or as an object with other facts of it.
fn content(value: &Json) -> Option<&str> {
    value.as_str().or_else(|| value.get("content")?.as_str())
}

/// Adds the names of a file of names and their ids. The last name of an id counts.
fn ids<'a>(json: &'a Json, file: &str, names: &mut BTreeMap<u64, &'a str>) -> Result<()> {
    let wrong = |what: String| Error::bad_file(what).at(file);
    let members = json.as_object().ok_or_else(|| wrong("this is no object of ids".into()))?;
    for (name, id) in members {
        if id.as_object().is_some() {
            let mut e = wrong(format!("`{name}` is a vocabulary of its own, for one language"));
            e.code = crate::error::Code::Unsupported;
            return Err(e.hint("use a model of one language"));
        }
        let id = id.as_u64().ok_or_else(|| wrong(format!("the id of `{name}` is no id")))?;
        names.insert(id, name);
    }
    Ok(())
}

/// Adds the names in `added_tokens_decoder`, an object of tokens by their ids.
fn added_tokens<'a>(json: Option<&'a Json>, names: &mut BTreeMap<u64, &'a str>) -> Result<()> {
    let wrong = || Error::bad_file("added_tokens_decoder is no object of tokens").at(CONFIG);
    let members = match json {
        None | Some(Json::Null) => return Ok(()),
        Some(json) => json.as_object().ok_or_else(wrong)?,
    };
    for (id, token) in members {
        let id = id.parse().map_err(|_| wrong())?;
        names.insert(id, content(token).ok_or_else(wrong)?);
    }
    Ok(())
}

/// Tokens that last, one after the other.
struct Lasting {
    token: u32,
    start: u64,
}

/// Text and words of frames that come piece by piece: the same as if all had come at once.
#[derive(Default)]
pub struct CtcDecoding {
    /// Frames that came.
    frames: u64,
    last: Option<Lasting>,
    text: TextStream,
    /// The word that is being said.
    word: Option<Word>,
    words: Vec<Word>,
}

impl CtcDecoding {
    /// Takes the likeliest ids of the next frames. Those that the vocabulary does not have are left out.
    pub fn push(&mut self, vocabulary: &CtcVocabulary, ids: &[u32]) {
        for &id in ids {
            let token = vocabulary.numbers.get(id as usize).copied();
            if let Some(token) = token
                && self.last.as_ref().is_none_or(|last| last.token != token)
            {
                self.said(vocabulary);
                self.last = Some(Lasting { token, start: self.frames });
            }
            self.frames += 1;
        }
        self.text.settle(vocabulary.style);
    }

    /// The sound ends: all of its text and words are known.
    pub fn finish(&mut self, vocabulary: &CtcVocabulary) {
        self.said(vocabulary);
        self.words.extend(self.word.take());
        self.text.finish(vocabulary.style);
    }

    /// A token ends before the frame that comes.
    fn said(&mut self, vocabulary: &CtcVocabulary) {
        let Some(Lasting { token, start }) = self.last.take() else { return };
        let text = match vocabulary.tokens.get(token as usize) {
            None | Some(Token::Blank) => return,
            Some(Token::Between) => SPACE,
            Some(Token::Text(text)) => text,
        };
        self.text.push(text);
        if text == SPACE {
            self.words.extend(self.word.take());
            return;
        }
        let new = Word { text: String::new(), start, end: start };
        let word = self.word.get_or_insert(new);
        word.text.push_str(text);
        word.end = self.frames;
    }

    /// Frames that came.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// What became known of the text since the last call. All of these, one behind the other, are the text.
    pub fn take_text(&mut self) -> String {
        self.text.take()
    }

    /// The words that ended since the last call.
    pub fn take_words(&mut self) -> Vec<Word> {
        take(&mut self.words)
    }
}
