//! Qwen 3 with experts (Yang et al. 2025, arXiv:2505.09388): the attention of Qwen 3, and in most layers experts
//! that a row chooses by the softmax of all scores.

use super::checkpoint::Checkpoint;
use super::decoder::{
    Decoder, Experts, FeedForward, Layer, Names, Part, Shared, Sizes, experts, finish,
};
use super::family::Family;
use super::keys::Keys;
use super::qwen3::attention;
use super::rotary::Rotary;
use crate::error::Result;
use crate::ops::{Route, Unary};
use crate::profile::{Preset, Presets};
use alloc::boxed::Box;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

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
    let attention = attention(&keys, &sizes)?;
    // GGUF files do not say whether shares are divided by their sum; all published models divide.
    let feed_forward = feed_forward(checkpoint, &keys, &sizes, keys.is_gguf(), None)?;
    let layer = |i: usize| Layer::new(attention(i), feed_forward(i));
    let layers = (0..sizes.layers()).map(layer).collect();
    finish(&keys)?;
    Ok(Decoder::new(FAMILY.name, &sizes, vec![rotary], layers))
}

/// The feed-forward of each layer: experts, or one for all rows. `normalise` says whether shares are divided by their
/// sum where no key does.
pub(super) fn feed_forward<'a>(
    checkpoint: &Checkpoint<'_>,
    keys: &Keys<'_>,
    sizes: &'a Sizes,
    normalise: bool,
    shared: Option<Shared>,
) -> Result<impl Fn(usize) -> FeedForward + use<'a>> {
    // Every `step`-th layer has experts, but for those of a list. A GGUF file says it by its tensors.
    let step = keys.opt_positive("decoder_sparse_step")?.unwrap_or(1);
    let dense = keys.opt_u64s("mlp_only_layers")?.unwrap_or_default();
    let names = Names { naming: checkpoint.naming(), renamed: &[] };
    let is_dense = |i: usize| match keys.is_gguf() {
        true => checkpoint.tensor(&format!("{}.weight", names.layer(i, Part::Router))).is_none(),
        false => dense.contains(&(i as u64)) || !(i as u64 + 1).is_multiple_of(step),
    };
    let is_dense: Vec<bool> = (0..sizes.layers()).map(is_dense).collect();
    let normalise = keys.opt_bool("norm_topk_prob")?.unwrap_or(normalise);
    let experts = experts(keys, sizes.ffn[0], sizes.act)?.map(|e| Experts {
        route: Route { normalise, ..e.route },
        shared,
        ..e
    });
    Ok(move |i: usize| match &experts {
        Some(experts) if !is_dense[i] => FeedForward::Experts(experts.clone()),
        _ => FeedForward::gated(sizes.ffn[i], sizes.act),
    })
}
