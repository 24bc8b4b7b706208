//! The tokenizer of a file or a folder, of whichever kind it is.

use crate::files::{ModelSource, map, small_file};
use rlx_core::models::{self, FolderTexts, TOKENIZER_FILES, TokenizerFiles};
use rlx_core::safetensors::json::Json;
use rlx_core::text::{Special, Tokenizer, WordPiece};
use rlx_core::{Code, Error, Result};
use std::path::Path;

/// A tokenizer of a language model, or of an encoder.
pub enum AnyTokenizer {
    /// Byte-level BPE, SentencePiece's BPE, Unigram.
    Text(Box<Tokenizer>),
    /// WordPiece.
    WordPiece(Box<WordPiece>),
}

impl AnyTokenizer {
    /// Opens a GGUF file, which may have no tensors; a transformers folder; or its `tokenizer.json` or
    /// `tokenizer.model` alone.
    ///
    /// # Errors
    /// `Io` for what cannot be read or is not there; as the readers for what is in it.
    pub fn open(path: &Path) -> Result<Self> {
        if path.is_dir() {
            return Self::folder(path);
        }
        let bytes = map(path)?;
        let bytes: &[u8] = (*bytes).as_ref();
        if bytes.starts_with(b"GGUF") {
            let source = ModelSource::open(path)?;
            let model = source.files.metadata.opt_str("tokenizer.ggml.model")?;
            return if model == Some("bert") {
                models::wordpiece(&source.files).map(|t| Self::WordPiece(Box::new(t)))
            } else {
                models::tokenizer(&source.files).map(|t| Self::Text(Box::new(t)))
            };
        }
        let at = path.display().to_string();
        if bytes.trim_ascii_start().starts_with(b"{") {
            return Self::json(bytes, &at, TokenizerFiles::default());
        }
        if path.extension().is_none_or(|e| e != "model") {
            return Err(Error::bad_file("this is no tokenizer").at(at).hint(
                "give a .gguf file, a tokenizer.json or tokenizer.model, or the folder they are in",
            ));
        }
        let mut files = TokenizerFiles::default();
        files.put("tokenizer.model", &at, bytes)?;
        files.tokenizer().map(|t| Self::Text(Box::new(t)))
    }

    fn folder(path: &Path) -> Result<Self> {
        let mut files = TokenizerFiles::default();
        let mut json = None;
        let mut found = false;
        for name in TOKENIZER_FILES {
            let file = path.join(name);
            let Some(bytes) = small_file(&file)? else { continue };
            found |= matches!(name, "tokenizer.json" | "tokenizer.model");
            if name == "tokenizer.json" {
                json = Some((bytes, file.display().to_string()));
            } else {
                files.put(name, &file.display().to_string(), (*bytes).as_ref())?;
            }
        }
        if let Some((bytes, at)) = json {
            return Self::json((*bytes).as_ref(), &at, files);
        }
        if found {
            return files.tokenizer().map(|t| Self::Text(Box::new(t)));
        }
        let vocab = path.join("vocab.txt");
        let Some(bytes) = small_file(&vocab)? else {
            let what = "the folder has no tokenizer.json, tokenizer.model or vocab.txt";
            return Err(Error::new(Code::Io, what).at(path.display().to_string()));
        };
        let mut texts = FolderTexts::default();
        texts.put("vocab.txt", &vocab.display().to_string(), (*bytes).as_ref())?;
        texts.tokenizer().map(|t| Self::WordPiece(Box::new(t)))
    }

    /// Of a `tokenizer.json`; `files` has what stands beside it.
    fn json(bytes: &[u8], at: &str, mut files: TokenizerFiles) -> Result<Self> {
        let json = Json::parse(bytes, at, 0)?;
        let kind = json.get("model").and_then(|model| model.get("type"));
        if kind.and_then(Json::as_str) == Some("WordPiece") {
            let mut texts = FolderTexts::default();
            texts.put("tokenizer.json", at, bytes)?;
            return texts.tokenizer().map(|t| Self::WordPiece(Box::new(t)));
        }
        files.put("tokenizer.json", at, bytes)?;
        files.tokenizer().map(|t| Self::Text(Box::new(t)))
    }

    /// The tokens of a text. With `special`, control tokens that it spells are recognised, and the tokens
    /// that begin and end a text are added as the file wants it. Each ill-formed sequence of UTF-8 is read
    /// as one U+FFFD.
    pub fn encode(&self, text: &[u8], special: bool) -> Vec<u32> {
        let text = String::from_utf8_lossy(text);
        match (self, special) {
            (Self::Text(t), true) => t.encode_document(&text, Special::Parse),
            (Self::Text(t), false) => t.encode(&text, Special::Literal),
            (Self::WordPiece(t), true) => t.encode_document(&text, Special::Parse, usize::MAX),
            (Self::WordPiece(t), false) => t.encode(&text, Special::Literal),
        }
    }

    /// The bytes of some tokens. Control tokens have none.
    ///
    /// # Errors
    /// `Usage` for an id outside the vocabulary, `Unsupported` for WordPiece.
    pub fn decode(&self, ids: &[u32]) -> Result<Vec<u8>> {
        let Self::Text(tokenizer) = self else {
            let what = "WordPiece keeps no blanks and accents, so its tokens give no text";
            return Err(Error::new(Code::Unsupported, what)
                .hint("decode with a tokenizer of a language model"));
        };
        let n = tokenizer.vocab_size();
        if let Some(id) = ids.iter().find(|&&id| id as usize >= n) {
            return Err(Error::usage(format!("token {id} is outside the {n} tokens")));
        }
        Ok(tokenizer.decode_bytes(ids, true))
    }
}
