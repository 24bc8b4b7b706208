//! Phi-3 (Abdin et al. 2024, arXiv:2404.14219) and Phi-4-mini (arXiv:2503.01743): LLaMA whose projections are fused,
//! with a part of each head that turns.

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
    name: "phi3",
    presets: Presets { one_row: Preset::Llama32Decode, rows: Preset::Llama32Prefill },
    gguf: &["phi3"],
    transformers: &["phi3"],
    open: |checkpoint| Ok(Box::new(read(checkpoint)?)),
};

fn read(checkpoint: &Checkpoint<'_>) -> Result<Decoder> {
    let keys = checkpoint.keys()?;
    let sizes = Sizes::read(checkpoint, &keys, Unary::Silu, None)?;
    let rotary = Rotary::read(&keys, sizes.head_dim, sizes.context)?;
    let windows = windows(&keys, sizes.layers(), Sliding::All)?;
    let layer = |i: usize| {
        let attention = Attention {
            window: windows[i],
            fused: true,
            ..Attention::new(sizes.attention(i), Some(false))
        };
        let width = sizes.ffn[i];
        let act = sizes.act;
        let feed_forward = FeedForward::Gated { width, act, fused: true, bias: Some(false) };
        Layer::new(attention, feed_forward)
    };
    let layers = (0..sizes.layers()).map(layer).collect();
    keys.neutral(&[
        ("attention_bias", 0.0, "adds biases to the attention"),
        ("mlp_bias", 0.0, "adds biases to the feed-forward"),
        ("lm_head_bias", 0.0, "adds a bias to the logits"),
        ("full_attn_mod", 1.0, "lets layers differ in their window"),
        ("interpolate_factor", 1.0, "divides rotary positions"),
    ])?;
    // These concern training.
    keys.inert(&["embd_pdrop", "resid_pdrop"]);
    finish(&keys)?;
    Ok(Decoder::new(FAMILY.name, &sizes, vec![rotary], layers))
}
