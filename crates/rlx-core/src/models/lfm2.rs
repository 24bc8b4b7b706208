//! LFM2 (Liquid AI 2025, arXiv:2511.23404): short convolutions in most layers, and attention with norms of heads in
//! some.

use super::checkpoint::Checkpoint;
use super::decoder::{
    Attention, Decoder, FeedForward, Layer, Mixer, Part, QkNorm, ShortConv, Sizes, finish,
};
use super::family::Family;
use super::keys::Keys;
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
    name: "lfm2",
    presets: Presets { one_row: Preset::Llama32Decode, rows: Preset::Llama32Prefill },
    gguf: &["lfm2"],
    transformers: &["lfm2"],
    open: |checkpoint| Ok(Box::new(read(checkpoint)?)),
};

fn read(checkpoint: &Checkpoint<'_>) -> Result<Decoder> {
    let keys = checkpoint.keys()?;
    let sizes = Sizes::read_of_some(checkpoint, &keys, Unary::Silu, Some(true))?;
    let rotary = Rotary::read(&keys, sizes.head_dim, sizes.context)?;
    let kernel = keys.positive(keys.word("shortconv.l_cache", "conv_L_cache"))?;
    let attends = attending(&keys, &sizes)?;
    let layer = |i: usize| -> Result<Layer> {
        let mixer = match attends[i] {
            true => Mixer::Attention(Attention {
                qk_norm: Some(QkNorm::Head),
                ..Attention::new(sizes.attention(i), Some(false))
            }),
            false => Mixer::ShortConv(ShortConv { kernel }),
        };
        Ok(Layer::new(mixer, FeedForward::gated(width(&keys, sizes.ffn[i])?, sizes.act)))
    };
    let layers = (0..sizes.layers()).map(layer).collect::<Result<_>>()?;
    keys.neutral(&[("conv_bias", 0.0, "adds biases to the convolutions")])?;
    // Other names of values that are read, of which published configurations have one or both.
    keys.inert(&["block_dim", "block_norm_eps", "block_mlp_init_scale", "block_out_init_scale"]);
    keys.inert(&["block_use_swiglu", "block_use_xavier_init", "conv_dim", "conv_dim_out"]);
    keys.inert(&["conv_use_xavier_init", "num_heads", "use_pos_enc", "theta"]);
    let tied = keys.opt_bool("tie_embedding")?;
    finish(&keys)?;
    Ok(Decoder {
        // In spite of its name, the norm behind the last layer.
        renamed: &[
            (Part::OutputNorm, "token_embd_norm", "model.embedding_norm"),
            (Part::AttnNorm, "attn_norm", "operator_norm"),
            (Part::FfnNorm, "ffn_norm", "ffn_norm"),
            (Part::QNorm, "attn_q_norm", "self_attn.q_layernorm"),
            (Part::KNorm, "attn_k_norm", "self_attn.k_layernorm"),
            (Part::O, "attn_output", "self_attn.out_proj"),
            (Part::Gate, "ffn_gate", "feed_forward.w1"),
            (Part::Up, "ffn_up", "feed_forward.w3"),
            (Part::Down, "ffn_down", "feed_forward.w2"),
        ],
        tied: tied.or(sizes.tied),
        ..Decoder::new(FAMILY.name, &sizes, vec![rotary], layers)
    })
}

/// Which layers attend: in GGUF files those that have key heads.
fn attending(keys: &Keys<'_>, sizes: &Sizes) -> Result<Vec<bool>> {
    const TYPES: &str = "layer_types";
    const INDICES: &str = "full_attn_idxs";
    let layers = sizes.layers();
    if keys.is_gguf() {
        return Ok(sizes.kv_heads.iter().map(|&n| n > 0).collect());
    }
    if let Some(i) = sizes.kv_heads.iter().position(|&n| n == 0) {
        return Err(keys.bad("num_key_value_heads", format!("layer {i} has no key heads")));
    }
    let indices = keys.opt_u64s(INDICES)?;
    let Some(types) = keys.opt_strs(TYPES)? else {
        let indices = indices.unwrap_or_else(|| (0..layers as u64).collect());
        return Ok((0..layers as u64).map(|i| indices.contains(&i)).collect());
    };
    keys.one_each(TYPES, types.len(), layers as u64)?;
    let of = |ty: &&str| match *ty {
        "full_attention" => Ok(true),
        "conv" => Ok(false),
        other => Err(keys.unsupported(
            TYPES,
            format!("layers of type `{other}` are not supported"),
            "supported: full_attention, conv",
        )),
    };
    types.iter().map(of).collect()
}

/// F: of a `config.json` two thirds of what it says, times a factor, rounded up to a multiple.
fn width(keys: &Keys<'_>, said: u64) -> Result<u64> {
    let adjusted = keys.opt_bool("block_auto_adjust_ff_dim")?.unwrap_or(!keys.is_gguf());
    let factor = keys.opt_above_zero("block_ffn_dim_multiplier")?.unwrap_or(1.0);
    let multiple = keys.opt_positive("block_multiple_of")?.unwrap_or(256);
    let said = keys.opt_positive("block_ff_dim")?.unwrap_or(said);
    if !adjusted {
        return Ok(said);
    }
    let width = (f64::from(factor) * (2 * said / 3) as f64) as u64;
    Ok(width.max(1).div_ceil(multiple) * multiple)
}
