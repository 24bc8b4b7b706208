//! Granite 3 (IBM 2024): LLaMA with factors of embeddings, scores, branches and logits.

use super::checkpoint::Checkpoint;
use super::decoder::{
    Attention, Decoder, FeedForward, Layer, Sizes, factor, finish, permuted_pairs,
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
    name: "granite",
    presets: Presets { one_row: Preset::Llama32Decode, rows: Preset::Llama32Prefill },
    gguf: &["granite"],
    transformers: &["granite"],
    open: |checkpoint| Ok(Box::new(read(checkpoint)?)),
};

fn read(checkpoint: &Checkpoint<'_>) -> Result<Decoder> {
    let keys = checkpoint.keys()?;
    let sizes = Sizes::read(checkpoint, &keys, Unary::Silu, None)?;
    let rotary = Rotary::read(&keys, sizes.head_dim, sizes.context)?;
    // 0 is how a GGUF file says that there is none.
    let scale = keys.opt_f32(keys.word("attention.scale", "attention_multiplier"))?;
    let scale = scale.filter(|&x| x != 0.0);
    let residual_scale = factor(&keys, keys.word("residual_scale", "residual_multiplier"))?;
    let [attention_bias, ffn_bias] = [keys.opt_bool("attention_bias")?, keys.opt_bool("mlp_bias")?];
    let layer = |i: usize| {
        let attention = Attention::new(sizes.attention(i), attention_bias);
        let feed_forward = FeedForward::Gated {
            width: sizes.ffn[i],
            act: sizes.act,
            fused: false,
            bias: ffn_bias,
        };
        Layer { residual_scale, ..Layer::new(Attention { scale, ..attention }, feed_forward) }
    };
    let layers = (0..sizes.layers()).map(layer).collect();
    let decoder = Decoder {
        rope_style: permuted_pairs(&keys),
        embedding_scale: factor(&keys, keys.word("embedding_scale", "embedding_multiplier"))?,
        logit_scale: factor(&keys, keys.word("logit_scale", "logits_scaling"))?,
        ..Decoder::new(FAMILY.name, &sizes, vec![rotary], layers)
    };
    finish(&keys)?;
    Ok(decoder)
}
