//! What the configurations of SAM and SAM 2 have in common.

use super::super::keys::Keys;
use super::super::transformers;
use super::mask::{MaskDecoder, MaskNetwork};
use crate::error::Result;
use crate::ops::Unary;
use alloc::format;

/// No grid or window has more places along an edge: four times what is published.
pub(in crate::models) const EDGE_MOST: u64 = 256;
/// No part is wider: products of a few sizes stay far from 64 bits.
pub(in crate::models) const WIDTH_MOST: u64 = 1 << 20;

/// What published configurations repeat in each part although it changes nothing.
pub(in crate::models) const REPEATED: &[&str] = &[
    "bad_words_ids",
    "cross_attention_hidden_size",
    "dropout",
    "exponential_decay_length_penalty",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "initializer_factor",
    "is_decoder",
    "prefix",
    "pruned_heads",
    "suppress_tokens",
    "tie_word_embeddings",
];

/// The keys of a part of the configuration, without those that change nothing.
pub(in crate::models) fn part<'a>(keys: &Keys<'a>, name: &str) -> Result<Keys<'a>> {
    let Some(part) = keys.object(name)? else {
        return Err(keys.bad(name, format!("{name} is missing")));
    };
    transformers::common(&part)?;
    part.inert(REPEATED);
    Ok(part)
}

/// A number that is the same along both axes.
pub(in crate::models) fn both(keys: &Keys<'_>, name: &str, usual: u64) -> Result<u64> {
    match keys.opt_u64s(name) {
        Ok(None) => Ok(usual),
        Ok(Some(list)) => match list.as_slice() {
            &[a, b] if a == b => Ok(a),
            _ => Err(keys.bad(name, format!("{name} is {list:?}, expected two equal numbers"))),
        },
        Err(_) => Ok(keys.opt_u64(name)?.unwrap_or(usual)),
    }
}

/// A width: 1 or more, and no more than any model has.
pub(in crate::models) fn width(keys: &Keys<'_>, name: &str) -> Result<u64> {
    at_most(keys, name, keys.positive(name)?, WIDTH_MOST)
}

pub(in crate::models) fn at_most(keys: &Keys<'_>, name: &str, n: u64, most: u64) -> Result<u64> {
    match n > most {
        true => Err(keys.bad(name, format!("{name} is {n}, at most {most} is read"))),
        false => Ok(n),
    }
}

/// Fails unless a size says again what another part said.
pub(in crate::models) fn same(
    keys: &Keys<'_>,
    name: &str,
    have: u64,
    need: u64,
    of: &str,
) -> Result<()> {
    match have == need {
        true => Ok(()),
        false => Err(keys.bad(name, format!("{name} is {have}, and {of} is {need}"))),
    }
}

/// Fails unless `n` is made of parts of `by`.
pub(in crate::models) fn divides(
    keys: &Keys<'_>,
    name: &str,
    by: u64,
    n: u64,
    of: &str,
) -> Result<u64> {
    match n.is_multiple_of(by) {
        true => Ok(n / by),
        false => Err(keys.bad(name, format!("{name} {by} does not divide {of} of {n}"))),
    }
}

impl MaskNetwork {
    /// What an image's encoder says of all that follows; the rest is filled in by those who read its parts.
    pub(in crate::models) fn blank(image: u64, grid: u64, width: u64, eps: f32) -> Self {
        MaskNetwork {
            image,
            grid,
            width,
            mask_channels: 4,
            mask_act: Unary::GeluErf,
            mask_eps: eps,
            decoder: MaskDecoder {
                layers: 1,
                heads: 1,
                ffn_dim: 1,
                act: Unary::Relu,
                cross: 1,
                eps,
                masks: 1,
                score_layers: 2,
                score_dim: 1,
            },
            second: None,
        }
    }

    /// Reads `prompt_encoder_config`.
    pub(in crate::models) fn prompts(&mut self, keys: &Keys<'_>) -> Result<()> {
        keys.neutral(&[("num_point_embeddings", 4.0, "gives other labels to points")])?;
        for (name, need) in [
            ("image_size", self.image),
            ("patch_size", self.image / self.grid),
            ("image_embedding_size", self.grid),
        ] {
            if let Some(have) = keys.opt_u64(name)? {
                same(keys, name, have, need, "that of vision_config")?;
            }
        }
        let have = width(keys, "hidden_size")?;
        same(keys, "hidden_size", have, self.width, "the width of vision_config")?;
        self.mask_channels = width(keys, "mask_input_channels")?;
        if !self.mask_channels.is_multiple_of(4) {
            let what = format!("mask_input_channels is {}, no multiple of 4", self.mask_channels);
            return Err(keys.bad("mask_input_channels", what));
        }
        self.mask_act = transformers::activation(keys, "hidden_act", Unary::GeluErf)?;
        self.mask_eps = keys.opt_f32("layer_norm_eps")?.unwrap_or(1e-6);
        Ok(())
    }

    /// Reads `mask_decoder_config`, but for what SAM 2 has more.
    pub(in crate::models) fn decoded(&mut self, keys: &Keys<'_>) -> Result<()> {
        let c = width(keys, "hidden_size")?;
        same(keys, "hidden_size", c, self.width, "the width of vision_config")?;
        if !c.is_multiple_of(8) {
            // Masks are made at a fourth, then an eighth of the width.
            return Err(keys.bad("hidden_size", format!("hidden_size is {c}, no multiple of 8")));
        }
        const HEADS: &str = "num_attention_heads";
        const RATE: &str = "attention_downsample_rate";
        let heads = keys.positive(HEADS)?;
        let cross = divides(keys, RATE, keys.opt_positive(RATE)?.unwrap_or(2), c, "hidden_size")?;
        divides(keys, HEADS, heads, c, "hidden_size")?;
        divides(keys, HEADS, heads, cross, "the width of cross attention")?;
        self.decoder = MaskDecoder {
            layers: keys.layers("num_hidden_layers")?,
            heads,
            ffn_dim: width(keys, "mlp_dim")?,
            act: transformers::activation(keys, "hidden_act", Unary::Relu)?,
            cross,
            eps: keys.opt_f32("layer_norm_eps")?.unwrap_or(1e-6),
            masks: at_most(
                keys,
                "num_multimask_outputs",
                keys.positive("num_multimask_outputs")?,
                64,
            )?,
            score_layers: keys.layers("iou_head_depth")?,
            score_dim: width(keys, "iou_head_hidden_dim")?,
        };
        Ok(())
    }
}
