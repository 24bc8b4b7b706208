//! Gemma 4 (Gemma Team 2026), its text model: Gemma 3 with heads and rotary positions of their own in layers without a
//! window, values that are normalised, last layers that share the caches of earlier ones, what each layer takes of
//! the token itself, and in the 26B model experts beside every feed-forward.

use super::checkpoint::Checkpoint;
use super::decoder::{
    Attention, Banks, BranchNorms, Decoder, Experts, FeedForward, KvSource, Layer, Names, Part,
    QkNorm, Renamed, Sizes, Sliding, experts, finish, windows,
};
use super::family::Family;
use super::gemma2::softcap;
use super::keys::Keys;
use super::rotary::Rotary;
use crate::error::Result;
use crate::math;
use crate::ops::{Route, Unary};
use crate::profile::{Preset, Presets};
use alloc::boxed::Box;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// The family's row.
pub(super) const FAMILY: Family = Family {
    name: "gemma4",
    presets: Presets { one_row: Preset::GemmaDecode, rows: Preset::GemmaPrefill },
    gguf: &["gemma4"],
    transformers: &["gemma4_text"],
    open: |checkpoint| Ok(Box::new(read(checkpoint)?)),
};

const NAMES: &[Renamed] = &[
    (Part::Router, "ffn_gate_inp", "router.proj"),
    (Part::GateUpExperts, "ffn_gate_up_exps.weight", "experts.gate_up_proj"),
    (Part::DownExperts, "ffn_down_exps", "experts.down_proj"),
];

/// Heads of a layer's keys: how many, and how wide.
type Heads = (u64, u64);

fn read(checkpoint: &Checkpoint<'_>) -> Result<Decoder> {
    let keys = checkpoint.keys()?;
    let sizes = Sizes::read(checkpoint, &keys, Unary::Gelu, Some(true))?;
    let n = sizes.layers();
    let windows = windows(&keys, n, Sliding::AllBut(6))?;
    let heads = heads(&keys, &sizes, &windows)?;
    let rotary = rotaries(&keys, &sizes, &windows, &heads)?;
    let kv_source = kv_source(&keys, &windows)?;
    let keys_are_values = match keys.is_gguf() {
        // No key says it: a layer without a tensor of values uses its keys.
        true => {
            let names = Names { naming: checkpoint.naming(), renamed: NAMES };
            let name = |i| format!("{}.weight", names.layer(i, Part::V));
            (0..n).map(|i| checkpoint.tensor(&name(i)).is_none()).collect()
        }
        false => {
            let all = keys.opt_bool("attention_k_eq_v")?.unwrap_or(false);
            Vec::from_iter(windows.iter().map(|window| all && window.is_none()))
        }
    };
    let shared = |i: usize| matches!(kv_source[i], KvSource::Shared(_));
    let wide = keys.opt_bool("use_double_wide_mlp")?.unwrap_or(false);
    let width = |i: usize| if wide && shared(i) { 2 * sizes.ffn[i] } else { sizes.ffn[i] };
    let moe = keys.is_gguf() || keys.opt_bool("enable_moe_block")?.unwrap_or(false);
    let experts = if moe { experts(&keys, sizes.ffn[0], sizes.act)? } else { None };
    let experts = experts.map(|e| Experts {
        route: Route { normalise: true, ..e.route },
        weighted: true,
        folder: Banks::Halves,
        ..e
    });
    let input_key = keys.word("embedding_length_per_layer_input", "hidden_size_per_layer_input");
    let layer_inputs = keys.opt_u64(input_key)?.filter(|&n| n > 0);
    if !keys.is_gguf() {
        // Without experts the keys of experts say nothing.
        keys.inert(&[
            "num_experts",
            "top_k_experts",
            "num_experts_per_tok",
            "moe_intermediate_size",
        ]);
        keys.inert(&["vocab_size_per_layer_input", "initializer_range"]);
        keys.neutral(&[
            ("attention_bias", 0.0, "adds biases to the attention"),
            ("use_bidirectional_attention", 0.0, "lets rows see those after them"),
        ])?;
    }
    let logit_softcap = softcap(&keys, "final_logit_softcapping")?;
    let layer = |i: usize| {
        let (kv_heads, head_dim) = heads[i];
        let attention = Attention {
            window: windows[i],
            rotary: Some(usize::from(windows[i].is_some())),
            scale: Some(1.0),
            qk_norm: Some(QkNorm::Head),
            v_norm: !shared(i),
            kv_source: match kv_source[i] {
                KvSource::Own if keys_are_values[i] => KvSource::KeysAsValues,
                kv_source => kv_source,
            },
            ..Attention::new([sizes.heads[i], kv_heads, head_dim], Some(false))
        };
        let feed_forward = match &experts {
            Some(experts) => FeedForward::Both { width: width(i), experts: experts.clone() },
            None => FeedForward::gated(width(i), sizes.act),
        };
        Layer { norms: BranchNorms::Both, ..Layer::new(attention, feed_forward) }
    };
    let layers = (0..n).map(layer).collect();
    finish(&keys)?;
    Ok(Decoder {
        embedding_scale: math::sqrtf(sizes.dim as f32),
        logit_softcap,
        layer_inputs,
        layer_scales: true,
        renamed: NAMES,
        ..Decoder::new(FAMILY.name, &sizes, rotary, layers)
    })
}

/// Heads of keys of each layer: those of layers without a window have sizes of their own.
fn heads(keys: &Keys<'_>, sizes: &Sizes, windows: &[Option<u64>]) -> Result<Vec<Heads>> {
    if keys.is_gguf() {
        // The width of a head without a window is the one that all files have a key for.
        let slides = keys.opt_positive("attention.key_length_swa")?.unwrap_or(sizes.head_dim);
        let values = keys.opt_positive("attention.value_length_swa")?.unwrap_or(slides);
        if values != slides {
            let what = format!("values of {values} elements, and keys of {slides}");
            return Err(keys.bad("attention.value_length_swa", what));
        }
        let width = |window: &Option<u64>| if window.is_some() { slides } else { sizes.head_dim };
        let all = sizes.kv_heads.iter().zip(windows);
        return Ok(all.map(|(&kv, window)| (kv, width(window))).collect());
    }
    let full_dim = keys.opt_positive("global_head_dim")?.unwrap_or(sizes.head_dim);
    let full_kv = keys.opt_positive("num_global_key_value_heads")?;
    let own = keys.object("per_layer_config")?;
    let mut all = Vec::with_capacity(windows.len());
    for (i, window) in windows.iter().enumerate() {
        let mut heads = (sizes.kv_heads[i], sizes.head_dim);
        if window.is_none() {
            heads = (full_kv.unwrap_or(heads.0), full_dim);
        }
        // What transformers 5 writes.
        let own = match &own {
            Some(own) => own.object(&format!("{i}"))?,
            None => None,
        };
        if let Some(own) = own {
            heads.0 = own.opt_positive("num_key_value_heads")?.unwrap_or(heads.0);
            heads.1 = own.opt_positive("head_dim")?.unwrap_or(heads.1);
        }
        if !sizes.heads[i].is_multiple_of(heads.0) {
            let what =
                format!("{} key heads do not divide {} query heads", heads.0, sizes.heads[i]);
            return Err(keys.bad("num_global_key_value_heads", what));
        }
        all.push(heads);
    }
    Ok(all)
}

/// Rotary positions of layers without a window, and of those with one.
fn rotaries(
    keys: &Keys<'_>,
    sizes: &Sizes,
    windows: &[Option<u64>],
    heads: &[Heads],
) -> Result<Vec<Rotary>> {
    let width = |slides: bool| {
        let layer = windows.iter().position(|window| window.is_some() == slides);
        layer.map_or(sizes.head_dim, |layer| heads[layer].1)
    };
    let (full, slides) = (width(false), width(true));
    if keys.is_gguf() {
        let base = keys.opt_above_zero("rope.freq_base_swa")?.unwrap_or(10000.0);
        if let Some(dims) = keys.opt_u64("rope.dimension_count_swa")?.filter(|&n| n != slides) {
            let what = format!("{dims} of {slides} dimensions turn");
            return Err(keys.bad("rope.dimension_count_swa", what));
        }
        return Ok(vec![Rotary::read(keys, full, sizes.context)?, Rotary::plain(base, slides)]);
    }
    let both = keys.object("rope_parameters")?;
    let of = |kind, width| {
        let own = both.as_ref().map(|both| both.object(kind)).transpose()?.flatten();
        Rotary::from_objects(keys, own.as_ref(), width, sizes.context)
    };
    Ok(vec![of("full_attention", full)?, of("sliding_attention", slides)?])
}

/// Where each layer's keys and values come from: the last layers have no caches, and share those of the last layer
/// before them that has a window, or none, as they do.
fn kv_source(keys: &Keys<'_>, windows: &[Option<u64>]) -> Result<Vec<KvSource>> {
    let key = keys.word("attention.shared_kv_layers", "num_kv_shared_layers");
    let n = windows.len();
    let shared = keys.opt_u64(key)?.unwrap_or(0);
    let own = usize::try_from(shared).ok().and_then(|shared| n.checked_sub(shared));
    let own = own.ok_or_else(|| keys.bad(key, format!("{shared} of {n} layers")))?;
    let of = |i: usize| {
        if i < own {
            return Ok(KvSource::Own);
        }
        let alike = |j: &usize| windows[*j].is_some() == windows[i].is_some();
        (0..own).rev().find(alike).map(KvSource::Shared).ok_or_else(|| {
            keys.bad(key, format!("layer {i} has no caches, and none before it has such"))
        })
    };
    (0..n).map(of).collect()
}
