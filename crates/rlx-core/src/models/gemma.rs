//! Gemma (Gemma Team 2024, arXiv:2403.08295): LLaMA with a gate through GELU (tanh), embeddings times the root of D,
//! and norms that scale by 1 + weight.

use super::checkpoint::Checkpoint;
use super::decoder::{Attention, Decoder, FeedForward, Layer, Sizes, finish};
use super::family::Family;
use super::keys::{Keys, Neutral};
use super::rotary::Rotary;
use crate::error::Result;
use crate::math;
use crate::ops::Unary;
use crate::profile::{Preset, Presets};
use alloc::boxed::Box;
use alloc::vec;

/// The family's row.
pub(super) const FAMILY: Family = Family {
    name: "gemma",
    presets: Presets { one_row: Preset::GemmaDecode, rows: Preset::GemmaPrefill },
    gguf: &["gemma"],
    transformers: &["gemma"],
    open: |checkpoint| Ok(Box::new(read(checkpoint)?)),
};

fn read(checkpoint: &Checkpoint<'_>) -> Result<Decoder> {
    let keys = checkpoint.keys()?;
    let sizes = Sizes::read(checkpoint, &keys, Unary::Gelu, Some(true))?;
    let rotary = Rotary::read(&keys, sizes.head_dim, sizes.context)?;
    let layer = |i: usize| {
        let attention = Attention::new(sizes.attention(i), Some(false));
        // Early configurations say `gelu`, and mean its tanh form.
        Layer::new(attention, FeedForward::gated(sizes.ffn[i], Unary::Gelu))
    };
    let layers = (0..sizes.layers()).map(layer).collect();
    decoder(&keys, &sizes, Decoder::new(FAMILY.name, &sizes, vec![rotary], layers))
}

/// What every Gemma has, once its own keys are read: norms that scale by 1 + weight, which the converter to GGUF
/// adds already, and embeddings times the root of D.
pub(super) fn decoder(keys: &Keys<'_>, sizes: &Sizes, layers: Decoder) -> Result<Decoder> {
    keys.neutral(NEUTRAL)?;
    finish(keys)?;
    Ok(Decoder {
        norm_offset: if keys.is_gguf() { 0.0 } else { 1.0 },
        embedding_scale: math::sqrtf(sizes.dim as f32),
        ..layers
    })
}

/// Keys of which one value is read.
const NEUTRAL: &[Neutral] = &[
    ("attention_bias", 0.0, "adds biases to the attention"),
    ("use_bidirectional_attention", 0.0, "lets rows see those after them"),
];
