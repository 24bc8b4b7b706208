//! LLaMA decoder (Touvron et al. 2023, arXiv:2302.13971, section 2.2), and models that are one with
//! other constants: Mistral (arXiv:2310.06825) and Granite.
//!
//! D model   F feed-forward   H query heads   K key and value heads   E width of a head   V tokens
//!
//! Differs from the paper: K may be smaller than H (grouped heads, arXiv:2305.13245), E need not be
//! D / H, layers may differ in H, K and F, a layer may see a window of positions only, heads of q and k may be
//! normalised, part of a head may turn, frequencies may be scaled for longer contexts, projections
//! may have biases, embeddings may serve as the head, and embeddings, scores, branches and logits may
//! have factors.

use super::checkpoint::{CONFIG, Checkpoint, Source};
use super::family::Family;
use super::keys::{Keys, Neutral};
use super::model::{Facts, Model, Task};
use super::naming::{Naming, TOKEN_EMBD, gguf_part};
use super::rotary::Rotary;
use super::tensors::Tensors;
use super::transformers;
use crate::error::{Code, Error, Result};
use crate::gguf::ModelFiles;
use crate::ir::hir::{
    AttentionSpec, FfnWeights, FusionPolicy, LinearWeights, Module, Tensor, Weight,
};
use crate::math;
use crate::ops::{Binary, Constant, RopeStyle, Unary, Zip};
use crate::profile::{Preset, Presets};
use crate::safetensors::json::Json;
use crate::types::DType;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// The family's row.
pub(super) const FAMILY: Family = Family {
    name: "llama32",
    presets: Presets { one_row: Preset::Llama32Decode, rows: Preset::Llama32Prefill },
    gguf: &["llama", "granite"],
    transformers: &["llama", "mistral", "granite"],
    open: |checkpoint| {
        let config = match checkpoint.source {
            Source::Gguf(files) => LlamaConfig::from_gguf(files)?,
            Source::Transformers { config, .. } => LlamaConfig::from_json(config)?,
        };
        Ok(Box::new(config))
    },
};

/// A layer's own sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layer {
    /// H.
    pub heads: u64,
    /// K.
    pub kv_heads: u64,
    /// F.
    pub ffn_dim: u64,
    /// Rows that a row sees before its own, at most.
    pub window: Option<u64>,
}

/// Sizes and constants of one checkpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct LlamaConfig {
    /// Decoder layers, one by one.
    pub layers: Vec<Layer>,
    /// D.
    pub dim: u64,
    /// E.
    pub head_dim: u64,
    /// V.
    pub vocab: u64,
    /// Positions the model was trained for.
    pub context: u64,
    /// Added to the mean square in norms.
    pub eps: f32,
    /// Angles.
    pub rotary: Rotary,
    /// What the gate of a feed-forward goes through.
    pub act: Unary,
    /// Multiplies the scores; `1 / sqrt(E)` if there is none.
    pub attention_scale: Option<f32>,
    /// Bounds the scores.
    pub attention_softcap: Option<f32>,
    /// Multiplies embeddings.
    pub embedding_scale: f32,
    /// Multiplies what a branch adds to its residual.
    pub residual_scale: f32,
    /// Divides logits.
    pub logit_scale: f32,
    /// Bounds logits.
    pub logit_softcap: Option<f32>,
    /// Whether the embeddings are the head; `None`: where the file has no head.
    pub tied: Option<bool>,
    /// Whether q, k, v and o have biases; `None`: as the file has them.
    pub attention_bias: Option<bool>,
    /// Whether linear layers of the feed-forward have biases.
    pub ffn_bias: Option<bool>,
}

/// Keys of GGUF files of which one value is read: the others make another architecture.
const NEUTRAL: &[Neutral] = &[
    ("expert_count", 0.0, "splits the feed-forward into experts"),
    ("expert_used_count", 0.0, "splits the feed-forward into experts"),
    ("attention.causal", 1.0, "lets rows see those after them"),
    ("attention.clamp_kqv", 0.0, "bounds q, k and v"),
    ("attention.max_alibi_bias", 0.0, "adds the distance to the scores"),
    ("use_parallel_residual", 0.0, "computes attention and feed-forward side by side"),
];

/// Keys of GGUF files that change nothing: the vocabulary is counted in the table, an embedding's
/// pooling is for another use, and the layout is that of all files.
const INERT: &[&str] =
    &["vocab_size", "pooling_type", "tensor_data_layout", "attention.layer_norm_epsilon"];

impl LlamaConfig {
    /// Reads a GGUF's metadata.
    ///
    /// # Errors
    /// `BadFile` naming the key that is missing, mistyped or 0; `Unsupported` for a key or a value
    /// that this version does not know.
    pub fn from_gguf(files: &ModelFiles) -> Result<Self> {
        let keys = Checkpoint::gguf(files).keys()?;
        let n = keys.layers("block_count")?;
        let heads = keys.each("attention.head_count", n)?;
        let dim = keys.positive("embedding_length")?;
        let head_dim = match keys.opt_positive("attention.key_length")? {
            Some(width) => width,
            None => width(&keys, "attention.head_count", dim, heads[0])?,
        };
        let values = keys.opt_positive("attention.value_length")?;
        if values.is_some_and(|width| width != head_dim) {
            return Err(keys.unsupported(
                "attention.value_length",
                format!("heads of values are not as wide as those of keys, {head_dim}"),
                "use a model whose heads have one width",
            ));
        }
        let ffn = keys.each("feed_forward_length", n)?;
        let kv = keys.opt_each("attention.head_count_kv", n)?;
        let kv = kv.unwrap_or_else(|| heads.clone());
        let windows = gguf_windows(&keys, n)?;
        let layers = (0..n as usize).map(|i| Layer {
            heads: heads[i],
            kv_heads: kv[i],
            ffn_dim: ffn[i],
            window: windows[i],
        });
        let vocab = files.tensor(TOKEN_EMBD)?.1.dims.first().copied().unwrap_or(0);
        let config = LlamaConfig {
            layers: layers.collect(),
            dim,
            head_dim,
            vocab,
            context: keys.positive("context_length")?,
            eps: keys.f32("attention.layer_norm_rms_epsilon")?,
            rotary: Rotary::from_gguf(&keys, head_dim)?,
            act: Unary::Silu,
            // 0 is how a file says that there is none.
            attention_scale: keys.opt_f32("attention.scale")?.filter(|&x| x != 0.0),
            attention_softcap: keys.opt_f32("attn_logit_softcapping")?.filter(|&x| x != 0.0),
            embedding_scale: factor(&keys, "embedding_scale")?,
            residual_scale: factor(&keys, "residual_scale")?,
            logit_scale: factor(&keys, "logit_scale")?,
            logit_softcap: keys.opt_f32("final_logit_softcapping")?.filter(|&x| x != 0.0),
            tied: None,
            attention_bias: None,
            ffn_bias: None,
        };
        config.check(&keys, "attention.head_count_kv")?;
        keys.neutral(NEUTRAL)?;
        keys.inert(INERT);
        keys.finish()?;
        Ok(config)
    }

    /// Reads a transformers `config.json`, of version 5 or before.
    ///
    /// # Errors
    /// As [`from_gguf`](Self::from_gguf).
    pub fn from_json(json: &Json) -> Result<Self> {
        let keys = Keys::json(json, CONFIG)?;
        transformers::common(&keys)?;
        let n = keys.layers("num_hidden_layers")?;
        let heads = keys.positive("num_attention_heads")?;
        let dim = keys.positive("hidden_size")?;
        let head_dim = match keys.opt_positive("head_dim")? {
            Some(width) => width,
            None => width(&keys, "num_attention_heads", dim, heads)?,
        };
        let kv_heads = keys.opt_positive("num_key_value_heads")?.unwrap_or(heads);
        let ffn_dim = keys.positive("intermediate_size")?;
        let context = keys.positive("max_position_embeddings")?;
        let windows = transformers_windows(&keys, n)?;
        let layer = |window| Layer { heads, kv_heads, ffn_dim, window };
        let config = LlamaConfig {
            layers: windows.into_iter().map(layer).collect(),
            dim,
            head_dim,
            vocab: keys.positive("vocab_size")?,
            context,
            eps: keys.opt_f32("rms_norm_eps")?.unwrap_or(1e-6),
            rotary: Rotary::from_json(&keys, head_dim, context)?,
            act: transformers::activation(&keys, "hidden_act", Unary::Silu)?,
            attention_scale: keys.opt_f32("attention_multiplier")?,
            attention_softcap: keys.opt_f32("attn_logit_softcapping")?,
            embedding_scale: factor(&keys, "embedding_multiplier")?,
            residual_scale: factor(&keys, "residual_multiplier")?,
            logit_scale: factor(&keys, "logits_scaling")?,
            logit_softcap: keys.opt_f32("final_logit_softcapping")?,
            tied: keys.opt_bool("tie_word_embeddings")?,
            attention_bias: keys.opt_bool("attention_bias")?,
            ffn_bias: keys.opt_bool("mlp_bias")?,
        };
        config.check(&keys, "num_key_value_heads")?;
        keys.neutral(&[("rope_interleaved", 0.0, "turns other pairs of a head")])?;
        keys.finish()?;
        Ok(config)
    }

    /// What building relies on.
    fn check(&self, keys: &Keys<'_>, kv: &str) -> Result<()> {
        for Layer { heads, kv_heads, .. } in &self.layers {
            if heads % kv_heads != 0 {
                let what = format!("{kv_heads} key heads do not divide {heads} query heads");
                return Err(keys.bad(kv, what));
            }
        }
        Ok(())
    }
}

/// The width of a head where the file names none: rows divided by heads.
fn width(keys: &Keys<'_>, name: &str, dim: u64, heads: u64) -> Result<u64> {
    match dim / heads {
        0 => Err(keys.bad(name, format!("rows of {dim} do not give {heads} heads a width"))),
        width => Ok(width),
    }
}

/// A factor, 1 where there is none or it is 0, which is how GGUF files say so.
fn factor(keys: &Keys<'_>, name: &str) -> Result<f32> {
    Ok(keys.opt_f32(name)?.filter(|&x| x != 0.0).unwrap_or(1.0))
}

/// A sliding window counts the row itself.
fn before(window: u64) -> Option<u64> {
    window.checked_sub(1)
}

/// Each layer's window: `sliding_window`, in all layers, or in those that the pattern says: one truth value
/// a layer, or n for every layer but each n-th.
fn gguf_windows(keys: &Keys<'_>, layers: u64) -> Result<Vec<Option<u64>>> {
    const PATTERN: &str = "attention.sliding_window_pattern";
    let window = keys.opt_u64("attention.sliding_window")?.and_then(before);
    let slides = match keys.opt_bools(PATTERN, layers)? {
        Some(list) => list,
        None => match keys.opt_u64(PATTERN)? {
            None | Some(0) => vec![true; layers as usize],
            Some(n) => (0..layers).map(|i| i % n < n - 1).collect(),
        },
    };
    Ok(slides.into_iter().map(|slides| window.filter(|_| slides)).collect())
}

/// The same of `sliding_window` and `layer_types`.
fn transformers_windows(keys: &Keys<'_>, layers: u64) -> Result<Vec<Option<u64>>> {
    const TYPES: &str = "layer_types";
    let used = keys.opt_bool("use_sliding_window")?.unwrap_or(true);
    let window = keys.opt_positive("sliding_window")?.and_then(before).filter(|_| used);
    let Some(types) = keys.opt_strs(TYPES)? else { return Ok(vec![window; layers as usize]) };
    keys.one_each(TYPES, types.len(), layers)?;
    let of = |ty: &&str| match *ty {
        "full_attention" => Ok(None),
        "sliding_attention" if window.is_some() => Ok(window),
        "sliding_attention" => {
            Err(keys.bad(TYPES, "a layer slides, and sliding_window is missing"))
        }
        other => Err(keys.unsupported(
            TYPES,
            format!("layers of type `{other}` are not supported"),
            "supported: full_attention, sliding_attention",
        )),
    };
    types.iter().map(of).collect()
}

impl Model for LlamaConfig {
    fn facts(&self) -> Facts {
        Facts {
            family: FAMILY.name,
            task: Task::Generate,
            layers: self.layers.len() as u64,
            context: self.rotary.longest(self.context),
            vocab: self.vocab,
            width: self.dim,
        }
    }

    fn kind(&self, layer: u64) -> u64 {
        let layer = self.layers.get(layer as usize);
        self.layers.iter().position(|l| Some(l) == layer).unwrap_or(0) as u64
    }

    fn small(&self, layers: &[u64]) -> Box<dyn Model> {
        let row = |n: u64| if n <= 512 { n } else { 256 + n % 256 };
        let smaller = |l: &Layer| {
            let group = l.heads / l.kv_heads;
            let width = |kv_heads: u64| kv_heads * group * self.head_dim % 256;
            // Two of them, where there are two, so that a kernel must tell them apart.
            let kv_heads = (l.kv_heads.min(2)..l.kv_heads)
                .find(|&n| width(n) == width(l.kv_heads))
                .unwrap_or(l.kv_heads);
            Layer {
                heads: kv_heads * group,
                kv_heads,
                ffn_dim: row(l.ffn_dim),
                // Less than a prompt of the twin, so that it leaves something out.
                window: l.window.map(|w| w.min(37)),
            }
        };
        let layers = layers.iter().filter_map(|&i| self.layers.get(i as usize)).map(smaller);
        Box::new(LlamaConfig {
            layers: layers.collect(),
            dim: row(self.dim),
            vocab: row(self.vocab),
            ..self.clone()
        })
    }

    fn build(&self, tensors: &Tensors<'_>, context: u64) -> Result<Module> {
        let names = Names(tensors.naming());
        // Frequencies, which are computed, and a head that is the embeddings' copy.
        tensors.inert(|n| n.ends_with(".rotary_emb.inv_freq"));
        let mut m = Module::new("llama", context, self.vocab).with_policy(FusionPolicy::Fusable);
        let norm = |name: String| tensors.weight(&format!("{name}.weight"), &[self.dim]);
        let factors = self.rotary.divisors(tensors, context)?;

        let table = tensors.weight(names.embedding(), &[self.vocab, self.dim])?;
        let ids = m.ids();
        let x = m.embedding(ids, table.clone());
        let mut x = scaled(&mut m, x, self.embedding_scale, "token_embd_scaled")?;
        m.tap("layer.embed", x);
        for (i, layer) in self.layers.iter().enumerate() {
            let at = |tensor| names.layer(i, tensor);
            let h = m.rms_norm(
                x,
                norm(at(LayerTensor::AttnNorm))?,
                self.eps,
                &format!("blk.{i}.attn_norm"),
            );
            let a = self.attention(&mut m, h, i, tensors, &names, factors.clone())?;
            let a = scaled(&mut m, a, self.residual_scale, &format!("blk.{i}.attn_scaled"))?;
            x = m.add(x, a, &format!("blk.{i}.attn_residual"));
            let h = m.rms_norm(
                x,
                norm(at(LayerTensor::FfnNorm))?,
                self.eps,
                &format!("blk.{i}.ffn_norm"),
            );
            let linear =
                |tensor, dims| tensors.linear_biased(&names.layer(i, tensor), dims, self.ffn_bias);
            let ffn = FfnWeights {
                gate: linear(LayerTensor::Gate, [layer.ffn_dim, self.dim])?,
                up: linear(LayerTensor::Up, [layer.ffn_dim, self.dim])?,
                down: linear(LayerTensor::Down, [self.dim, layer.ffn_dim])?,
            };
            let f = self.feed_forward(&mut m, h, ffn, &format!("blk.{i}.ffn"));
            let f = scaled(&mut m, f, self.residual_scale, &format!("blk.{i}.ffn_scaled"))?;
            x = m.add(x, f, &format!("blk.{i}.ffn_residual"));
            m.tap(format!("layer.{i}"), x);
        }
        let x = m.out_rows(x);
        let x = m.rms_norm(x, norm(names.output_norm().into())?, self.eps, "output_norm");
        m.tap("layer.norm", x);
        let head = self.head(tensors, &names, table)?;
        if self.logit_scale != 1.0 && head.bias.is_some() {
            let what = "logits have a factor and the head has a bias, which is not supported";
            return Err(Error::new(Code::Unsupported, what).at(names.head()));
        }
        // A head without a bias makes the same of rows that are divided as of logits, and those are more.
        let x = scaled(&mut m, x, 1.0 / self.logit_scale, "output_norm_scaled")?;
        m.lm_head_capped(x, head, self.logit_softcap);
        Ok(m)
    }
}

impl LlamaConfig {
    /// The head: its own, or the embeddings.
    fn head(&self, tensors: &Tensors<'_>, names: &Names, table: Weight) -> Result<LinearWeights> {
        let own = format!("{}.weight", names.head());
        if self.tied == Some(true) {
            // A file may hold a copy under the head's name.
            tensors.inert(|n| n == own);
        } else if self.tied == Some(false) || tensors.has(&own) {
            return tensors.linear(names.head(), self.vocab, self.dim);
        }
        Ok(LinearWeights { weight: table, bias: None })
    }

    /// `down(f(gate(x)) * up(x))`.
    fn feed_forward(&self, m: &mut Module, x: Tensor, w: FfnWeights, label: &str) -> Tensor {
        match self.act {
            Unary::Silu => m.swiglu_ffn(x, w, label),
            Unary::Gelu => m.geglu_ffn(x, w, label),
            f => {
                let gate = m.linear_act(x, w.gate, Some(f), &format!("{label}_gate"));
                let up = m.linear(x, w.up, &format!("{label}_up"));
                let y = m.op(Zip { f: Binary::Mul }, &[gate, up], &format!("{label}_mul"));
                m.linear(y, w.down, &format!("{label}_down"))
            }
        }
    }

    /// `o(attention(q, k, v))` of one layer.
    fn attention(
        &self,
        m: &mut Module,
        h: Tensor,
        i: usize,
        tensors: &Tensors<'_>,
        names: &Names,
        rope_factors: Option<Weight>,
    ) -> Result<Tensor> {
        let layer = self.layers[i];
        let (q_dim, kv_dim) = (layer.heads * self.head_dim, layer.kv_heads * self.head_dim);
        let linear = |tensor, dims| {
            tensors.linear_biased(&names.layer(i, tensor), dims, self.attention_bias)
        };
        let q = m.linear(h, linear(LayerTensor::Q, [q_dim, self.dim])?, &format!("blk.{i}.attn_q"));
        let k =
            m.linear(h, linear(LayerTensor::K, [kv_dim, self.dim])?, &format!("blk.{i}.attn_k"));
        let v =
            m.linear(h, linear(LayerTensor::V, [kv_dim, self.dim])?, &format!("blk.{i}.attn_v"));
        let norms = [LayerTensor::QNorm, LayerTensor::KNorm]
            .map(|tensor| names.layer(i, tensor) + ".weight");
        let qk_norm = match norms.iter().any(|n| tensors.has(n)) {
            true => {
                let [q, k] = norms.map(|n| tensors.weight(&n, &[self.head_dim]));
                Some(([q?, k?], self.eps))
            }
            false => None,
        };
        let plain = (1.0 / math::sqrt(self.head_dim as f64)) as f32;
        let spec = AttentionSpec {
            layer: i,
            heads: layer.heads as usize,
            kv_heads: layer.kv_heads as usize,
            head_dim: self.head_dim as usize,
            scale: self.attention_scale.unwrap_or(plain),
            window: layer.window,
            softcap: self.attention_softcap,
            rope_style: names.rope_style(),
            rope: self.rotary.table(m.context),
            rope_factors,
            qk_norm,
        };
        let a = m.attention(q, k, v, spec);
        Ok(m.linear(a, linear(LayerTensor::O, [self.dim, q_dim])?, &format!("blk.{i}.attn_output")))
    }
}

/// `x` times a number, and `x` itself for 1.
fn scaled(m: &mut Module, x: Tensor, by: f32, label: &str) -> Result<Tensor> {
    if by == 1.0 {
        return Ok(x);
    }
    let by = Constant::scalar(DType::F32, by.into())?;
    let by = m.op(by, &[], &format!("{label}_by"));
    Ok(m.op(Zip { f: Binary::Mul }, &[x, by], label))
}

/// A layer's tensors.
#[derive(Clone, Copy)]
enum LayerTensor {
    AttnNorm,
    Q,
    K,
    V,
    O,
    QNorm,
    KNorm,
    FfnNorm,
    Gate,
    Up,
    Down,
}

/// Names of tensors, without `.weight`.
struct Names(Naming);

impl Names {
    fn embedding(&self) -> &'static str {
        match self.0 {
            Naming::Gguf => TOKEN_EMBD,
            Naming::Transformers => "model.embed_tokens.weight",
        }
    }

    fn output_norm(&self) -> &'static str {
        match self.0 {
            Naming::Gguf => "output_norm",
            Naming::Transformers => "model.norm",
        }
    }

    fn head(&self) -> &'static str {
        match self.0 {
            Naming::Gguf => "output",
            Naming::Transformers => "lm_head",
        }
    }

    fn layer(&self, i: usize, tensor: LayerTensor) -> String {
        let (gguf, transformers) = match tensor {
            LayerTensor::AttnNorm => ("attn_norm", "input_layernorm"),
            LayerTensor::Q => ("attn_q", "self_attn.q_proj"),
            LayerTensor::K => ("attn_k", "self_attn.k_proj"),
            LayerTensor::V => ("attn_v", "self_attn.v_proj"),
            LayerTensor::O => ("attn_output", "self_attn.o_proj"),
            LayerTensor::QNorm => ("attn_q_norm", "self_attn.q_norm"),
            LayerTensor::KNorm => ("attn_k_norm", "self_attn.k_norm"),
            LayerTensor::FfnNorm => ("ffn_norm", "post_attention_layernorm"),
            LayerTensor::Gate => ("ffn_gate", "mlp.gate_proj"),
            LayerTensor::Up => ("ffn_up", "mlp.up_proj"),
            LayerTensor::Down => ("ffn_down", "mlp.down_proj"),
        };
        match self.0 {
            Naming::Gguf => gguf_part(i as u64, gguf),
            Naming::Transformers => format!("model.layers.{i}.{transformers}"),
        }
    }

    /// The converter permutes rows of q and k, so that pairs are adjacent in GGUF files.
    fn rope_style(&self) -> RopeStyle {
        match self.0 {
            Naming::Gguf => RopeStyle::Adjacent,
            Naming::Transformers => RopeStyle::Half,
        }
    }
}
