//! Keys of a GGUF file: what a decoder is, in the words that `models/decoder/read.rs`, `models/rotary.rs` and the
//! families read.

use crate::error::{Code, Error, Result};
use crate::gguf::{Array, Value};
use crate::math;
use crate::models::decoder::{
    Attention, Decoder, Experts, FeedForward, KvSource, LatentAttention, Layer, Mixer,
};
use crate::models::gpt_oss;
use crate::models::rotary::{Rotary, yarn_attention};
use crate::ops::RopeScaling;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Keys of an architecture, in the order in which they are written.
struct Keys {
    architecture: &'static str,
    all: Vec<(String, Value)>,
}

impl Keys {
    fn put(&mut self, name: &str, value: Value) {
        self.all.push((format!("{}.{name}", self.architecture), value));
    }

    /// An integer; GGUF has them in 32 bits.
    fn number(&mut self, name: &str, n: u64) -> Result<()> {
        self.put(name, Value::U32(short(name, n)?));
        Ok(())
    }

    /// One number for all layers, or a list where they differ.
    fn each(&mut self, name: &str, all: &[u64]) -> Result<()> {
        let all = all.iter().map(|&n| short(name, n)).collect::<Result<Vec<u32>>>()?;
        let alike = all.windows(2).all(|two| two[0] == two[1]);
        self.put(
            name,
            match (alike, all.first()) {
                (true, Some(&first)) => Value::U32(first),
                _ => Value::Array(Array::U32(all)),
            },
        );
        Ok(())
    }

    fn float(&mut self, name: &str, x: f32) {
        self.put(name, Value::F32(x));
    }

    fn flag(&mut self, name: &str, on: bool) {
        self.put(name, Value::Bool(on));
    }
}

fn short(name: &str, n: u64) -> Result<u32> {
    u32::try_from(n).map_err(|_| refused(format!("{name} is {n}, and GGUF has 32 bits for it")))
}

/// The error for what a file of that architecture cannot say.
pub(super) fn refused(what: impl Into<String>) -> Error {
    Error::new(Code::Unsupported, what).hint("RLX runs the folder itself without a conversion")
}

/// The keys of a decoder in files of that architecture.
pub(super) fn keys(model: &Decoder, architecture: &'static str) -> Result<Vec<(String, Value)>> {
    let mut keys = Keys { architecture, all: Vec::new() };
    let k = &mut keys;
    k.number("block_count", model.layers.len() as u64)?;
    k.number("context_length", model.context)?;
    k.number("embedding_length", model.dim)?;
    k.number("vocab_size", model.vocab)?;
    k.each("feed_forward_length", &widths(model))?;
    k.float("attention.layer_norm_rms_epsilon", model.eps);
    attention(k, model)?;
    windows(k, model)?;
    rotary(k, model)?;
    experts(k, model)?;
    match architecture {
        "granite" | "minicpm" | "minicpm3" => {
            k.float("embedding_scale", model.embedding_scale);
            k.float("residual_scale", model.layers.first().map_or(1.0, |l| l.residual_scale));
            k.float("logit_scale", model.logit_scale);
        }
        _ => {}
    }
    if let Some(bound) = model.logit_softcap {
        k.float("final_logit_softcapping", bound);
    }
    if architecture == "gemma4" {
        // llama.cpp wants the key where there is nothing, too.
        k.number("embedding_length_per_layer_input", model.layer_inputs.unwrap_or(0))?;
    }
    recurrences(k, model)?;
    Ok(keys.all)
}

/// F of each layer; where experts have a key of their own, that of a layer without them.
fn widths(model: &Decoder) -> Vec<u64> {
    let dense = model.layers.iter().find_map(|layer| match layer.feed_forward {
        FeedForward::Gated { width, .. } | FeedForward::Both { width, .. } => Some(width),
        FeedForward::Experts(_) => None,
    });
    let of = |layer: &Layer| match &layer.feed_forward {
        FeedForward::Gated { width, .. } | FeedForward::Both { width, .. } => *width,
        FeedForward::Experts(e) => dense.unwrap_or(e.width),
    };
    model.layers.iter().map(of).collect()
}

/// Layers with attention, and their attention.
fn attending(model: &Decoder) -> impl Iterator<Item = (usize, &Attention)> {
    model.layers.iter().enumerate().filter_map(|(i, layer)| match &layer.mixer {
        Mixer::Attention(a) => Some((i, a)),
        _ => None,
    })
}

/// Heads, their widths, and what happens to scores.
fn attention(k: &mut Keys, model: &Decoder) -> Result<()> {
    let latent = model.layers.iter().find_map(|layer| match &layer.mixer {
        Mixer::Latent(a) => Some(a),
        _ => None,
    });
    if let Some(a) = latent {
        return latent_attention(k, model, a);
    }
    let Some((_, first)) = attending(model).next() else {
        return Err(refused("no layer has attention, and GGUF files of decoders say its heads"));
    };
    let of = |layer: &Layer| match &layer.mixer {
        Mixer::Attention(a) => (a.heads, a.kv_heads),
        // Layers of short convolutions are those without key heads.
        Mixer::ShortConv(_) => (first.heads, 0),
        _ => (first.heads, first.kv_heads),
    };
    let (heads, kv_heads): (Vec<u64>, Vec<u64>) = model.layers.iter().map(of).unzip();
    k.each("attention.head_count", &heads)?;
    k.each("attention.head_count_kv", &kv_heads)?;
    // The width of heads without a window stands in the key that all files have.
    let width = |slides: bool| {
        attending(model).find(|(_, a)| a.window.is_some() == slides).map(|(_, a)| a.head_dim)
    };
    let own = k.architecture == "gemma4";
    let full = if own { width(false).unwrap_or(first.head_dim) } else { first.head_dim };
    for name in ["attention.key_length", "attention.value_length"] {
        k.number(name, full)?;
    }
    if own {
        let slides = width(true).unwrap_or(full);
        for name in
            ["attention.key_length_swa", "attention.value_length_swa", "rope.dimension_count_swa"]
        {
            k.number(name, slides)?;
        }
        let shared = attending(model).filter(|(_, a)| matches!(a.kv_source, KvSource::Shared(_)));
        k.number("attention.shared_kv_layers", shared.count() as u64)?;
    }
    if k.architecture == "granite" {
        let plain = (1.0 / math::sqrt(first.head_dim as f64)) as f32;
        k.float("attention.scale", first.scale.unwrap_or(plain));
    }
    if let Some(bound) = first.softcap {
        k.float("attn_logit_softcapping", bound);
    }
    Ok(())
}

fn latent_attention(k: &mut Keys, model: &Decoder, a: &LatentAttention) -> Result<()> {
    k.number("attention.head_count", a.heads)?;
    if let Some(width) = a.query_latent {
        k.number("attention.q_lora_rank", width)?;
    }
    k.number("attention.kv_lora_rank", a.latent)?;
    let width = a.plain + a.turned;
    if k.architecture == "deepseek2" {
        // What the cache holds comes first, one head of it; then what a head has.
        k.number("attention.head_count_kv", 1)?;
        k.number("attention.key_length", a.latent + a.turned)?;
        k.number("attention.value_length", a.latent)?;
        k.number("attention.key_length_mla", width)?;
        k.number("attention.value_length_mla", a.value)?;
    } else {
        k.number("attention.head_count_kv", a.heads)?;
        k.number("attention.key_length", width)?;
        k.number("attention.value_length", a.value)?;
    }
    // What YaRN multiplies scores by is the square of one and a part of the factor's logarithm.
    let by = f64::from(a.scale) * math::sqrt(width as f64);
    let scaling = model.rotary.first().map(|r| &r.scaling);
    if let Some(&RopeScaling::Yarn { factor, .. }) = scaling
        && factor > 1.0
        && (by - 1.0).abs() > 1e-6
    {
        let log = (math::sqrt(by) - 1.0) / math::log(f64::from(factor));
        k.float("rope.scaling.yarn_log_multiplier", log as f32);
    }
    Ok(())
}

/// Which layers slide where a file of that architecture does not say it: all but each n-th, or all.
fn sliding(architecture: &str) -> Option<u64> {
    match architecture {
        "gemma2" | "gpt-oss" => Some(2),
        "gemma3" | "gemma4" => Some(6),
        _ => None,
    }
}

fn windows(k: &mut Keys, model: &Decoder) -> Result<()> {
    const SIZE: &str = "attention.sliding_window";
    const PATTERN: &str = "attention.sliding_window_pattern";
    let windows: Vec<Option<u64>> = attending(model).map(|(_, a)| a.window).collect();
    let Some(window) = windows.iter().flatten().next().copied() else {
        // Files of this architecture are refused by llama.cpp without the key.
        if k.architecture == "phi3" {
            k.number(SIZE, 0)?;
        }
        return Ok(());
    };
    if windows.iter().flatten().any(|&other| other != window) {
        return Err(refused("layers have windows of several sizes, and GGUF files say one"));
    }
    // Files count a row's own.
    k.number(SIZE, window.saturating_add(1))?;
    let slides: Vec<bool> = windows.iter().map(Option::is_some).collect();
    let but_each = |every: u64| {
        (0..).zip(&slides).all(|(i, &slides): (u64, _)| slides == (i % every < every - 1))
    };
    let all = slides.iter().all(|&slides| slides);
    let default = match sliding(k.architecture) {
        Some(every) => but_each(every),
        None => all,
    };
    // Files of Gemma 4 always have the list.
    if default && k.architecture != "gemma4" {
        return Ok(());
    }
    let every = (2..=slides.len() as u64 + 1).find(|&every| but_each(every));
    match every.filter(|_| k.architecture != "gemma4") {
        Some(every) => k.number(PATTERN, every)?,
        None => k.put(PATTERN, Value::Array(Array::Bool(slides))),
    }
    Ok(())
}

/// Rotary positions: those of all layers, and in some architectures those of layers with a window.
fn rotary(k: &mut Keys, model: &Decoder) -> Result<()> {
    let Some(first) = model.rotary.first() else {
        return Err(refused(
            "the model has no rotary positions, and GGUF files of decoders say them",
        ));
    };
    k.number("rope.dimension_count", first.dims)?;
    k.float("rope.freq_base", first.base);
    if let Some(second) = model.rotary.get(1) {
        let plain = Rotary::plain(second.base, second.dims);
        if second.scaling != plain.scaling {
            return Err(refused("positions of layers with a window are scaled, which GGUF lacks"));
        }
        k.float("rope.freq_base_swa", second.base);
    }
    let kind = |k: &mut Keys, name: &str| k.put("rope.scaling.type", Value::String(name.into()));
    match &first.scaling {
        // Llama 3's divisors are a tensor.
        RopeScaling::None | RopeScaling::Llama3 { .. } => {}
        RopeScaling::Linear(factor) => {
            kind(k, "linear");
            k.float("rope.scaling.factor", *factor);
        }
        &RopeScaling::Yarn { factor, beta_fast, beta_slow, original, attention, truncate } => {
            if truncate == (k.architecture == "gpt-oss") {
                return Err(refused(
                    "the range of YaRN's frequencies is rounded otherwise than files of this \
                     architecture have it",
                ));
            }
            kind(k, "yarn");
            k.float("rope.scaling.factor", factor);
            k.number("rope.scaling.original_context_length", original as u64)?;
            k.float("rope.scaling.yarn_beta_fast", beta_fast);
            k.float("rope.scaling.yarn_beta_slow", beta_slow);
            let by_scores = matches!(model.layers[0].mixer, Mixer::Latent(_));
            let usual = if by_scores { 1.0 } else { yarn_attention(f64::from(factor)) };
            let own = f64::from(attention) / usual;
            if (own - 1.0).abs() > 1e-6 {
                k.float("rope.scaling.attn_factor", own as f32);
            }
        }
        RopeScaling::LongRope { attention, .. } => {
            if let Some((original, _)) = &first.long {
                k.number("rope.scaling.original_context_length", *original)?;
                k.float("rope.scaling.attn_factor", *attention);
            } else if *attention != 1.0 {
                return Err(refused(
                    "divided positions have a factor of their own, which GGUF lacks",
                ));
            }
        }
        RopeScaling::Dynamic { .. } => {
            return Err(refused("dynamic scaling of rotary positions, which GGUF files lack"));
        }
    }
    if k.architecture == "smollm3" {
        let turns = |(_, a): (usize, &Attention)| a.rotary.is_some();
        let turns: Vec<bool> = attending(model).map(turns).collect();
        let but_each = |every: u64| {
            (1..).zip(&turns).all(|(i, &turns): (u64, _)| turns != i.is_multiple_of(every))
        };
        let every = (1..=turns.len() as u64 + 1).find(|&every| but_each(every));
        let every = every.ok_or_else(|| {
            refused("layers without positions are not each n-th one, as GGUF files have them")
        })?;
        k.number("no_rope_layer_interval", every)?;
    }
    Ok(())
}

fn experts(k: &mut Keys, model: &Decoder) -> Result<()> {
    let of = |layer: &Layer| match &layer.feed_forward {
        FeedForward::Experts(e) | FeedForward::Both { experts: e, .. } => Some(e.clone()),
        FeedForward::Gated { .. } => None,
    };
    let Some(e): Option<Experts> = model.layers.iter().find_map(of) else { return Ok(()) };
    k.number("expert_count", e.count)?;
    k.number("expert_used_count", e.route.top_k as u64)?;
    if k.architecture != "llama" {
        k.number("expert_feed_forward_length", e.width)?;
    }
    // A key of RLX's, for models whose makers changed the published bound; llama.cpp has that one alone.
    if let Some(limit) = e.limit.filter(|&limit| limit != gpt_oss::LIMIT) {
        k.float("swiglu_limit", limit);
    }
    if k.architecture == "deepseek2" {
        let dense = model.layers.iter().take_while(|layer| of(layer).is_none()).count();
        k.number("leading_dense_block_count", dense as u64)?;
        let shared = e.shared.map_or(0, |s| s.width);
        if shared % e.width != 0 {
            return Err(refused("shared experts are no whole number of experts wide"));
        }
        k.number("expert_shared_count", shared / e.width)?;
        k.float("expert_weights_scale", e.route.scale.unwrap_or(1.0));
        k.flag("expert_weights_norm", e.route.normalise);
        k.number("expert_gating_func", if e.route.sigmoid { 2 } else { 1 })?;
        if e.route.has_groups() {
            k.number("expert_group_count", e.route.groups as u64)?;
            k.number("expert_group_used_count", e.route.top_groups as u64)?;
        }
    } else if let Some(shared) = e.shared {
        k.number("expert_shared_feed_forward_length", shared.width)?;
    }
    Ok(())
}

/// Linear attention and short convolutions.
fn recurrences(k: &mut Keys, model: &Decoder) -> Result<()> {
    let delta = model.layers.iter().find_map(|layer| match &layer.mixer {
        Mixer::DeltaNet(d) => Some(*d),
        _ => None,
    });
    if let Some(d) = delta {
        k.number("ssm.conv_kernel", d.kernel)?;
        k.number("ssm.state_size", d.key_dim)?;
        k.number("ssm.group_count", d.key_heads)?;
        k.number("ssm.time_step_rank", d.heads)?;
        k.number("ssm.inner_size", d.heads * d.value_dim)?;
        let attends = |layer: &Layer| matches!(layer.mixer, Mixer::Attention(_));
        let recurrent = model.layers.iter().map(|layer| !attends(layer)).collect();
        k.put("attention.recurrent_layers", Value::Array(Array::Bool(recurrent)));
        if let Some(first) = model.layers.iter().position(attends) {
            k.number("full_attention_interval", first as u64 + 1)?;
        }
    }
    let conv = model.layers.iter().find_map(|layer| match layer.mixer {
        Mixer::ShortConv(c) => Some(c),
        _ => None,
    });
    if let Some(conv) = conv {
        k.number("shortconv.l_cache", conv.kernel)?;
    }
    Ok(())
}
