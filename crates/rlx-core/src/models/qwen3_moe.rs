//! Qwen 3 with experts (Yang et al. 2025, arXiv:2505.09388): the attention of Qwen 3, and in most layers experts
//! that a row chooses by the softmax of all scores.

use super::checkpoint::Checkpoint;
use super::decoder::{
    Attention, Decoder, Experts, FeedForward, Layer, Names, Part, QkNorm, Sizes, Sliding, experts,
    finish, windows,
};
use super::family::Family;
use super::rotary::Rotary;
use crate::error::Result;
use crate::ops::{Route, Unary};
use crate::profile::{Preset, Presets};
use alloc::boxed::Box;
use alloc::format;
use alloc::vec;

/// The family's row.
pub(super) const FAMILY: Family = Family {
    name: "qwen3_moe",
    presets: Presets { one_row: Preset::Qwen3Decode, rows: Preset::Qwen3Prefill },
    gguf: &["qwen3moe"],
    transformers: &["qwen3_moe"],
    open: |checkpoint| Ok(Box::new(read(checkpoint)?)),
};

fn read(checkpoint: &Checkpoint<'_>) -> Result<Decoder> {
    let keys = checkpoint.keys()?;
    let sizes = Sizes::read(checkpoint, &keys, Unary::Silu, None)?;
    let rotary = Rotary::read(&keys, sizes.head_dim, sizes.context)?;
    let windows = windows(&keys, sizes.layers(), Sliding::Asked)?;
    let bias = keys.opt_bool("attention_bias")?.unwrap_or(false);
    // Every `step`-th layer has experts, but for those of a list. A GGUF file says it by its tensors.
    let step = keys.opt_positive("decoder_sparse_step")?.unwrap_or(1);
    let dense = keys.opt_u64s("mlp_only_layers")?.unwrap_or_default();
    let names = Names { naming: checkpoint.naming(), renamed: &[] };
    let is_dense = |i: usize| match keys.is_gguf() {
        true => checkpoint.tensor(&format!("{}.weight", names.layer(i, Part::Router))).is_none(),
        false => dense.contains(&(i as u64)) || !(i as u64 + 1).is_multiple_of(step),
    };
    // GGUF files do not say it; all published models divide.
    let normalise = keys.opt_bool("norm_topk_prob")?.unwrap_or(keys.is_gguf());
    let experts = experts(&keys, sizes.ffn[0], sizes.act)?;
    let layer = |i: usize| {
        let attention = Attention {
            window: windows[i],
            qk_norm: Some(QkNorm::Head),
            ..Attention::new(sizes.attention(i), Some(bias))
        };
        let feed_forward = match &experts {
            Some(e) if !is_dense(i) => FeedForward::Experts(Experts {
                route: Route { normalise, ..e.route.clone() },
                ..e.clone()
            }),
            _ => FeedForward::gated(sizes.ffn[i], sizes.act),
        };
        Layer::new(attention, feed_forward)
    };
    let layers = (0..sizes.layers()).map(layer).collect();
    finish(&keys)?;
    Ok(Decoder::new(FAMILY.name, &sizes, vec![rotary], layers))
}
