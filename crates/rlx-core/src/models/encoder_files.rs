//! What an encoder's files say beside its tensors: the small files of a transformers folder, and what a
//! caller chooses instead.

use super::checkpoint::Checkpoint;
use super::model::Facts;
use super::pooling::{Pooling, PoolingKind};
use crate::error::{Code, Error, Result};
use crate::safetensors::json::Json;
use crate::target::Activations;
use crate::text::{WordPiece, WordPieceData};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// Choices that a caller has and a file has not.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EmbedOptions {
    /// What makes one vector of a text; `None`: what the files say, else the mean.
    pub pooling: Option<PoolingKind>,
    /// Whether vectors are divided by their lengths; `None`: what the files say, else yes.
    pub normalise: Option<bool>,
    /// Tokens of a text at most; `None`: what the files say.
    pub max_tokens: Option<u64>,
    /// Activation type of products with packed weights; `None`: f32.
    pub activations: Option<Activations>,
}

impl EmbedOptions {
    /// The checkpoint with what makes one vector of a text; `own` is what a folder's files say of it.
    pub fn pooled<'a>(&self, checkpoint: Checkpoint<'a>, own: Option<Pooling>) -> Checkpoint<'a> {
        let base = own.or_else(|| checkpoint.pooling()).unwrap_or(Pooling::MEAN);
        let said = own.map(|p| p.normalise);
        checkpoint.with_pooling(Pooling {
            kind: self.pooling.unwrap_or(base.kind),
            normalise: self.normalise.or(said).unwrap_or(true),
        })
    }

    /// Tokens of a text at most; `own` is what a folder's files say of it.
    ///
    /// # Errors
    /// `Usage` for more tokens than the model takes, or too few for the ends of a text.
    pub fn limit(&self, own: Option<u64>, facts: &Facts) -> Result<u64> {
        match self.max_tokens {
            Some(n) if n < 2 || n > facts.context => {
                let what = format!("{n} tokens of a text: this model takes 2 to {}", facts.context);
                Err(Error::usage(what))
            }
            Some(n) => Ok(n),
            None => Ok(own.unwrap_or(facts.context).min(facts.context)),
        }
    }
}

/// The small files of a transformers folder, as far as they were given.
#[derive(Clone, Debug, Default)]
pub struct FolderTexts {
    config: Option<Json>,
    pooling: Option<Json>,
    modules: Option<Json>,
    sentence: Option<Json>,
    /// Files that others read: their names, what errors call them, and what they have.
    files: Vec<(&'static str, String, Vec<u8>)>,
}

const TOKENIZER: &str = "tokenizer.json";
const VOCABULARY: &str = "vocab.txt";

/// Names of the files that are kept as they come, for others to read: of a tokenizer the model says which kind it is.
/// What has sounds or images prepared reads the two behind it, and what makes text of a sound the others.
const KEPT: [&str; 8] = [
    TOKENIZER,
    VOCABULARY,
    "preprocessor_config.json",
    "processor_config.json",
    "vocab.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
];

impl FolderTexts {
    /// Takes one of the folder's files by its name there; `at` is what errors call it. A tokenizer is
    /// `tokenizer.json` or `vocab.txt`; of `tokenizer` its first character says which.
    ///
    /// # Errors
    /// `BadFile` for a configuration that is no JSON; `Usage` for a name that no such file has.
    pub fn put(&mut self, name: &str, at: &str, bytes: &[u8]) -> Result<()> {
        let json = || Json::parse(bytes, at, 0);
        match name {
            "config.json" => self.config = Some(json()?),
            "1_Pooling/config.json" => self.pooling = Some(json()?),
            "modules.json" => self.modules = Some(json()?),
            "sentence_bert_config.json" => self.sentence = Some(json()?),
            "tokenizer" if bytes.trim_ascii_start().starts_with(b"{") => {
                return self.put(TOKENIZER, at, bytes);
            }
            "tokenizer" => return self.put(VOCABULARY, at, bytes),
            other => {
                let Some(name) = KEPT.into_iter().find(|&name| name == other) else {
                    return Err(Error::usage(format!("{other} is no file of a model's folder")));
                };
                self.files.retain(|file| file.0 != name);
                self.files.push((name, at.to_string(), bytes.to_vec()));
            }
        }
        Ok(())
    }

    /// The file that says how images or sounds are prepared, where there is one, behind its name in errors. The
    /// processor reads it.
    pub fn preprocessor(&self) -> Option<(&str, &[u8])> {
        self.file("preprocessor_config.json")
    }

    /// One of the files that are kept as they came, behind its name in errors.
    pub fn file(&self, name: &str) -> Option<(&str, &[u8])> {
        let file = self.files.iter().find(|file| file.0 == name);
        file.map(|(_, at, bytes)| (at.as_str(), bytes.as_slice()))
    }

    /// The configuration.
    pub fn config(&self) -> Option<&Json> {
        self.config.as_ref()
    }

    /// How it says that rows are pooled, where it is a sentence-transformers folder.
    ///
    /// # Errors
    /// As [`Pooling::from_sentence_transformers`].
    pub fn pooling(&self) -> Result<Option<Pooling>> {
        let (Some(pooling), Some(modules)) = (&self.pooling, &self.modules) else {
            return Ok(None);
        };
        Pooling::from_sentence_transformers(pooling, modules).map(Some)
    }

    /// Tokens of a text at most, where it says so.
    pub fn max_tokens(&self) -> Option<u64> {
        self.sentence.as_ref()?.get("max_seq_length")?.as_u64()
    }

    /// The tokenizer: of `tokenizer.json`, else of `vocab.txt`.
    ///
    /// # Errors
    /// `Io` where it has none; `BadFile` for what is in it; as [`WordPiece::new`].
    pub fn tokenizer(&self) -> Result<WordPiece> {
        let (at, data) = if let Some((at, bytes)) = self.file(TOKENIZER) {
            (at, WordPieceData::from_tokenizer_json(&Json::parse(bytes, at, 0)?))
        } else if let Some((at, bytes)) = self.file(VOCABULARY) {
            let text = core::str::from_utf8(bytes);
            let text = text.map_err(|_| Error::bad_file("the file is no text").at(at))?;
            (at, WordPieceData::from_vocab_txt(text))
        } else {
            let what = "the folder has neither tokenizer.json nor vocab.txt";
            return Err(Error::new(Code::Io, what));
        };
        WordPiece::new(data.map_err(|e| named(e, at))?)
    }
}

/// The error with the file where it was found.
fn named(e: Error, file: &str) -> Error {
    let at: String = if e.at.is_empty() { file.to_string() } else { format!("{file}: {}", e.at) };
    e.at(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_taken_by_name_and_hostile_ones_are_errors() {
        let mut folder = FolderTexts::default();
        assert_eq!(folder.tokenizer().unwrap_err().code, Code::Io);
        folder.put("config.json", "m/config.json", br#"{"model_type": "bert"}"#).unwrap();
        assert!(folder.config().is_some());
        folder.put("tokenizer", "v", b"[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n").unwrap();
        assert_eq!(folder.tokenizer().unwrap().vocab_size(), 5);
        folder.put("sentence_bert_config.json", "s", br#"{"max_seq_length": 9}"#).unwrap();
        assert_eq!(folder.max_tokens(), Some(9));
        folder.put("preprocessor_config.json", "p", b"{}").unwrap();
        folder.put("preprocessor_config.json", "q", b"{1}").unwrap();
        assert_eq!(folder.preprocessor(), Some(("q", &b"{1}"[..])));
        assert_eq!(folder.file("vocab.json"), None);
        for (name, bytes) in [
            ("config.json", &b"{"[..]),
            ("tokenizer", b"{}"),
            ("vocab.txt", b"\xff"),
            ("modules.json", b"\xff\xfe"),
        ] {
            let mut folder = FolderTexts::default();
            let put = folder.put(name, "here", bytes);
            let e = put.and_then(|()| folder.tokenizer().map(|_| ())).unwrap_err();
            assert_eq!(e.code, Code::BadFile, "{name}: {e}");
            assert!(e.at.starts_with("here"), "{name}: {e}");
        }
        assert_eq!(folder.put("../x", "x", b"").unwrap_err().code, Code::Usage);
    }

    #[test]
    fn what_a_caller_chooses_is_taken_before_what_files_say() {
        let facts = Facts {
            family: "bert",
            task: super::super::Task::Embed,
            layers: 1,
            context: 64,
            vocab: 9,
            width: 4,
        };
        let options = EmbedOptions::default();
        assert_eq!(options.limit(None, &facts).unwrap(), 64);
        assert_eq!(options.limit(Some(100), &facts).unwrap(), 64);
        assert_eq!(options.limit(Some(16), &facts).unwrap(), 16);
        let asks = |n| EmbedOptions { max_tokens: Some(n), ..options }.limit(Some(16), &facts);
        assert_eq!(asks(32).unwrap(), 32);
        assert_eq!(asks(1).unwrap_err().code, Code::Usage);
        assert_eq!(asks(65).unwrap_err().code, Code::Usage);
    }
}
