//! Gemma 2 (Gemma Team 2024, arXiv:2408.00118): Gemma with norms after the branches too, bounded scores and logits,
//! and a sliding window in every other layer.

use super::checkpoint::Checkpoint;
use super::decoder::{
    Attention, BranchNorms, Decoder, FeedForward, Layer, Sizes, Sliding, windows,
};
use super::family::Family;
use super::gemma;
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
    let layer = layers(&keys, &sizes, 46)?;
    let layer = |i: usize| layer(Attention { window: windows[i], ..attention(&sizes, i) }, i);
    let layers = (0..sizes.layers()).map(layer).collect();
    let logit_softcap = softcap(&keys, "final_logit_softcapping")?;
    let decoder = Decoder::new(FAMILY.name, &sizes, vec![rotary], layers);
    gemma::decoder(&keys, &sizes, Decoder { logit_softcap, ..decoder })
}

/// A bound, if there is one; 0 is how a GGUF file says that there is none.
pub(super) fn softcap(keys: &Keys<'_>, name: &str) -> Result<Option<f32>> {
    Ok(keys.opt_f32(name)?.filter(|&x| x != 0.0))
}

/// An attention without biases.
pub(super) fn attention(sizes: &Sizes, i: usize) -> Attention {
    Attention::new(sizes.attention(i), Some(false))
}

/// Layers of Gemma 2 and 3 around their attentions: the scale and the bound of scores, and norms before and after
/// the branches. `large` is how many layers the 27B model has: a GGUF file does not say that it alone divides scores
/// by the root of D / H.
pub(super) fn layers<'a>(
    keys: &Keys<'_>,
    sizes: &'a Sizes,
    large: usize,
) -> Result<impl Fn(Attention, usize) -> Layer + use<'a>> {
    let divisor = match keys.opt_above_zero("query_pre_attn_scalar")? {
        Some(scalar) => scalar,
        None if sizes.layers() == large => (sizes.dim / sizes.heads[0]) as f32,
        None => sizes.head_dim as f32,
    };
    let softcap = softcap(keys, "attn_logit_softcapping")?;
    let scale = Some(1.0 / math::sqrtf(divisor));
    Ok(move |attention, i: usize| {
        let feed_forward = FeedForward::gated(sizes.ffn[i], sizes.act);
        let layer = Layer::new(Attention { scale, softcap, ..attention }, feed_forward);
        Layer { norms: BranchNorms::Both, ..layer }
    })
}
