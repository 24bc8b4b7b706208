//! Qwen3-Next (Qwen Team 2025): linear attention with a gated delta rule (arXiv:2412.06464) in three of four layers,
//! attention whose result is gated in the fourth, and experts with one of all rows beside them.

use super::checkpoint::Checkpoint;
use super::decoder::{
    Attention, Decoder, DeltaNet, Layer, Mixer, Part, Projections, QkNorm, Renamed, Shared, Sizes,
    finish,
};
use super::family::Family;
use super::keys::Keys;
use super::qwen3_moe::feed_forward;
use super::rotary::Rotary;
use crate::error::Result;
use crate::ops::Unary;
use crate::profile::{Preset, Presets};
use alloc::boxed::Box;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// The family's row.
pub(super) const FAMILY: Family = Family {
    name: "qwen3_next",
    presets: Presets { one_row: Preset::Qwen35Decode, rows: Preset::Qwen35Prefill },
    gguf: &["qwen3next"],
    transformers: &["qwen3_next"],
    open: |checkpoint| Ok(Box::new(read(checkpoint)?)),
};

fn read(checkpoint: &Checkpoint<'_>) -> Result<Decoder> {
    let keys = checkpoint.keys()?;
    let projections = match keys.is_gguf() {
        true => Projections::GatesByHead,
        false => Projections::ByHead,
    };
    let delta = delta_net(&keys, false, projections)?;
    decoder(checkpoint, &keys, delta, FAMILY.name)
}

/// What this family shares with Qwen3.5.
pub(super) fn decoder(
    checkpoint: &Checkpoint<'_>,
    keys: &Keys<'_>,
    delta: DeltaNet,
    family: &'static str,
) -> Result<Decoder> {
    let sizes = Sizes::read(checkpoint, keys, Unary::Silu, None)?;
    let rotary = Rotary::read(keys, sizes.head_dim, sizes.context)?;
    let attends = attending(keys, sizes.layers())?;
    let shared = keys.word("expert_shared_feed_forward_length", "shared_expert_intermediate_size");
    let shared = keys.opt_positive(shared)?.map(|width| Shared { width, scored: true });
    let feed_forward = feed_forward(checkpoint, keys, &sizes, true, shared)?;
    let layer = |i: usize| {
        let mixer = match attends[i] {
            true => Mixer::Attention(Attention {
                qk_norm: Some(QkNorm::Head),
                gated: true,
                ..Attention::new(sizes.attention(i), Some(false))
            }),
            false => Mixer::DeltaNet(delta),
        };
        Layer::new(mixer, feed_forward(i))
    };
    let layers = (0..sizes.layers()).map(layer).collect();
    keys.neutral(&[
        ("attention_bias", 0.0, "adds biases to the attention"),
        ("nextn_predict_layers", 0.0, "adds layers that guess further tokens"),
    ])?;
    finish(keys)?;
    Ok(Decoder {
        // The converter to GGUF added it already.
        norm_offset: if keys.is_gguf() { 0.0 } else { 1.0 },
        renamed: RENAMED,
        ..Decoder::new(family, &sizes, vec![rotary], layers)
    })
}

const RENAMED: &[Renamed] = &[
    (Part::FfnNorm, "post_attention_norm", "post_attention_layernorm"),
    (Part::Conv, "ssm_conv1d", "linear_attn.conv1d"),
];

/// Which layers attend; the others have linear attention.
pub(super) fn attending(keys: &Keys<'_>, layers: usize) -> Result<Vec<bool>> {
    const TYPES: &str = "layer_types";
    const RECURRENT: &str = "attention.recurrent_layers";
    let n = layers as u64;
    let every = keys.opt_positive("full_attention_interval")?.unwrap_or(4);
    if let Some(list) = keys.opt_bools(RECURRENT, n)? {
        return Ok(list.into_iter().map(|recurrent| !recurrent).collect());
    }
    let Some(types) = keys.opt_strs(TYPES)? else {
        return Ok((1..=n).map(|i| i.is_multiple_of(every)).collect());
    };
    keys.one_each(TYPES, types.len(), n)?;
    let of = |ty: &&str| match *ty {
        "full_attention" => Ok(true),
        "linear_attention" => Ok(false),
        other => Err(keys.unsupported(
            TYPES,
            format!("layers of type `{other}` are not supported"),
            "supported: full_attention, linear_attention",
        )),
    };
    types.iter().map(of).collect()
}

/// Sizes of the linear attention.
pub(super) fn delta_net(
    keys: &Keys<'_>,
    tiled: bool,
    projections: Projections,
) -> Result<DeltaNet> {
    let key_heads_key = keys.word("ssm.group_count", "linear_num_key_heads");
    let key_heads = keys.positive(key_heads_key)?;
    let heads = keys.positive(keys.word("ssm.time_step_rank", "linear_num_value_heads"))?;
    if !heads.is_multiple_of(key_heads) {
        let what = format!("{key_heads} key heads do not divide {heads} value heads");
        return Err(keys.bad(key_heads_key, what));
    }
    let value_dim = match keys.is_gguf() {
        true => keys.positive("ssm.inner_size")? / heads,
        false => keys.positive("linear_value_head_dim")?,
    };
    let kernel_key = keys.word("ssm.conv_kernel", "linear_conv_kernel_dim");
    let kernel = keys.positive(kernel_key)?;
    if !(2..=64).contains(&kernel) || value_dim == 0 {
        let what = format!("a convolution of {kernel} taps and values of {value_dim}");
        return Err(keys.bad(kernel_key, what));
    }
    let key_dim = keys.positive(keys.word("ssm.state_size", "linear_key_head_dim"))?;
    Ok(DeltaNet { key_heads, heads, key_dim, value_dim, kernel, tiled, projections })
}
