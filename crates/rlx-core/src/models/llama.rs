//! LLaMA decoder (Touvron et al. 2023, arXiv:2302.13971, section 2.2).
//!
//! D model   F feed-forward   H query heads   K key and value heads   E width of a head   V tokens
//!
//! Differs from the paper: K may be smaller than H (grouped heads, arXiv:2305.13245), E need not be
//! D / H, embeddings may serve as the head, frequencies may be scaled for longer contexts
//! (Llama 3.1), projections may have biases.

use super::{Naming, Tensors};
use crate::error::{Code, Error, Result};
use crate::gguf::ModelFiles;
use crate::ir::hir::{
    AttentionSpec, FfnWeights, FusionPolicy, LinearWeights, Module, Tensor, Weight,
};
use crate::math;
use crate::ops::{RopeScaling, RopeStyle, RopeTable};
use crate::safetensors::json::Json;
use alloc::format;
use alloc::string::String;

/// Sizes and constants of one checkpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct LlamaConfig {
    /// Decoder layers.
    pub layers: u64,
    /// D.
    pub dim: u64,
    /// F.
    pub ffn_dim: u64,
    /// H.
    pub heads: u64,
    /// K.
    pub kv_heads: u64,
    /// E.
    pub head_dim: u64,
    /// V.
    pub vocab: u64,
    /// Positions the model was trained for.
    pub context: u64,
    /// Added to the mean square in norms.
    pub eps: f32,
    /// Base of the rotary frequencies.
    pub rope_base: f32,
    /// Dimensions of a head that rotate.
    pub rope_dims: u64,
    /// Change of frequencies.
    pub rope_scaling: RopeScaling,
}

/// The number at `key`, which must be at least 1.
fn positive(files: &ModelFiles, key: &str) -> Result<u64> {
    let n = u64::from(files.metadata.u32(key)?);
    if n == 0 {
        return Err(files.metadata.bad_value(key, format!("{key} is 0")));
    }
    Ok(n)
}

impl LlamaConfig {
    /// Reads a GGUF's metadata.
    ///
    /// # Errors
    /// `BadFile` naming the key that is missing, mistyped or 0; `Unsupported` for a rope scaling
    /// this version does not have.
    pub fn from_gguf(files: &ModelFiles) -> Result<Self> {
        let meta = &files.metadata;
        let heads = positive(files, "llama.attention.head_count")?;
        let dim = positive(files, "llama.embedding_length")?;
        let kv_heads = match meta.opt_u32("llama.attention.head_count_kv")? {
            Some(_) => positive(files, "llama.attention.head_count_kv")?,
            None => heads,
        };
        let head_dim = match meta.opt_u32("llama.attention.key_length")? {
            Some(_) => positive(files, "llama.attention.key_length")?,
            None => dim / heads,
        };
        if heads % kv_heads != 0 {
            return Err(meta.bad_value(
                "llama.attention.head_count_kv",
                format!("{kv_heads} key heads do not divide {heads} query heads"),
            ));
        }
        let rope_dims = meta.opt_u32("llama.rope.dimension_count")?.map_or(head_dim, u64::from);
        if rope_dims == 0 || rope_dims % 2 != 0 || rope_dims > head_dim {
            return Err(meta.bad_value(
                "llama.rope.dimension_count",
                format!("{rope_dims} rotary dimensions of {head_dim}, expected an even number of at most that"),
            ));
        }
        let rope_scaling = match meta.opt_str("llama.rope.scaling.type")? {
            None | Some("none") => RopeScaling::None,
            Some("linear") => RopeScaling::Linear(meta.f32("llama.rope.scaling.factor")?),
            Some(other) => {
                return Err(Error::new(
                    Code::Unsupported,
                    format!("rope scaling `{other}` is not supported"),
                )
                .hint("supported: none, linear, and Llama 3's by rope_freqs.weight"));
            }
        };
        let vocab = files.tensor("token_embd.weight")?.1.dims.first().copied().unwrap_or(0);
        Ok(LlamaConfig {
            layers: positive(files, "llama.block_count")?,
            dim,
            ffn_dim: positive(files, "llama.feed_forward_length")?,
            heads,
            kv_heads,
            head_dim,
            vocab,
            context: positive(files, "llama.context_length")?,
            eps: meta.f32("llama.attention.layer_norm_rms_epsilon")?,
            rope_base: meta.opt_f32("llama.rope.freq_base")?.unwrap_or(10000.0),
            rope_dims,
            rope_scaling,
        })
    }

    /// Reads a transformers `config.json`, with `rope_parameters` (version 5) or `rope_theta` and
    /// `rope_scaling` (before).
    ///
    /// # Errors
    /// `BadFile` naming the key that is missing or mistyped.
    pub fn from_json(json: &Json) -> Result<Self> {
        let int = |key: &str| {
            json.get(key).and_then(Json::as_u64).filter(|&n| n > 0).ok_or_else(|| {
                Error::bad_file(format!("{key} is missing or no number of 1 or more"))
                    .at("config.json")
            })
        };
        let (heads, dim) = (int("num_attention_heads")?, int("hidden_size")?);
        let head_dim = int("head_dim").unwrap_or(dim / heads);
        let rope = json.get("rope_parameters").or_else(|| json.get("rope_scaling"));
        let number = |key: &str| rope.and_then(|r| r.get(key)).and_then(Json::as_f64);
        let need = |key: &str| {
            number(key).map(|x| x as f32).ok_or_else(|| {
                Error::bad_file(format!("{key} of the rope parameters is missing"))
                    .at("config.json")
            })
        };
        let kind = rope
            .and_then(|r| r.get("rope_type").or_else(|| r.get("type")))
            .and_then(Json::as_str)
            .unwrap_or("default");
        let rope_scaling = match kind {
            "default" => RopeScaling::None,
            "linear" => RopeScaling::Linear(need("factor")?),
            "llama3" => RopeScaling::Llama3 {
                factor: need("factor")?,
                low: need("low_freq_factor")?,
                high: need("high_freq_factor")?,
                original: need("original_max_position_embeddings")?,
            },
            other => {
                return Err(Error::new(
                    Code::Unsupported,
                    format!("rope_type `{other}` is not supported"),
                )
                .at("config.json")
                .hint("supported: default, linear, llama3"));
            }
        };
        let base = number("rope_theta").or_else(|| json.get("rope_theta").and_then(Json::as_f64));
        Ok(LlamaConfig {
            layers: int("num_hidden_layers")?,
            dim,
            ffn_dim: int("intermediate_size")?,
            heads,
            kv_heads: int("num_key_value_heads").unwrap_or(heads),
            head_dim,
            vocab: int("vocab_size")?,
            context: int("max_position_embeddings")?,
            eps: json.get("rms_norm_eps").and_then(Json::as_f64).unwrap_or(1e-6) as f32,
            rope_base: base.unwrap_or(10000.0) as f32,
            rope_dims: head_dim,
            rope_scaling,
        })
    }

    /// The same model with everything small that costs time: what its kernels are checked with.
    /// Heads keep their width and their groups, rows the remainders that kernels and blocks see.
    #[must_use]
    pub fn small(&self, layers: u64) -> Self {
        let row = |n: u64| if n <= 512 { n } else { 256 + n % 256 };
        let group = self.heads / self.kv_heads;
        let width = |kv_heads: u64| kv_heads * group * self.head_dim % 256;
        // Two of them, where there are two, so that a kernel must tell them apart.
        let kv_heads = (self.kv_heads.min(2)..self.kv_heads)
            .find(|&n| width(n) == width(self.kv_heads))
            .unwrap_or(self.kv_heads);
        LlamaConfig {
            layers,
            dim: row(self.dim),
            ffn_dim: row(self.ffn_dim),
            heads: kv_heads * group,
            kv_heads,
            vocab: row(self.vocab),
            ..self.clone()
        }
    }

    /// The model over `context` positions.
    ///
    /// # Errors
    /// `BadFile` for a tensor that is missing or has another shape.
    pub fn build(&self, tensors: Tensors<'_>, context: u64) -> Result<Module> {
        let names = Names(tensors.naming());
        let mut m = Module::new("llama", context, self.vocab).with_policy(FusionPolicy::Fusable);
        let norm = |name: String| tensors.weight(&format!("{name}.weight"), &[self.dim]);

        let table = tensors.weight(names.embedding(), &[self.vocab, self.dim])?;
        let ids = m.ids();
        let mut x = m.embedding(ids, table.clone());
        m.tap("layer.embed", x);
        for i in 0..self.layers {
            let at = |part| names.layer(i, part);
            let h =
                m.rms_norm(x, norm(at(Part::AttnNorm))?, self.eps, &format!("blk.{i}.attn_norm"));
            let a = self.attention(&mut m, h, i, tensors, &names)?;
            x = m.add(x, a, &format!("blk.{i}.attn_residual"));
            let h = m.rms_norm(x, norm(at(Part::FfnNorm))?, self.eps, &format!("blk.{i}.ffn_norm"));
            let ffn = FfnWeights {
                gate: tensors.linear(&at(Part::Gate), self.ffn_dim, self.dim)?,
                up: tensors.linear(&at(Part::Up), self.ffn_dim, self.dim)?,
                down: tensors.linear(&at(Part::Down), self.dim, self.ffn_dim)?,
            };
            let f = m.swiglu_ffn(h, ffn, &format!("blk.{i}.ffn"));
            x = m.add(x, f, &format!("blk.{i}.ffn_residual"));
            m.tap(format!("layer.{i}"), x);
        }
        let x = m.out_rows(x);
        let x = m.rms_norm(x, norm(names.output_norm().into())?, self.eps, "output_norm");
        m.tap("layer.norm", x);
        // Tied: a file without a head means the embeddings.
        let head = match tensors.find(&format!("{}.weight", names.head())) {
            Some(_) => tensors.linear(names.head(), self.vocab, self.dim)?,
            None => LinearWeights { weight: table, bias: None },
        };
        m.lm_head(x, head);
        Ok(m)
    }

    /// `o(attention(q, k, v))` of one layer.
    fn attention(
        &self,
        m: &mut Module,
        h: Tensor,
        i: u64,
        tensors: Tensors<'_>,
        names: &Names,
    ) -> Result<Tensor> {
        let (q_dim, kv_dim) = (self.heads * self.head_dim, self.kv_heads * self.head_dim);
        let linear = |part, out, input| tensors.linear(&names.layer(i, part), out, input);
        let q = m.linear(h, linear(Part::Q, q_dim, self.dim)?, &format!("blk.{i}.attn_q"));
        let k = m.linear(h, linear(Part::K, kv_dim, self.dim)?, &format!("blk.{i}.attn_k"));
        let v = m.linear(h, linear(Part::V, kv_dim, self.dim)?, &format!("blk.{i}.attn_v"));
        let spec = AttentionSpec {
            layer: i as usize,
            heads: self.heads as usize,
            kv_heads: self.kv_heads as usize,
            head_dim: self.head_dim as usize,
            scale: (1.0 / math::sqrt(self.head_dim as f64)) as f32,
            window: None,
            softcap: None,
            rope_style: names.rope_style(),
            rope: RopeTable {
                base: self.rope_base,
                dims: self.rope_dims as usize,
                context: m.context,
                scaling: self.rope_scaling,
            },
            rope_factors: self.rope_factors(tensors)?,
            qk_norm: None,
        };
        let a = m.attention(q, k, v, spec);
        Ok(m.linear(a, linear(Part::O, self.dim, q_dim)?, &format!("blk.{i}.attn_output")))
    }

    /// Llama 3's scaling, which GGUF files carry as a tensor of divisors.
    fn rope_factors(&self, tensors: Tensors<'_>) -> Result<Option<Weight>> {
        match tensors.find("rope_freqs.weight") {
            Some(_) => tensors.weight("rope_freqs.weight", &[self.rope_dims / 2]).map(Some),
            None => Ok(None),
        }
    }
}

/// A layer's tensors.
#[derive(Clone, Copy)]
enum Part {
    AttnNorm,
    Q,
    K,
    V,
    O,
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
            Naming::Gguf => "token_embd.weight",
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

    fn layer(&self, i: u64, part: Part) -> String {
        let (gguf, transformers) = match part {
            Part::AttnNorm => ("attn_norm", "input_layernorm"),
            Part::Q => ("attn_q", "self_attn.q_proj"),
            Part::K => ("attn_k", "self_attn.k_proj"),
            Part::V => ("attn_v", "self_attn.v_proj"),
            Part::O => ("attn_output", "self_attn.o_proj"),
            Part::FfnNorm => ("ffn_norm", "post_attention_layernorm"),
            Part::Gate => ("ffn_gate", "mlp.gate_proj"),
            Part::Up => ("ffn_up", "mlp.up_proj"),
            Part::Down => ("ffn_down", "mlp.down_proj"),
        };
        match self.0 {
            Naming::Gguf => format!("blk.{i}.{gguf}"),
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
