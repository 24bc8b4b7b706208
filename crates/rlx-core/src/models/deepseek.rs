//! DeepSeek V2 (arXiv:2405.04434) and V3 (arXiv:2412.19437): attention over latent rows, dense first layers, and
//! behind them many small experts with some that all rows use.

use super::checkpoint::Checkpoint;
use super::decoder::{
    Decoder, Experts, FeedForward, LatentAttention, Layer, Mixer, Part, Renamed, Sizes, finish,
    routed,
};
use super::family::Family;
use super::keys::Keys;
use super::rotary::{Rotary, yarn_score};
use crate::error::Result;
use crate::math;
use crate::ops::{RopeStyle, Route, Unary};
use crate::profile::{Preset, Presets};
use alloc::boxed::Box;
use alloc::format;
use alloc::vec;

/// The family's row.
pub(super) const FAMILY: Family = Family {
    name: "deepseek",
    presets: Presets { one_row: Preset::Llama32Decode, rows: Preset::Llama32Prefill },
    gguf: &["deepseek2"],
    transformers: &["deepseek_v2", "deepseek_v3"],
    open: |checkpoint| Ok(Box::new(read(checkpoint)?)),
};

const NAMES: &[Renamed] = &[
    (Part::SharedGate, "ffn_gate_shexp", "mlp.shared_experts.gate_proj"),
    (Part::SharedUp, "ffn_up_shexp", "mlp.shared_experts.up_proj"),
    (Part::SharedDown, "ffn_down_shexp", "mlp.shared_experts.down_proj"),
];

/// How configurations of V2 and V3 say that experts are chosen, and whether by groups.
const CHOICES: [(&str, bool); 3] =
    [("greedy", false), ("group_limited_greedy", true), ("noaux_tc", true)];

fn read(checkpoint: &Checkpoint<'_>) -> Result<Decoder> {
    let keys = checkpoint.keys()?;
    let sizes = Sizes::read(checkpoint, &keys, Unary::Silu, Some(false))?;
    let (attention, rotary) = latent(&keys, &sizes)?;
    let dense_key = keys.word("leading_dense_block_count", "first_k_dense_replace");
    let dense = keys.opt_u64(dense_key)?.unwrap_or(0);
    let (sigmoid, choice_bias) = match keys.is_gguf() {
        // Whether the choice has a bias is said by the tensors.
        true => (false, checkpoint.names().any(|name| name.ends_with(".exp_probs_b.bias"))),
        false => {
            let third = checkpoint.architecture()? == "deepseek_v3";
            (third, third)
        }
    };
    let default = Route { sigmoid, choice_bias, normalise: sigmoid, ..Route::softmax(1) };
    let by_groups = by_groups(&keys)?;
    let experts = routed(&keys, &sizes, default)?.map(|e| match by_groups {
        true => e,
        false => {
            Experts { route: Route { groups: 1, top_groups: 1, group_sum: 1, ..e.route }, ..e }
        }
    });
    keys.neutral(&[
        ("attention_bias", 0.0, "adds biases to the attention"),
        ("mlp_bias", 0.0, "adds biases to the feed-forward"),
        ("moe_layer_freq", 1.0, "has experts in some layers only"),
    ])?;
    let unused_layers = keys.opt_u64("num_nextn_predict_layers")?.unwrap_or(0);
    // These concern training, or say what the tensors say.
    keys.inert(&["aux_loss_alpha", "seq_aux", "ep_size", "pretraining_tp"]);
    keys.inert(&["rope_interleave", "expert_shared_feed_forward_length"]);
    finish(&keys)?;
    let layer = |i: usize| {
        let feed_forward = match &experts {
            Some(experts) if i as u64 >= dense => FeedForward::Experts(experts.clone()),
            _ => FeedForward::gated(sizes.ffn[i], sizes.act),
        };
        Layer::new(Mixer::Latent(attention), feed_forward)
    };
    let layers = (0..sizes.layers()).map(layer).collect();
    Ok(Decoder {
        rope_style: RopeStyle::Adjacent,
        unused_layers,
        renamed: NAMES,
        ..Decoder::new(FAMILY.name, &sizes, vec![rotary], layers)
    })
}

/// Whether experts are chosen in groups, as far as the key of the choice says.
fn by_groups(keys: &Keys<'_>) -> Result<bool> {
    const KEY: &str = "topk_method";
    let Some(method) = keys.opt_str(KEY)? else { return Ok(true) };
    let known = CHOICES.iter().find(|choice| choice.0 == method);
    known.map(|choice| choice.1).ok_or_else(|| {
        let what = format!("a choice of experts by `{method}` is not supported");
        keys.unsupported(KEY, what, "supported: greedy, group_limited_greedy, noaux_tc")
    })
}

/// The attention of all layers, and its rotary positions.
pub(super) fn latent(keys: &Keys<'_>, sizes: &Sizes) -> Result<(LatentAttention, Rotary)> {
    const TURNED: [&str; 2] = ["rope.dimension_count", "qk_rope_head_dim"];
    let heads = sizes.heads[0];
    if sizes.heads.iter().any(|&n| n != heads) {
        let key = keys.word("attention.head_count", "num_attention_heads");
        return Err(keys.bad(key, "layers have different numbers of heads"));
    }
    let turned_key = keys.word(TURNED[0], TURNED[1]);
    let turned = keys.positive(turned_key)?;
    let latent = keys.positive(keys.word("attention.kv_lora_rank", "kv_lora_rank"))?;
    let query_latent = keys.opt_u64(keys.word("attention.q_lora_rank", "q_lora_rank"))?;
    let (plain, value) = if keys.is_gguf() {
        // Newer files say the width of what is cached first, and that of a head apart.
        let own = |name: &str, newer: &str| match keys.opt_positive(newer)? {
            Some(width) => Ok(width),
            None => keys.positive(name),
        };
        let whole = own("attention.key_length", "attention.key_length_mla")?;
        let plain = whole
            .checked_sub(turned)
            .filter(|&n| n > 0)
            .ok_or_else(|| keys.bad(turned_key, format!("{turned} of {whole} dimensions turn")))?;
        (plain, own("attention.value_length", "attention.value_length_mla")?)
    } else {
        keys.inert(&["qk_head_dim"]);
        (keys.positive("qk_nope_head_dim")?, keys.positive("v_head_dim")?)
    };
    // Every width is below 2^32; so must be what all heads have together.
    let all = heads.checked_mul(turned + plain + value + latent);
    if all.is_none_or(|all| all > u64::from(u32::MAX)) {
        let key = keys.word("attention.head_count", "num_attention_heads");
        return Err(keys.bad(key, format!("{heads} heads of such widths are too many")));
    }
    let width = turned + plain;
    let scale = yarn_score(keys, sizes.context)? / math::sqrtf(width as f32);
    let rotary = Rotary::read(keys, turned, sizes.context)?;
    if rotary.dims != turned {
        let what = format!("{} of {turned} rotary dimensions turn", rotary.dims);
        return Err(keys.bad(turned_key, what));
    }
    let query_latent = query_latent.filter(|&n| n > 0);
    let attention = LatentAttention { heads, plain, turned, value, latent, query_latent, scale };
    Ok((attention, rotary))
}
