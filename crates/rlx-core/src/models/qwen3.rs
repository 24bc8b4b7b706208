//! Qwen 3 (Yang et al. 2025, arXiv:2505.09388): LLaMA with a norm of each head of q and k.

use super::checkpoint::Checkpoint;
use super::decoder::{
    Attention, Decoder, FeedForward, Layer, QkNorm, Sizes, Sliding, finish, windows,
};
use super::family::Family;
use super::keys::Keys;
use super::rotary::Rotary;
use crate::error::Result;
use crate::ops::Unary;
use crate::profile::{Preset, Presets};
use alloc::boxed::Box;
use alloc::vec;

/// The family's row.
pub(super) const FAMILY: Family = Family {
    name: "qwen3",
    presets: Presets { one_row: Preset::Qwen3Decode, rows: Preset::Qwen3Prefill },
    gguf: &["qwen3"],
    transformers: &["qwen3"],
    open: |checkpoint| Ok(Box::new(read(checkpoint)?)),
};

fn read(checkpoint: &Checkpoint<'_>) -> Result<Decoder> {
    let keys = checkpoint.keys()?;
    let sizes = Sizes::read(checkpoint, &keys, Unary::Silu, None)?;
    let rotary = Rotary::read(&keys, sizes.head_dim, sizes.context)?;
    let attention = attention(&keys, &sizes)?;
    let layer = |i: usize| Layer::new(attention(i), FeedForward::gated(sizes.ffn[i], sizes.act));
    let layers = (0..sizes.layers()).map(layer).collect();
    finish(&keys)?;
    Ok(Decoder::new(FAMILY.name, &sizes, vec![rotary], layers))
}

/// The attention of each layer.
pub(super) fn attention<'a>(
    keys: &Keys<'_>,
    sizes: &'a Sizes,
) -> Result<impl Fn(usize) -> Attention + use<'a>> {
    let windows = windows(keys, sizes.layers(), Sliding::Asked)?;
    let bias = keys.opt_bool("attention_bias")?.unwrap_or(false);
    Ok(move |i: usize| Attention {
        window: windows[i],
        qk_norm: Some(QkNorm::Head),
        ..Attention::new(sizes.attention(i), Some(bias))
    })
}
