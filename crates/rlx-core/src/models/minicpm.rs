//! MiniCPM (Hu et al. 2024, arXiv:2404.06395): LLaMA with factors of embeddings, branches and logits that carry
//! over from small models to large ones.

use super::checkpoint::Checkpoint;
use super::decoder::{Attention, Decoder, FeedForward, Layer, Sizes, finish, permuted_pairs};
use super::family::Family;
use super::keys::Keys;
use super::rotary::Rotary;
use crate::error::Result;
use crate::math;
use crate::ops::Unary;
use crate::profile::{Preset, Presets};
use alloc::boxed::Box;
use alloc::vec;

/// The family's row.
pub(super) const FAMILY: Family = Family {
    name: "minicpm",
    presets: Presets { one_row: Preset::Llama32Decode, rows: Preset::Llama32Prefill },
    gguf: &["minicpm"],
    transformers: &["minicpm"],
    open: |checkpoint| Ok(Box::new(read(checkpoint)?)),
};

fn read(checkpoint: &Checkpoint<'_>) -> Result<Decoder> {
    let keys = checkpoint.keys()?;
    let sizes = Sizes::read(checkpoint, &keys, Unary::Silu, None)?;
    let rotary = Rotary::read(&keys, sizes.head_dim, sizes.context)?;
    // Older GGUF files have no factors, and are of the 2B model.
    let [embedding_scale, residual_scale, logit_scale] =
        factors(&keys, &sizes, (12.0, 1.4, 256.0))?;
    let layer = |i: usize| {
        let attention = Attention::new(sizes.attention(i), Some(false));
        let feed_forward = FeedForward::gated(sizes.ffn[i], sizes.act);
        Layer { residual_scale, ..Layer::new(attention, feed_forward) }
    };
    let layers = (0..sizes.layers()).map(layer).collect();
    keys.neutral(&[("attention_bias", 0.0, "adds biases to the attention")])?;
    finish(&keys)?;
    Ok(Decoder {
        rope_style: permuted_pairs(&keys),
        embedding_scale,
        logit_scale,
        ..Decoder::new(FAMILY.name, &sizes, vec![rotary], layers)
    })
}

/// What multiplies embeddings and branches, and divides logits. A GGUF file has these themselves; one without has
/// those of a model: the factor of embeddings, the one of branches before it is divided by the root of the layers, and
/// the width that logits are scaled to.
pub(super) fn factors(
    keys: &Keys<'_>,
    sizes: &Sizes,
    (embedding, depth, width): (f32, f32, f32),
) -> Result<[f32; 3]> {
    let root = math::sqrtf(sizes.layers() as f32);
    if keys.is_gguf() {
        return Ok([
            keys.opt_f32("embedding_scale")?.unwrap_or(embedding),
            keys.opt_f32("residual_scale")?.unwrap_or(depth / root),
            keys.opt_above_zero("logit_scale")?.unwrap_or(sizes.dim as f32 / width),
        ]);
    }
    let base = keys.opt_positive("dim_model_base")?.unwrap_or(1);
    Ok([
        keys.opt_f32("scale_emb")?.unwrap_or(1.0),
        keys.opt_f32("scale_depth")?.unwrap_or(1.0) / root,
        sizes.dim as f32 / base as f32,
    ])
}
