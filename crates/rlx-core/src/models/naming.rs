//! How files name tensors, as far as families share it.

use alloc::format;
use alloc::string::String;

/// How a file names its tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// llama.cpp's: `blk.0.attn_q.weight`.
    Gguf,
    /// transformers': `model.layers.0.self_attn.q_proj.weight`.
    Transformers,
}

/// The table of embeddings in GGUF files.
pub(super) const TOKEN_EMBD: &str = "token_embd.weight";

/// A layer's part in GGUF files: `blk.3.attn_q`.
#[cfg(feature = "encoders")]
pub(super) fn gguf_part(layer: u64, part: &str) -> String {
    format!("blk.{layer}.{part}")
}

/// The layer and the part of a GGUF tensor's name; `None` for what belongs to no layer.
pub(super) fn gguf_layer(name: &str) -> Option<(u64, &str)> {
    Naming::Gguf.layer_of(name)
}

impl Naming {
    /// What stands before a layer's number.
    fn prefix(self) -> &'static str {
        match self {
            Naming::Gguf => "blk.",
            Naming::Transformers => "model.layers.",
        }
    }

    /// The layer and the part of a decoder's tensor; `None` for what belongs to no layer.
    pub fn layer_of(self, name: &str) -> Option<(u64, &str)> {
        let (layer, part) = name.strip_prefix(self.prefix())?.split_once('.')?;
        Some((layer.parse().ok()?, part))
    }

    /// The name of a decoder layer's part: `blk.3.attn_q`, or `model.layers.3.self_attn.q_proj`.
    pub fn part(self, layer: u64, part: &str) -> String {
        format!("{}{layer}.{part}", self.prefix())
    }

    /// The name of a decoder's table of embeddings.
    pub fn embedding(self) -> &'static str {
        match self {
            Naming::Gguf => TOKEN_EMBD,
            Naming::Transformers => "model.embed_tokens.weight",
        }
    }
}
