//! Qwen 2 and 2.5 (Yang et al. 2024, arXiv:2407.10671): LLaMA with biases of q, k and v.

use super::checkpoint::Checkpoint;
use super::decoder::{Attention, Decoder, FeedForward, Layer, Sizes, Sliding, finish, windows};
use super::family::Family;
use super::rotary::Rotary;
use crate::error::Result;
use crate::ops::Unary;
use crate::profile::{Preset, Presets};
use alloc::boxed::Box;
use alloc::vec;

/// The family's row.
pub(super) const FAMILY: Family = Family {
    name: "qwen2",
    presets: Presets { one_row: Preset::Qwen3Decode, rows: Preset::Qwen3Prefill },
    gguf: &["qwen2"],
    transformers: &["qwen2"],
    open: |checkpoint| Ok(Box::new(read(checkpoint)?)),
};

fn read(checkpoint: &Checkpoint<'_>) -> Result<Decoder> {
    let keys = checkpoint.keys()?;
    let sizes = Sizes::read(checkpoint, &keys, Unary::Silu, None)?;
    let rotary = Rotary::read(&keys, sizes.head_dim, sizes.context)?;
    let windows = windows(&keys, sizes.layers(), Sliding::Asked)?;
    let layer = |i: usize| {
        let attention = Attention {
            window: windows[i],
            output_bias: Some(false),
            ..Attention::new(sizes.attention(i), Some(true))
        };
        Layer::new(attention, FeedForward::gated(sizes.ffn[i], sizes.act))
    };
    let layers = (0..sizes.layers()).map(layer).collect();
    finish(&keys)?;
    Ok(Decoder::new(FAMILY.name, &sizes, vec![rotary], layers))
}
