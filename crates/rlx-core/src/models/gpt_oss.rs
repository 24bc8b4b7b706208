//! gpt-oss (OpenAI 2025, arXiv:2508.10925): sinks in the softmax of every head, windows in every other layer, and
//! experts with biases and a bounded gate in every layer.

use super::checkpoint::Checkpoint;
use super::decoder::{
    Attention, Banks, Decoder, Experts, FeedForward, Layer, Part, Renamed, Sizes, Sliding, experts,
    finish, windows,
};
use super::family::Family;
use super::rotary::Rotary;
use crate::error::Result;
use crate::ops::{RopeScaling, Route, Unary};
use crate::profile::{Preset, Presets};
use alloc::boxed::Box;
use alloc::format;
use alloc::vec;

/// The family's row.
pub(super) const FAMILY: Family = Family {
    name: "gpt_oss",
    presets: Presets { one_row: Preset::Llama32Decode, rows: Preset::Llama32Prefill },
    gguf: &["gpt-oss"],
    transformers: &["gpt_oss"],
    open: |checkpoint| Ok(Box::new(read(checkpoint)?)),
};

const NAMES: &[Renamed] = &[
    (Part::FfnNorm, "post_attention_norm", "post_attention_layernorm"),
    (Part::Router, "ffn_gate_inp", "mlp.router"),
    (Part::DownExperts, "ffn_down_exps", "mlp.experts.down_proj"),
];

/// Bounds of the gated product where the file does not say.
pub(super) const LIMIT: f32 = 7.0;
/// What [`Unary::QuickGelu`] multiplies its argument by.
const ALPHA: f64 = 1.702;

fn read(checkpoint: &Checkpoint<'_>) -> Result<Decoder> {
    let keys = checkpoint.keys()?;
    let sizes = Sizes::read(checkpoint, &keys, Unary::Silu, None)?;
    let mut rotary = Rotary::read(&keys, sizes.head_dim, sizes.context)?;
    if let (true, RopeScaling::Yarn { truncate, .. }) = (keys.is_gguf(), &mut rotary.scaling) {
        // The makers' range of frequencies is not rounded, which GGUF files have no key for.
        *truncate = false;
    }
    let windows = windows(&keys, sizes.layers(), Sliding::AllBut(2))?;
    let limit = keys.opt_above_zero("swiglu_limit")?.unwrap_or(LIMIT);
    keys.neutral(&[("swiglu_alpha", ALPHA, "is another slope of the gate's sigmoid")])?;
    let bias = if keys.is_gguf() { true } else { keys.opt_bool("attention_bias")?.unwrap_or(true) };
    let experts = experts(&keys, sizes.ffn[0], Unary::QuickGelu)?;
    let experts = experts.ok_or_else(|| {
        let key = keys.word("expert_count", "num_local_experts");
        keys.bad(key, format!("{key} is missing or 0"))
    })?;
    let experts = Experts {
        // The softmax of the chosen logits, which are the shares of all, divided by their sum.
        route: Route { normalise: true, ..experts.route },
        limit: Some(limit),
        bias: true,
        folder: Banks::TransposedPairs,
        ..experts
    };
    if let Some(packed) = keys.object("quantization_config")? {
        const METHOD: &str = "quant_method";
        if packed.opt_str(METHOD)? != Some("mxfp4") {
            let what = "weights that are packed otherwise than in MXFP4 are not supported";
            return Err(packed.unsupported(
                METHOD,
                what,
                "use the checkpoint of the model's maker",
            ));
        }
        // The tensors say which of them are packed.
        packed.inert(&["modules_to_not_convert"]);
    }
    finish(&keys)?;
    let layer = |i: usize| {
        let attention = Attention {
            window: windows[i],
            sinks: true,
            ..Attention::new(sizes.attention(i), Some(bias))
        };
        Layer::new(attention, FeedForward::Experts(experts.clone()))
    };
    let layers = (0..sizes.layers()).map(layer).collect();
    let model = Decoder::new(FAMILY.name, &sizes, vec![rotary], layers);
    Ok(Decoder { renamed: NAMES, ..model })
}
