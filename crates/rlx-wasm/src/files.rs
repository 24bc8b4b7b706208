//! A language model's files, as they arrive: headers of its weights, and the small files of a folder.

use crate::readers::{Readers, no_config};
use rlx_core::models::{Checkpoint, Language, TokenizerFiles};
use rlx_core::safetensors::json::Json;
use rlx_core::weights::WeightFiles;
use rlx_core::{Error, Result};

/// The files that a page has read so far.
#[derive(Default)]
pub(crate) struct Files {
    pub readers: Readers,
    /// What the readers have read, once it was asked for, and from how many files.
    weights: Option<Result<(WeightFiles, usize)>>,
    config: Option<Json>,
    texts: TokenizerFiles,
    /// What errors call the folder's first text, if there is one.
    first: Option<String>,
}

impl Files {
    /// Takes one of a folder's small files. Errors name it `at`.
    pub fn text(&mut self, name: &str, at: &str, bytes: &[u8]) -> Result<()> {
        self.first.get_or_insert_with(|| at.into());
        if name == "config.json" {
            self.config = Some(Json::parse(bytes, at, 0)?);
            return Ok(());
        }
        self.texts.put(name, at, bytes)
    }

    /// The headers of the weights' files, and how many files there are, once. Call it when all have arrived.
    pub fn take_weights(&mut self) -> Result<(WeightFiles, usize)> {
        self.weights.take().unwrap_or_else(|| {
            let readers = core::mem::take(&mut self.readers);
            let shards = readers.len();
            Ok((readers.files()?, shards))
        })
    }

    /// The checkpoint; nothing is taken. Call it when all headers have arrived.
    pub fn checkpoint(&mut self) -> Result<Checkpoint<'_>> {
        self.weights = Some(self.take_weights());
        match &self.weights {
            Some(Ok((weights, _))) => Ok(weights.checkpoint(self.config(weights)?)),
            Some(Err(e)) => Err(e.clone()),
            None => Err(Error::internal("the headers were taken")),
        }
    }

    /// What is known of the text that the model of these weights reads.
    pub fn language(&self, weights: &WeightFiles) -> Result<Language> {
        match weights {
            WeightFiles::Gguf(files) => Language::of_gguf(files),
            WeightFiles::Safetensors(_) => Language::of_folder(&self.texts),
        }
    }

    /// The configuration of the model of these weights; null of a GGUF file, which has its own.
    pub fn config(&self, weights: &WeightFiles) -> Result<&Json> {
        match (weights, &self.config, &self.first) {
            (WeightFiles::Gguf(_), _, Some(at)) => Err(Error::usage(
                "the files of a folder are given beside GGUF files",
            )
            .at(at)
            .hint(
                "give the GGUF files alone, which have all that these say; or safetensors files",
            )),
            (WeightFiles::Gguf(_), ..) => Ok(&Json::Null),
            (WeightFiles::Safetensors(_), config, _) => config.as_ref().ok_or_else(no_config),
        }
    }
}
