//! Gemma 2 (Gemma Team 2024, arXiv:2408.00118): Gemma with norms after the branches too, bounded scores and logits,
//! and a sliding window in every other layer.

use super::checkpoint::Checkpoint;
use super::decoder::{
    Attention, BranchNorms, Decoder, FeedForward, Layer, Sizes, Sliding, finish, windows,
};
use super::family::Family;
use super::gemma;
use super::rotary::Rotary;
use crate::error::Result;
use crate::math;
use crate::ops::Unary;
use crate::profile::{Preset, Presets};
use alloc::boxed::Box;
use alloc::vec;

/// The family's row.
pub(super) const FAMILY: Family = Family {
    name: "gemma2",
    presets: Presets { one_row: Preset::GemmaDecode, rows: Preset::GemmaPrefill },
    gguf: &["gemma2"],
    transformers: &["gemma2"],
    open: |checkpoint| Ok(Box::new(read(checkpoint)?)),
};

fn read(checkpoint: &Checkpoint<'_>) -> Result<Decoder> {
    let keys = checkpoint.keys()?;
    let sizes = Sizes::read(checkpoint, &keys, Unary::Gelu, Some(true))?;
    let rotary = Rotary::read(&keys, sizes.head_dim, sizes.context)?;
    let windows = windows(&keys, sizes.layers(), Sliding::AllBut(2))?;
    // A GGUF file does not say it, and the 27B model, that of 46 layers, divides by D / H.
    let divisor = match keys.opt_above_zero("query_pre_attn_scalar")? {
        Some(scalar) => scalar,
        None if sizes.layers() == 46 => (sizes.dim / sizes.heads[0]) as f32,
        None => sizes.head_dim as f32,
    };
    let softcap = keys.opt_f32("attn_logit_softcapping")?.filter(|&x| x != 0.0);
    let logit_softcap = keys.opt_f32("final_logit_softcapping")?.filter(|&x| x != 0.0);
    let layer = |i: usize| {
        let attention = Attention {
            window: windows[i],
            scale: Some(1.0 / math::sqrtf(divisor)),
            softcap,
            ..Attention::new(sizes.attention(i), Some(false))
        };
        Layer {
            norms: BranchNorms::Both,
            ..Layer::new(attention, FeedForward::gated(sizes.ffn[i], sizes.act))
        }
    };
    let layers = (0..sizes.layers()).map(layer).collect();
    keys.neutral(gemma::NEUTRAL)?;
    finish(&keys)?;
    Ok(Decoder {
        norm_offset: gemma::norm_offset(&keys),
        embedding_scale: math::sqrtf(sizes.dim as f32),
        logit_softcap,
        ..Decoder::new(FAMILY.name, &sizes, vec![rotary], layers)
    })
}
