//! The small files of a pipeline's folder: which models it has, and how its text is read.

use crate::error::{Code, Error, Result};
use crate::models::{TOKENIZER_FILES, TokenizerFiles};
use crate::safetensors::json::Json;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

pub(super) const INDEX: &str = "model_index.json";
pub(super) const SCHEDULER: &str = "scheduler/scheduler_config.json";
const TOKENIZER: &str = "tokenizer/";

/// A model of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// It makes rows of a prompt.
    TextEncoder,
    /// It makes latents of noise and rows, step by step.
    Transformer,
    /// It makes a picture of latents.
    Decoder,
}

impl Part {
    /// All of them, in the order in which a picture needs them.
    pub const ALL: [Part; 3] = [Part::TextEncoder, Part::Transformer, Part::Decoder];

    /// The name of its folder in the pipeline's.
    pub fn folder(self) -> &'static str {
        match self {
            Part::TextEncoder => "text_encoder",
            Part::Transformer => "transformer",
            Part::Decoder => "vae",
        }
    }

    /// The part of that folder.
    pub fn of_folder(folder: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|part| part.folder() == folder)
    }

    pub(super) fn config(self) -> &'static str {
        match self {
            Part::TextEncoder => "text_encoder/config.json",
            Part::Transformer => "transformer/config.json",
            Part::Decoder => "vae/config.json",
        }
    }
}

/// What the small files of a pipeline's folder say, as far as they were given.
#[derive(Debug, Default)]
pub struct PipelineFiles {
    /// Files of JSON: their names, what errors call them, and what they say.
    json: Vec<(&'static str, String, Json)>,
    pub(super) tokenizer: TokenizerFiles,
    /// What errors call `tokenizer_config.json`.
    pub(super) tokenizer_config: String,
}

impl PipelineFiles {
    /// The names in the folder of every file that [`put`](Self::put) takes.
    pub fn names() -> impl Iterator<Item = String> {
        let tokenizer = TOKENIZER_FILES.into_iter().map(|name| format!("{TOKENIZER}{name}"));
        Self::needed().map(String::from).chain(tokenizer)
    }

    /// The names of those that no pipeline lacks. Of the tokenizer's files it has some.
    fn needed() -> impl Iterator<Item = &'static str> {
        [INDEX, SCHEDULER].into_iter().chain(Part::ALL.map(Part::config))
    }

    /// Takes one of the folder's files by its name there; `at` is what errors call it.
    ///
    /// # Errors
    /// `BadFile` for what is no JSON; as [`TokenizerFiles::put`]; `Usage` for a name that no such file has.
    pub fn put(&mut self, name: &str, at: &str, bytes: &[u8]) -> Result<()> {
        if let Some(name) = name.strip_prefix(TOKENIZER) {
            if name == "tokenizer_config.json" {
                self.tokenizer_config = at.into();
            }
            return self.tokenizer.put(name, at, bytes);
        }
        let Some(name) = Self::needed().find(|&needed| needed == name) else {
            return Err(Error::usage(format!("{name} is no file of a pipeline's folder")));
        };
        let json = Json::parse(bytes, at, 0)?;
        self.json.retain(|file| file.0 != name);
        self.json.push((name, at.into(), json));
        Ok(())
    }

    /// Takes out what a file says, behind what errors call it.
    pub(super) fn take(&mut self, name: &str) -> Result<(String, Json)> {
        match self.json.iter().position(|file| file.0 == name) {
            Some(i) => {
                let (_, at, json) = self.json.swap_remove(i);
                Ok((at, json))
            }
            None => Err(Error::new(Code::Io, format!("the folder has no {name}"))
                .hint("give the folder of a pipeline, such as FLUX.2 klein's")),
        }
    }
}
