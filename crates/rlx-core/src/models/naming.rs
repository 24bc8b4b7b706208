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
pub(super) fn gguf_part(layer: u64, part: &str) -> String {
    format!("blk.{layer}.{part}")
}

/// The layer and the part of a GGUF tensor's name; `None` for what belongs to no layer.
pub(super) fn gguf_layer(name: &str) -> Option<(u64, &str)> {
    let (layer, part) = name.strip_prefix("blk.")?.split_once('.')?;
    Some((layer.parse().ok()?, part))
}
