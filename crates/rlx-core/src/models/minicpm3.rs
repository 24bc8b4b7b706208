//! MiniCPM3 (OpenBMB 2024): MiniCPM with attention over latent rows (DeepSeek-V2, arXiv:2405.04434, section 2.1).

use super::checkpoint::Checkpoint;
use super::decoder::{Decoder, FeedForward, Layer, Mixer, Sizes, finish};
use super::deepseek::latent;
use super::family::Family;
use super::minicpm::factors;
use crate::error::Result;
use crate::ops::Unary;
use crate::profile::{Preset, Presets};
use alloc::boxed::Box;
use alloc::vec;

/// The family's row.
pub(super) const FAMILY: Family = Family {
    name: "minicpm3",
    presets: Presets { one_row: Preset::Llama32Decode, rows: Preset::Llama32Prefill },
    gguf: &["minicpm3"],
    transformers: &["minicpm3"],
    open: |checkpoint| Ok(Box::new(read(checkpoint)?)),
};

/// GGUF files have no factors: those of the one published model, MiniCPM3-4B.
const PUBLISHED: (f32, f32, f32) = (12.0, 1.4, 256.0);

fn read(checkpoint: &Checkpoint<'_>) -> Result<Decoder> {
    let keys = checkpoint.keys()?;
    let sizes = Sizes::read(checkpoint, &keys, Unary::Silu, None)?;
    let (attention, rotary) = latent(&keys, &sizes)?;
    let [embedding_scale, residual_scale, logit_scale] = factors(&keys, &sizes, PUBLISHED)?;
    keys.neutral(&[
        ("attention_bias", 0.0, "adds biases to the attention"),
        ("mlp_bias", 0.0, "adds biases to the feed-forward"),
    ])?;
    keys.inert(&["pretraining_tp"]);
    finish(&keys)?;
    let layer = |i: usize| {
        let feed_forward = FeedForward::gated(sizes.ffn[i], sizes.act);
        Layer { residual_scale, ..Layer::new(Mixer::Latent(attention), feed_forward) }
    };
    let layers = (0..sizes.layers()).map(layer).collect();
    Ok(Decoder {
        embedding_scale,
        logit_scale,
        ..Decoder::new(FAMILY.name, &sizes, vec![rotary], layers)
    })
}
