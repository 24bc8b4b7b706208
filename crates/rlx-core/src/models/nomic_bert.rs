//! nomic-BERT encoder (Nussbaum et al. 2024, arXiv:2402.01613, section 3.1).
//!
//! D model   F feed-forward   H heads   E = D / H width of a head   V tokens   T types
//!
//! BERT with rotary positions for a table of them, a gated feed-forward (SwiGLU), and no biases but those
//! of norms. Differs from the paper: the rows are pooled to one vector of the text.

use super::checkpoint::{Checkpoint, Source};
use super::encoder::{self, head_dim, plain_heads, zip};
use super::family::Family;
use super::keys::Keys;
use super::model::{Facts, Model, Task};
use super::naming::{Naming, TOKEN_EMBD, gguf_part};
use super::pooling::Pooling;
use super::rotary::Rotary;
use super::tensors::Tensors;
use super::transformers;
use crate::error::Result;
use crate::ir::hir::{FfnWeights, Module, Tensor, Weight};
use crate::ops::{Binary, Gather, Mask, RopeScaling, Sdpa, Slice};
use crate::profile::{Preset, Presets};
use crate::types::Dim;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;

/// The family's row.
pub(super) const FAMILY: Family = Family {
    name: "nomic_bert",
    presets: Presets::of(Preset::Encoder),
    gguf: &["nomic-bert"],
    transformers: &["nomic_bert"],
    open: |checkpoint| Ok(Box::new(NomicBertConfig::open(checkpoint)?)),
};

/// Sizes and constants of one checkpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct NomicBertConfig {
    /// Encoder layers.
    pub layers: u64,
    /// D.
    pub dim: u64,
    /// F.
    pub ffn_dim: u64,
    /// H.
    pub heads: u64,
    /// V.
    pub vocab: u64,
    /// The longest text.
    pub context: u64,
    /// T; 0 without a table of types.
    pub types: u64,
    /// Added to the variance in norms.
    pub eps: f32,
    /// Angles.
    pub rotary: Rotary,
    /// What makes one vector of a text.
    pub pooling: Pooling,
}

const TYPES: &str = "token_types.weight";

impl NomicBertConfig {
    /// Reads a checkpoint's configuration.
    ///
    /// # Errors
    /// `BadFile` naming the key that is missing, mistyped or 0; `Unsupported` for a key or a value
    /// that this version does not know.
    pub fn open(checkpoint: &Checkpoint<'_>) -> Result<Self> {
        let keys = checkpoint.keys()?;
        let mut config = match checkpoint.source {
            Source::Gguf(files) => {
                files.tensor(TOKEN_EMBD)?;
                let rows = |name: &str| checkpoint.tensor(name).and_then(|t| t.1.first().copied());
                let (vocab, types) = (rows(TOKEN_EMBD).unwrap_or(0), rows(TYPES).unwrap_or(0));
                Self::from_gguf(&keys, vocab, types)?
            }
            Source::Transformers { .. } => {
                transformers::common(&keys)?;
                // Both forms name the model's rows, each in its own words.
                match keys.has("n_embd") {
                    true => Self::from_published(&keys)?,
                    false => Self::from_json(&keys)?,
                }
            }
        };
        keys.finish()?;
        config.pooling = checkpoint.pooling.unwrap_or(config.pooling);
        Ok(config)
    }

    fn from_gguf(keys: &Keys<'_>, vocab: u64, types: u64) -> Result<Self> {
        let (dim, heads) =
            (keys.positive("embedding_length")?, keys.positive("attention.head_count")?);
        let width = head_dim(keys, "attention.head_count", dim, heads)?;
        plain_heads(keys, heads, width)?;
        keys.inert(&["vocab_size"]);
        keys.neutral(&[
            ("attention.causal", 0.0, "hides rows from those before them"),
            ("moe_every_n_layers", 0.0, "splits feed-forwards into experts"),
            ("expert_count", 0.0, "splits feed-forwards into experts"),
        ])?;
        Ok(NomicBertConfig {
            layers: keys.layers("block_count")?,
            dim,
            ffn_dim: keys.positive("feed_forward_length")?,
            heads,
            vocab,
            context: keys.positive("context_length")?,
            types,
            eps: keys.f32("attention.layer_norm_epsilon")?,
            rotary: Rotary::from_gguf(keys, width)?,
            pooling: Pooling::from_gguf(keys)?,
        })
    }

    /// The keys of transformers 5.
    fn from_json(keys: &Keys<'_>) -> Result<Self> {
        let (dim, heads) = (keys.positive("hidden_size")?, keys.positive("num_attention_heads")?);
        let width = head_dim(keys, "num_attention_heads", dim, heads)?;
        if let Some(other) = keys.opt_u64("head_dim")?.filter(|&n| n != width) {
            let what = format!("heads of {other} are not as wide as {dim} / {heads}");
            return Err(keys.unsupported("head_dim", what, "use a model with plain attention"));
        }
        gate(keys, "hidden_act", &["silu"])?;
        keys.inert(&["tie_word_embeddings"]);
        let context = keys.positive("max_position_embeddings")?;
        Ok(NomicBertConfig {
            layers: keys.layers("num_hidden_layers")?,
            dim,
            ffn_dim: keys.positive("intermediate_size")?,
            heads,
            vocab: keys.positive("vocab_size")?,
            context,
            types: keys.opt_u64("type_vocab_size")?.unwrap_or(2),
            eps: keys.opt_f32("layer_norm_eps")?.unwrap_or(1e-12),
            rotary: Rotary::from_json(keys, width, context)?,
            pooling: Pooling::MEAN,
        })
    }

    /// The keys of published checkpoints, which are GPT-2's and flash-attention's.
    fn from_published(keys: &Keys<'_>) -> Result<Self> {
        let (dim, heads) = (keys.positive("n_embd")?, keys.positive("n_head")?);
        let width = head_dim(keys, "n_head", dim, heads)?;
        gate(keys, "activation_function", &["swiglu"])?;
        // Training, kernels of the library they were written for, heads that give none of the outputs,
        // and padding of the vocabulary, which its size has.
        keys.inert(&[
            "attn_pdrop",
            "dense_seq_output",
            "embd_pdrop",
            "fused_bias_fc",
            "fused_dropout_add_ln",
            "last_layer_subset",
            "max_trained_positions",
            "pad_vocab_size_multiple",
            "reorder_and_upcast_attn",
            "resid_pdrop",
            "summary_activation",
            "summary_first_dropout",
            "summary_proj_to_labels",
            "summary_type",
            "summary_use_proj",
            "use_flash_attn",
            "use_xentropy",
        ]);
        keys.neutral(&[
            ("causal", 0.0, "hides rows from those before them"),
            ("mlp_fc1_bias", 0.0, "adds biases to the feed-forward"),
            ("mlp_fc2_bias", 0.0, "adds biases to the feed-forward"),
            ("parallel_block", 0.0, "computes attention and feed-forward side by side"),
            ("parallel_block_tied_norm", 0.0, "gives both branches one norm"),
            ("prenorm", 0.0, "puts norms before the branches"),
            ("qkv_proj_bias", 0.0, "adds biases to the projections"),
            ("rotary_emb_fraction", 1.0, "turns a part of each head"),
            ("rotary_emb_interleaved", 0.0, "turns other pairs of a head"),
            ("rotary_emb_scale_base", 0.0, "scales scores by the distance"),
            ("rotary_scaling_factor", 1.0, "scales rotary positions by the length of the text"),
            ("scale_attn_by_inverse_layer_idx", 0.0, "scales scores by the layer"),
            ("scale_attn_weights", 1.0, "leaves scores unscaled"),
            ("use_rms_norm", 0.0, "replaces the norms"),
        ])?;
        let base = keys.opt_above_zero("rotary_emb_base")?.unwrap_or(10000.0);
        Ok(NomicBertConfig {
            layers: keys.layers("n_layer")?,
            dim,
            ffn_dim: keys.opt_positive("n_inner")?.unwrap_or(4 * dim),
            heads,
            vocab: keys.positive("vocab_size")?,
            context: keys.positive("n_positions")?,
            types: keys.opt_u64("type_vocab_size")?.unwrap_or(2),
            eps: keys.opt_f32("layer_norm_epsilon")?.unwrap_or(1e-12),
            rotary: Rotary {
                base,
                dims: width,
                scaling: RopeScaling::None,
                long: None,
                divided: false,
            },
            pooling: Pooling::MEAN,
        })
    }
}

/// Fails for another gate of the feed-forward.
fn gate(keys: &Keys<'_>, key: &str, known: &[&str]) -> Result<()> {
    match keys.opt_str(key)? {
        Some(other) if !known.contains(&other) => Err(keys.unsupported(
            key,
            format!("{key} `{other}` is not supported"),
            "supported: a feed-forward gated by SiLU",
        )),
        _ => Ok(()),
    }
}

impl Model for NomicBertConfig {
    fn facts(&self) -> Facts {
        Facts {
            family: FAMILY.name,
            task: Task::Embed,
            layers: self.layers,
            context: self.context,
            vocab: self.vocab,
            width: self.dim,
        }
    }

    fn small(&self, layers: &[u64]) -> Box<dyn Model> {
        let width = self.dim / self.heads;
        let heads = encoder::fewer_heads(self.heads, width);
        Box::new(NomicBertConfig {
            layers: layers.len() as u64,
            dim: heads * width,
            heads,
            ffn_dim: encoder::row(self.ffn_dim),
            vocab: encoder::row(self.vocab),
            ..self.clone()
        })
    }

    fn build(&self, tensors: &Tensors<'_>, context: u64) -> Result<Module> {
        let names = Names(tensors.naming());
        // Frequencies are computed; a head for masked words gives none of the outputs.
        tensors.inert(|n| n.ends_with("rotary_emb.inv_freq") || n.starts_with("cls."));
        let mut m = Module::graph("nomic_bert");
        let inputs = encoder::inputs(&mut m, self.types > 0);
        let norm = |name: &str| -> Result<[Weight; 2]> {
            let part = |part: &str| tensors.weight(&format!("{name}.{part}"), &[self.dim]);
            Ok([part("weight")?, part("bias")?])
        };
        let [tokens, types, embd_norm] = names.embeddings();
        let table = tensors.weight(tokens, &[self.vocab, self.dim])?;
        let table = m.weight(table);
        let mut x = m.op(Gather::default(), &[table, inputs.ids], "token_embd");
        if let Some(ids) = inputs.types {
            let table = tensors.weight(types, &[self.types, self.dim])?;
            let table = m.weight(table);
            let of_type = m.op(Gather::default(), &[table, ids], "type_embd");
            x = zip(&mut m, Binary::Add, [x, of_type], "type_embd_sum");
        }
        let [scale, bias] = norm(embd_norm)?;
        x = m.layer_norm(x, scale, Some(bias), self.eps, "embd_norm");
        m.tap("layer.embed", x);
        for i in 0..self.layers {
            let at = |tensor| names.layer(i, tensor);
            let linear =
                |tensor, out, input| tensors.linear_biased(&at(tensor), [out, input], Some(false));
            let label = format!("blk.{i}");
            let a = self.attention(&mut m, x, inputs.mask, [i, context], tensors, &names)?;
            let a = m.add(a, x, &format!("{label}.attn_residual"));
            let [scale, bias] = norm(&at(LayerTensor::AttnNorm))?;
            x = m.layer_norm(a, scale, Some(bias), self.eps, &format!("{label}.attn_norm"));
            let ffn = FfnWeights {
                gate: linear(LayerTensor::Gate, self.ffn_dim, self.dim)?,
                up: linear(LayerTensor::Up, self.ffn_dim, self.dim)?,
                down: linear(LayerTensor::Down, self.dim, self.ffn_dim)?,
            };
            let f = m.swiglu_ffn(x, ffn, &format!("{label}.ffn"));
            let f = m.add(f, x, &format!("{label}.ffn_residual"));
            let [scale, bias] = norm(&at(LayerTensor::FfnNorm))?;
            x = m.layer_norm(f, scale, Some(bias), self.eps, &format!("{label}.ffn_norm"));
            m.tap(format!("layer.{i}"), x);
        }
        encoder::outputs(&mut m, x, &inputs, self.pooling, self.dim)?;
        Ok(m)
    }
}

impl NomicBertConfig {
    /// `o(attention(rope(q), rope(k), v))` of one layer; q, k and v are rows of one matrix.
    fn attention(
        &self,
        m: &mut Module,
        x: Tensor,
        mask: Tensor,
        [i, context]: [u64; 2],
        tensors: &Tensors<'_>,
        names: &Names,
    ) -> Result<Tensor> {
        let (dim, width) = (self.dim, (self.dim / self.heads) as usize);
        let label = format!("blk.{i}.attn");
        let linear =
            |tensor, out| tensors.linear_biased(&names.layer(i, tensor), [out, dim], Some(false));
        let qkv = m.linear(x, linear(LayerTensor::Qkv, 3 * dim)?, &format!("{label}_qkv"));
        let mut third = |n: u64, part: &str| {
            let columns =
                Slice { axis: 2, start: Dim::from(n * dim), len: Dim::from(dim), step: 1 };
            m.op(columns, &[qkv], &format!("{label}_{part}"))
        };
        let (q, k, v) = (third(0, "q"), third(1, "k"), third(2, "v"));
        let rope = self.rotary.table(context);
        let q = m.encoder_rope(q, width, rope.clone(), &format!("{label}_q_rope"));
        let k = m.encoder_rope(k, width, rope, &format!("{label}_k_rope"));
        let op = Sdpa { mask: Mask::Custom, ..Sdpa::new(self.heads as usize, width) };
        let a = m.op(op, &[q, k, v, mask], &label);
        Ok(m.linear(a, linear(LayerTensor::O, dim)?, &format!("{label}_output")))
    }
}

/// A layer's tensors.
#[derive(Clone, Copy)]
enum LayerTensor {
    Qkv,
    O,
    AttnNorm,
    Gate,
    Up,
    Down,
    FfnNorm,
}

/// Names of tensors.
struct Names(Naming);

impl Names {
    /// Tokens, types, and the norm of their sum.
    fn embeddings(&self) -> [&'static str; 3] {
        match self.0 {
            Naming::Gguf => [TOKEN_EMBD, TYPES, "token_embd_norm"],
            Naming::Transformers => [
                "embeddings.word_embeddings.weight",
                "embeddings.token_type_embeddings.weight",
                "emb_ln",
            ],
        }
    }

    fn layer(&self, i: u64, tensor: LayerTensor) -> String {
        let (gguf, transformers) = match tensor {
            LayerTensor::Qkv => ("attn_qkv", "attn.Wqkv"),
            LayerTensor::O => ("attn_output", "attn.out_proj"),
            LayerTensor::AttnNorm => ("attn_output_norm", "norm1"),
            // Of the two first matrices the second is the gate.
            LayerTensor::Gate => ("ffn_gate", "mlp.fc12"),
            LayerTensor::Up => ("ffn_up", "mlp.fc11"),
            LayerTensor::Down => ("ffn_down", "mlp.fc2"),
            LayerTensor::FfnNorm => ("layer_output_norm", "norm2"),
        };
        match self.0 {
            Naming::Gguf => gguf_part(i, gguf),
            Naming::Transformers => format!("encoder.layers.{i}.{transformers}"),
        }
    }
}
