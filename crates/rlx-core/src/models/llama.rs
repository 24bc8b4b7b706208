//! LLaMA (Touvron et al. 2023, arXiv:2302.13971, section 2.2): the decoder that others depart from.
//!
//! Differs from the paper: K may be smaller than H (grouped heads, arXiv:2305.13245), E need not be
//! D / H, layers may differ in H, K and F, frequencies may be scaled for longer contexts, projections may
//! have biases, and embeddings may serve as the head.

use super::checkpoint::Checkpoint;
use super::decoder::{
    Attention, Decoder, FeedForward, Layer, Sizes, Sliding, experts, finish, permuted_pairs,
    windows,
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
    name: "llama32",
    presets: Presets { one_row: Preset::Llama32Decode, rows: Preset::Llama32Prefill },
    gguf: &["llama"],
    transformers: &["llama"],
    open: |checkpoint| Ok(Box::new(read(checkpoint)?)),
};

fn read(checkpoint: &Checkpoint<'_>) -> Result<Decoder> {
    let keys = checkpoint.keys()?;
    let sizes = Sizes::read(checkpoint, &keys, Unary::Silu, None)?;
    let rotary = Rotary::read(&keys, sizes.head_dim, sizes.context)?;
    // Mistral's files are of this architecture, and Mixtral's, which have experts.
    let windows = windows(&keys, sizes.layers(), Sliding::All)?;
    let experts = match keys.is_gguf() {
        true => experts(&keys, sizes.ffn[0], sizes.act)?,
        false => None,
    };
    let [attention_bias, ffn_bias] = [keys.opt_bool("attention_bias")?, keys.opt_bool("mlp_bias")?];
    let layer = |i: usize| {
        let attention = Attention::new(sizes.attention(i), attention_bias);
        let feed_forward = match &experts {
            Some(experts) => FeedForward::Experts(experts.clone()),
            None => FeedForward::Gated {
                width: sizes.ffn[i],
                act: sizes.act,
                fused: false,
                bias: ffn_bias,
            },
        };
        Layer::new(Attention { window: windows[i], ..attention }, feed_forward)
    };
    let layers = (0..sizes.layers()).map(layer).collect();
    keys.neutral(&[("rope_interleaved", 0.0, "turns other pairs of a head")])?;
    finish(&keys)?;
    Ok(Decoder {
        rope_style: permuted_pairs(&keys),
        ..Decoder::new(FAMILY.name, &sizes, vec![rotary], layers)
    })
}
