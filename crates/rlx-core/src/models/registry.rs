//! The families RLX knows: one row each.

use super::{LlamaConfig, Tensors};
use crate::error::{Code, Error, Result};
use crate::gguf::ModelFiles;
use crate::ir::hir::Module;
use crate::safetensors::json::Json;
use alloc::format;
use alloc::vec::Vec;

/// A family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Family {
    /// Its preset and its name in docs.
    pub name: &'static str,
    /// `general.architecture` of GGUF files.
    pub gguf: &'static str,
    /// `model_type` of transformers' config.json.
    pub transformers: &'static str,
}

/// Every family.
pub const FAMILIES: &[Family] = &[Family { name: "llama32", gguf: "llama", transformers: "llama" }];

/// A checkpoint's configuration, of any family.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelConfig {
    /// LLaMA.
    Llama(LlamaConfig),
}

impl ModelConfig {
    /// Reads a GGUF's metadata.
    ///
    /// # Errors
    /// `BadFile` without `general.architecture`; `Unsupported` for one that is not in
    /// [`FAMILIES`]; else as the family's reader.
    pub fn from_gguf(files: &ModelFiles) -> Result<Self> {
        let meta = &files.metadata;
        let Some(arch) = meta.opt_str("general.architecture")? else {
            return Err(meta.missing("general.architecture"));
        };
        match arch {
            "llama" => LlamaConfig::from_gguf(files).map(Self::Llama),
            other => {
                let known: Vec<&str> = FAMILIES.iter().map(|f| f.gguf).collect();
                let mut e =
                    meta.bad_value("general.architecture", format!("unknown architecture {other}"));
                e.code = Code::Unsupported;
                Err(e.hint(format!("known: {}", known.join(", "))))
            }
        }
    }

    /// Reads a transformers config.json.
    ///
    /// # Errors
    /// As [`from_gguf`](Self::from_gguf).
    pub fn from_json(json: &Json) -> Result<Self> {
        match json.get("model_type").and_then(Json::as_str) {
            Some("llama") => LlamaConfig::from_json(json).map(Self::Llama),
            Some(other) => {
                Err(Error::new(Code::Unsupported, format!("unknown model_type {other}"))
                    .at("config.json")
                    .hint("known: llama"))
            }
            None => Err(Error::bad_file("model_type is missing").at("config.json")),
        }
    }

    /// Positions the model was trained for.
    pub fn context(&self) -> u64 {
        match self {
            Self::Llama(c) => c.context,
        }
    }

    /// Layers of the model.
    pub fn layers(&self) -> u64 {
        match self {
            Self::Llama(c) => c.layers,
        }
    }

    /// The same model with fewer layers and everything else small that costs time.
    #[must_use]
    pub fn small(&self, layers: u64) -> Self {
        match self {
            Self::Llama(c) => Self::Llama(c.small(layers)),
        }
    }

    /// The model over `context` positions.
    ///
    /// # Errors
    /// `BadFile` for a tensor that is missing or has another shape.
    pub fn build(&self, tensors: Tensors<'_>, context: u64) -> Result<Module> {
        match self {
            Self::Llama(c) => c.build(tensors, context),
        }
    }
}
