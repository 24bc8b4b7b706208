//! OLMo 2 (OLMo Team 2024, arXiv:2501.00656): LLaMA with norms behind the branches instead of before them, and norms of
//! q and k over all heads together.

use super::checkpoint::Checkpoint;
use super::decoder::{Attention, BranchNorms, Decoder, FeedForward, Layer, QkNorm, Sizes, finish};
use super::family::Family;
use super::rotary::Rotary;
use crate::error::Result;
use crate::ops::Unary;
use crate::profile::{Preset, Presets};
use alloc::boxed::Box;
use alloc::vec;

/// The family's row.
pub(super) const FAMILY: Family = Family {
    name: "olmo2",
    presets: Presets { one_row: Preset::Llama32Decode, rows: Preset::Llama32Prefill },
    gguf: &["olmo2"],
    transformers: &["olmo2"],
    open: |checkpoint| Ok(Box::new(read(checkpoint)?)),
};

fn read(checkpoint: &Checkpoint<'_>) -> Result<Decoder> {
    let keys = checkpoint.keys()?;
    let sizes = Sizes::read(checkpoint, &keys, Unary::Silu, None)?;
    let rotary = Rotary::read(&keys, sizes.head_dim, sizes.context)?;
    let layer = |i: usize| {
        let attention = Attention {
            qk_norm: Some(QkNorm::Row),
            ..Attention::new(sizes.attention(i), Some(false))
        };
        Layer {
            norms: BranchNorms::After,
            ..Layer::new(attention, FeedForward::gated(sizes.ffn[i], sizes.act))
        }
    };
    let layers = (0..sizes.layers()).map(layer).collect();
    keys.neutral(&[("attention_bias", 0.0, "adds biases to the attention")])?;
    finish(&keys)?;
    Ok(Decoder::new(FAMILY.name, &sizes, vec![rotary], layers))
}
