//! LLaDA 2 (Bie et al. 2025, arXiv:2512.15745; 2.1 with token editing: arXiv:2602.08676): a mixture of experts that
//! generates text by block diffusion (arXiv:2503.09573). A block of masks becomes tokens in a few passes, in any
//! order; the positions of a block see each other and all blocks before it, so finished blocks stay in the cache.
//! The logits at a position are of that position, not of the next.
//!
//! A layer departs from Qwen 3's with experts in its fused projections, in heads of which a part turns, in dense first
//! layers, and in the choice of experts, which is that of DeepSeek-V3: sigmoids, a bias that only chooses, groups.

use super::checkpoint::Checkpoint;
use super::decoder::{
    Attention, Decoder, FeedForward, Layer, Part, QkNorm, Renamed, Sizes, finish, routed,
};
use super::family::Family;
use super::keys::Keys;
use super::model::Diffusion;
use super::rotary::Rotary;
use crate::error::Result;
use crate::ops::{Route, Unary};
use crate::profile::{Preset, Presets};
use alloc::boxed::Box;
use alloc::format;
use alloc::vec;

/// The family's row.
pub(super) const FAMILY: Family = Family {
    name: "llada2",
    presets: Presets { one_row: Preset::Qwen3Decode, rows: Preset::Qwen3Prefill },
    gguf: &[],
    transformers: &["llada2_moe"],
    open: |checkpoint| Ok(Box::new(read(checkpoint)?)),
};

/// Positions of a block of the published models, whose configurations do not say it.
const BLOCK: u64 = 32;

/// Positions of a block, at most: a pass computes all of them.
const BLOCK_MAX: u64 = 1 << 12;

/// The mask of the published models, whose configurations do not say it: `<|mask|>`.
const MASK: u64 = 156_895;

/// The published default of LLaDA 2.0.
const THRESHOLD: f32 = 0.95;

const RENAMED: &[Renamed] = &[
    (Part::Embedding, "", "model.word_embeddings.weight"),
    (Part::Qkv, "", "attention.query_key_value"),
    (Part::QNorm, "", "attention.query_layernorm"),
    (Part::KNorm, "", "attention.key_layernorm"),
    (Part::O, "", "attention.dense"),
    (Part::ChoiceBias, "", "mlp.gate.expert_bias"),
    (Part::SharedGate, "", "mlp.shared_experts.gate_proj"),
    (Part::SharedUp, "", "mlp.shared_experts.up_proj"),
    (Part::SharedDown, "", "mlp.shared_experts.down_proj"),
];

fn read(checkpoint: &Checkpoint<'_>) -> Result<Decoder> {
    let keys = checkpoint.keys()?;
    let sizes = Sizes::read(checkpoint, &keys, Unary::Silu, Some(false))?;
    let rotary = Rotary::read(&keys, sizes.head_dim, sizes.context)?;
    if let Some(dims) = keys.opt_u64("rotary_dim")?.filter(|&n| n != rotary.dims) {
        let what =
            format!("{dims} rotary dimensions, and partial_rotary_factor says {}", rotary.dims);
        return Err(keys.bad("rotary_dim", what));
    }
    let choice_bias = keys.opt_bool("moe_router_enable_expert_bias")?.unwrap_or(true);
    let default = Route { sigmoid: true, normalise: true, choice_bias, ..Route::softmax(1) };
    let experts = routed(&keys, &sizes, default)?;
    let dense = keys.opt_u64("first_k_dense_replace")?.unwrap_or(0);
    let normed = keys.opt_bool("use_qk_norm")?.unwrap_or(true);
    let layer = |i: usize| {
        let attention = Attention {
            fused: true,
            qk_norm: normed.then_some(QkNorm::Head),
            ..Attention::new(sizes.attention(i), Some(false))
        };
        let feed_forward = match &experts {
            Some(experts) if i as u64 >= dense => FeedForward::Experts(experts.clone()),
            _ => FeedForward::gated(sizes.ffn[i], sizes.act),
        };
        Layer::new(attention, feed_forward)
    };
    let layers = (0..sizes.layers()).map(layer).collect();
    let diffusion = diffusion(&keys, &sizes)?;
    keys.neutral(&[
        ("use_bias", 0.0, "adds biases to the output of attention"),
        ("use_qkv_bias", 0.0, "adds biases to q, k and v"),
        ("use_rmsnorm", 1.0, "makes norms subtract the mean"),
        ("use_sliding_window", 0.0, "lets rows see a window of those before them"),
        ("norm_head", 0.0, "divides the rows of the head by their length"),
    ])?;
    // What a window would be; how accurate the router is; what concerns training.
    keys.inert(&["sliding_window", "max_window_layers", "router_dtype"]);
    keys.inert(&["embedding_dropout", "output_dropout"]);
    finish(&keys)?;
    let diffusion = Some(diffusion);
    Ok(Decoder {
        diffusion,
        renamed: RENAMED,
        ..Decoder::new(FAMILY.name, &sizes, vec![rotary], layers)
    })
}

/// How blocks are filled. `block_length` is a key of RLX's: published configurations do not have it.
fn diffusion(keys: &Keys<'_>, sizes: &Sizes) -> Result<Diffusion> {
    const LENGTH: &str = "block_length";
    const ID: &str = "mask_token_id";
    let block = keys.opt_positive(LENGTH)?.unwrap_or(BLOCK);
    if block > BLOCK_MAX {
        let what = format!("blocks of {block} positions, at most {BLOCK_MAX} are read");
        return Err(keys.bad(LENGTH, what));
    }
    let mask = keys.opt_u64(ID)?.unwrap_or(MASK);
    match u32::try_from(mask) {
        // There is a token beside the mask.
        Ok(id) if mask < sizes.vocab && sizes.vocab > 1 => {
            Ok(Diffusion { block, whole: false, mask: id, threshold: THRESHOLD })
        }
        _ => {
            let what = format!("the mask is token {mask}, and there are {} tokens", sizes.vocab);
            Err(keys.bad(ID, what))
        }
    }
}
