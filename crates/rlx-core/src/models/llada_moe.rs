//! LLaDA-MoE (Zhu et al. 2025, arXiv:2509.24389): LLaDA with the layers of Qwen 3 with experts, whose shares are not
//! divided by their sum.

use super::checkpoint::Checkpoint;
use super::decoder::{Decoder, Layer, Sizes, finish};
use super::family::Family;
use super::llada::diffusion;
use super::qwen3::attention;
use super::qwen3_moe::feed_forward;
use super::rotary::Rotary;
use crate::error::Result;
use crate::ops::Unary;
use crate::profile::{Preset, Presets};
use alloc::boxed::Box;
use alloc::vec;

/// The family's row.
pub(super) const FAMILY: Family = Family {
    name: "llada_moe",
    presets: Presets { one_row: Preset::Qwen3Decode, rows: Preset::Qwen3Prefill },
    gguf: &["llada-moe"],
    transformers: &[],
    open: |checkpoint| Ok(Box::new(read(checkpoint)?)),
};

fn read(checkpoint: &Checkpoint<'_>) -> Result<Decoder> {
    let keys = checkpoint.keys()?;
    let sizes = Sizes::read(checkpoint, &keys, Unary::Silu, None)?;
    let rotary = Rotary::read(&keys, sizes.head_dim, sizes.context)?;
    let attention = attention(&keys, &sizes)?;
    let feed_forward = feed_forward(checkpoint, &keys, &sizes, false, None)?;
    let layer = |i: usize| Layer::new(attention(i), feed_forward(i));
    let layers = (0..sizes.layers()).map(layer).collect();
    let diffusion = Some(diffusion(checkpoint, &keys, &sizes)?);
    finish(&keys)?;
    Ok(Decoder { diffusion, ..Decoder::new(FAMILY.name, &sizes, vec![rotary], layers) })
}
