//! Mixtral (Jiang et al. 2024, arXiv:2401.04088): LLaMA whose feed-forwards are experts. A row chooses the best
//! by the softmax of all scores, and their weights are divided by their sum.
//! Its GGUF files are of the architecture `llama`.

use super::checkpoint::Checkpoint;
use super::decoder::{
    Attention, Decoder, FeedForward, Layer, Part, Sizes, Sliding, experts, finish, windows,
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
    name: "mixtral",
    presets: Presets { one_row: Preset::Llama32Decode, rows: Preset::Llama32Prefill },
    gguf: &[],
    transformers: &["mixtral"],
    open: |checkpoint| Ok(Box::new(read(checkpoint)?)),
};

fn read(checkpoint: &Checkpoint<'_>) -> Result<Decoder> {
    let keys = checkpoint.keys()?;
    let sizes = Sizes::read(checkpoint, &keys, Unary::Silu, None)?;
    let rotary = Rotary::read(&keys, sizes.head_dim, sizes.context)?;
    let windows = windows(&keys, sizes.layers(), Sliding::All)?;
    let experts = experts(&keys, sizes.ffn[0], sizes.act)?;
    let layer = |i: usize| {
        let attention = Attention::new(sizes.attention(i), Some(false));
        let feed_forward = match &experts {
            Some(experts) => FeedForward::Experts(experts.clone()),
            None => FeedForward::gated(sizes.ffn[i], sizes.act),
        };
        Layer::new(Attention { window: windows[i], ..attention }, feed_forward)
    };
    let layers = (0..sizes.layers()).map(layer).collect();
    finish(&keys)?;
    Ok(Decoder {
        renamed: &[
            (Part::Router, "ffn_gate_inp", "block_sparse_moe.gate"),
            (Part::GateExperts, "ffn_gate_exps", "block_sparse_moe.experts.#.w1"),
            (Part::UpExperts, "ffn_up_exps", "block_sparse_moe.experts.#.w3"),
            (Part::DownExperts, "ffn_down_exps", "block_sparse_moe.experts.#.w2"),
        ],
        ..Decoder::new(FAMILY.name, &sizes, vec![rotary], layers)
    })
}
