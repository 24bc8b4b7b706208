//! Mistral 7B (Jiang et al. 2023, arXiv:2310.06825) and Ministral: LLaMA over a sliding window.
//! GGUF files of the first ones are of the architecture `llama`.

use super::checkpoint::Checkpoint;
use super::decoder::{
    Attention, Decoder, FeedForward, Layer, Sizes, Sliding, finish, permuted_pairs, windows,
};
use super::family::Family;
use super::rotary::Rotary;
use crate::error::Result;
use crate::ops::Unary;
use crate::profile::{Preset, Presets};
use alloc::boxed::Box;
use alloc::vec;

/// The family's row.
pub(super) const FAMILY: Family = Family {
    name: "mistral",
    presets: Presets { one_row: Preset::Llama32Decode, rows: Preset::Llama32Prefill },
    gguf: &["mistral3"],
    transformers: &["mistral", "ministral"],
    open: |checkpoint| Ok(Box::new(read(checkpoint)?)),
};

fn read(checkpoint: &Checkpoint<'_>) -> Result<Decoder> {
    let keys = checkpoint.keys()?;
    let sizes = Sizes::read(checkpoint, &keys, Unary::Silu, None)?;
    let rotary = Rotary::read(&keys, sizes.head_dim, sizes.context)?;
    let windows = windows(&keys, sizes.layers(), Sliding::All)?;
    let layer = |i: usize| {
        let attention = Attention::new(sizes.attention(i), Some(false));
        let feed_forward = FeedForward::gated(sizes.ffn[i], sizes.act);
        Layer::new(Attention { window: windows[i], ..attention }, feed_forward)
    };
    let layers = (0..sizes.layers()).map(layer).collect();
    finish(&keys)?;
    Ok(Decoder {
        rope_style: permuted_pairs(&keys),
        ..Decoder::new(FAMILY.name, &sizes, vec![rotary], layers)
    })
}
