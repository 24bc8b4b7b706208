//! A model's files as a family reads them: configuration and tensors, in either form.

use super::keys::Keys;
use super::microscaled;
use super::naming::Naming;
use super::pooling::Pooling;
use crate::error::{Error, Result};
use crate::gguf::ModelFiles;
use crate::plan::{Located, Piece};
use crate::safetensors;
use crate::safetensors::json::Json;
use crate::types::DType;
use alloc::boxed::Box;

/// The name of a transformers configuration in errors.
pub(super) const CONFIG: &str = "config.json";

/// A model's files: headers and configuration, no tensor byte.
#[derive(Clone, Copy)]
pub struct Checkpoint<'a> {
    pub(super) source: Source<'a>,
    /// What makes one vector of a text, whatever the files say.
    pub(super) pooling: Option<Pooling>,
}

#[derive(Clone, Copy)]
pub(super) enum Source<'a> {
    /// A GGUF file or its shards.
    Gguf(&'a ModelFiles),
    /// A transformers folder: `config.json` and the headers of its safetensors files.
    Transformers { config: &'a Json, headers: &'a [safetensors::Header] },
}

impl<'a> Checkpoint<'a> {
    /// A GGUF file or its shards.
    pub fn gguf(files: &'a ModelFiles) -> Self {
        Checkpoint { source: Source::Gguf(files), pooling: None }
    }

    /// A transformers folder: its `config.json` and the header of its `model.safetensors`.
    pub fn transformers(config: &'a Json, header: &'a safetensors::Header) -> Self {
        Self::transformers_shards(config, core::slice::from_ref(header))
    }

    /// The same of several files of weights, which no tensor is in twice.
    pub fn transformers_shards(config: &'a Json, headers: &'a [safetensors::Header]) -> Self {
        Checkpoint { source: Source::Transformers { config, headers }, pooling: None }
    }

    /// The same with what makes one vector of a text, whatever the files say.
    #[must_use]
    pub fn with_pooling(self, pooling: Pooling) -> Self {
        Checkpoint { pooling: Some(pooling), ..self }
    }

    /// What makes one vector of a text, where it was said or the file says it.
    pub fn pooling(&self) -> Option<Pooling> {
        self.pooling.or_else(|| match self.source {
            Source::Gguf(_) => self.keys().and_then(|keys| Pooling::from_gguf(&keys)).ok(),
            Source::Transformers { .. } => None,
        })
    }

    /// What kind of model it says it is: `general.architecture`, or `model_type`, or in a configuration of
    /// diffusers, which has none, `_class_name`.
    ///
    /// # Errors
    /// `BadFile` where it does not say.
    pub fn architecture(&self) -> Result<&'a str> {
        match self.source {
            Source::Gguf(files) => files.metadata.str("general.architecture"),
            Source::Transformers { config, .. } => {
                let word = config.get("model_type").or_else(|| config.get("_class_name"));
                word.and_then(Json::as_str)
                    .ok_or_else(|| Error::bad_file("model_type is missing").at(CONFIG))
            }
        }
    }

    /// The keys of its configuration.
    ///
    /// # Errors
    /// As [`architecture`](Self::architecture), and for a configuration that is no object.
    pub fn keys(&self) -> Result<Keys<'a>> {
        match self.source {
            Source::Gguf(files) => Ok(Keys::gguf(&files.metadata, self.architecture()?)),
            Source::Transformers { config, .. } => Keys::json(config, CONFIG),
        }
    }

    /// How these files name tensors.
    pub fn naming(&self) -> Naming {
        match self.source {
            Source::Gguf(_) => Naming::Gguf,
            Source::Transformers { .. } => Naming::Transformers,
        }
    }

    /// A tensor's element type and sizes, outermost first.
    pub fn tensor(&self, name: &str) -> Option<(DType, &'a [u64])> {
        match self.source {
            Source::Gguf(files) => {
                files.tensors.get(name).map(|(_, t)| (t.dtype, t.dims.as_slice()))
            }
            Source::Transformers { headers, .. } => {
                let found = headers.iter().find_map(|h| h.tensors.get(name));
                found.map(|t| (t.dtype, t.shape.as_slice()))
            }
        }
    }

    /// Names of all tensors.
    pub fn names(&self) -> impl Iterator<Item = &'a str> {
        let names: Box<dyn Iterator<Item = &'a str> + 'a> = match self.source {
            Source::Gguf(files) => Box::new(files.tensors.keys().map(|n| n.as_str())),
            Source::Transformers { headers, .. } => {
                Box::new(headers.iter().flat_map(|h| h.tensors.keys()).map(|n| n.as_str()))
            }
        };
        names
    }

    /// Where the bytes of a tensor are.
    pub fn locate(&self, name: &str) -> Option<Located> {
        let piece = |shard, offset, bytes| Piece { shard, offset, bytes };
        let headers = match self.source {
            Source::Gguf(files) => {
                let (shard, t) = files.tensors.get(name)?;
                return Some(Located::File(piece(*shard as u32, t.offset, t.bytes)));
            }
            Source::Transformers { headers, .. } => headers,
        };
        let find = |name: &str| {
            let mut all = (0..).zip(headers);
            all.find_map(|(shard, h)| h.tensors.get(name).map(|t| piece(shard, t.offset, t.bytes)))
        };
        let packed = || microscaled::packing(self, name, find).map(Located::Packed);
        find(name).map(Located::File).or_else(packed)
    }
}
