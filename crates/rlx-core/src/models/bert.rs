//! BERT encoder (Devlin et al. 2018, arXiv:1810.04805, section 3).
//!
//! D model   F feed-forward   H heads   E = D / H width of a head   V tokens   P positions   T types
//!
//! Layers are post-norm: a norm stands behind each residual sum. Differs from the paper: the rows are
//! pooled to one vector of the text (arXiv:1908.10084), and the paper's own, `tanh(dense(first row))`, is an
//! output `pooler_output` where the file has its weights.

use super::checkpoint::{Checkpoint, Source};
use super::encoder::{self, TextInputs, first_rows, head_dim, plain_heads, zip};
use super::family::Family;
use super::model::{Facts, Model, Task};
use super::naming::{Naming, TOKEN_EMBD, gguf_part};
use super::pooling::Pooling;
use super::tensors::Tensors;
use super::transformers;
use crate::error::Result;
use crate::ir::hir::{EncoderAttention, LinearWeights, Module, Tensor, Weight};
use crate::ops::{Binary, Gather, Mask, Reshape, Slice, Unary};
use crate::profile::{Preset, Presets};
use crate::types::{BATCH, Dim, Shape};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec;

/// The family's row.
pub(super) const FAMILY: Family = Family {
    name: "bert",
    presets: Presets::of(Preset::Encoder),
    gguf: &["bert"],
    transformers: &["bert"],
    open: |checkpoint| Ok(Box::new(BertConfig::open(checkpoint)?)),
};

/// Sizes and constants of one checkpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct BertConfig {
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
    /// P: the longest text.
    pub context: u64,
    /// T; 0 without a table of types.
    pub types: u64,
    /// Added to the variance in norms.
    pub eps: f32,
    /// What stands within the feed-forward.
    pub act: Unary,
    /// What makes one vector of a text.
    pub pooling: Pooling,
}

const TYPES: &str = "token_types.weight";

impl BertConfig {
    /// Reads a checkpoint's configuration.
    ///
    /// # Errors
    /// `BadFile` naming the key that is missing, mistyped or 0; `Unsupported` for a key or a value
    /// that this version does not know.
    pub fn open(checkpoint: &Checkpoint<'_>) -> Result<Self> {
        let keys = checkpoint.keys()?;
        let rows = |name: &str| checkpoint.tensor(name).and_then(|t| t.1.first().copied());
        let config = match checkpoint.source {
            Source::Gguf(files) => {
                let (dim, heads) =
                    (keys.positive("embedding_length")?, keys.positive("attention.head_count")?);
                let width = head_dim(&keys, "attention.head_count", dim, heads)?;
                plain_heads(&keys, heads, width)?;
                keys.inert(&["vocab_size"]);
                keys.neutral(&[("attention.causal", 0.0, "hides rows from those before them")])?;
                files.tensor(TOKEN_EMBD)?;
                let pooling = Pooling::from_gguf(&keys)?;
                BertConfig {
                    layers: keys.layers("block_count")?,
                    dim,
                    ffn_dim: keys.positive("feed_forward_length")?,
                    heads,
                    vocab: rows(TOKEN_EMBD).unwrap_or(0),
                    context: keys.positive("context_length")?,
                    types: rows(TYPES).unwrap_or(0),
                    eps: keys.f32("attention.layer_norm_epsilon")?,
                    act: Unary::GeluErf,
                    pooling: checkpoint.pooling.unwrap_or(pooling),
                }
            }
            Source::Transformers { .. } => {
                transformers::common(&keys)?;
                // What the makers of the first checkpoints wrote of a pooler that nobody reads.
                keys.inert(&[
                    "directionality",
                    "pooler_fc_size",
                    "pooler_num_attention_heads",
                    "pooler_num_fc_layers",
                    "pooler_size_per_head",
                    "pooler_type",
                    "tie_word_embeddings",
                ]);
                keys.neutral(&[("is_decoder", 0.0, "hides rows from those before them")])?;
                const POSITIONS: &str = "position_embedding_type";
                if let Some(other) = keys.opt_str(POSITIONS)?.filter(|&kind| kind != "absolute") {
                    return Err(keys.unsupported(
                        POSITIONS,
                        format!("positions of type `{other}` are not supported"),
                        "supported: absolute",
                    ));
                }
                let (dim, heads) =
                    (keys.positive("hidden_size")?, keys.positive("num_attention_heads")?);
                head_dim(&keys, "num_attention_heads", dim, heads)?;
                BertConfig {
                    layers: keys.layers("num_hidden_layers")?,
                    dim,
                    ffn_dim: keys.positive("intermediate_size")?,
                    heads,
                    vocab: keys.positive("vocab_size")?,
                    context: keys.positive("max_position_embeddings")?,
                    types: keys.opt_u64("type_vocab_size")?.unwrap_or(2),
                    eps: keys.opt_f32("layer_norm_eps")?.unwrap_or(1e-12),
                    act: transformers::activation(&keys, "hidden_act", Unary::GeluErf)?,
                    pooling: checkpoint.pooling.unwrap_or(Pooling::MEAN),
                }
            }
        };
        keys.finish()?;
        Ok(config)
    }
}

impl Model for BertConfig {
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
        Box::new(BertConfig {
            layers: layers.len() as u64,
            dim: heads * width,
            heads,
            ffn_dim: encoder::row(self.ffn_dim),
            vocab: encoder::row(self.vocab),
            ..self.clone()
        })
    }

    fn build(&self, tensors: &Tensors<'_>, _context: u64) -> Result<Module> {
        let names = Names::of(tensors);
        // Positions are counted; heads for training and for masked words give none of the outputs.
        tensors.inert(|n| n.ends_with("embeddings.position_ids") || n.starts_with("cls."));
        let mut m = Module::graph("bert");
        let inputs = encoder::inputs(&mut m, self.types > 0);
        let mut x = self.embeddings(&mut m, tensors, &names, &inputs)?;
        m.tap("layer.embed", x);
        for i in 0..self.layers {
            let at = |tensor| names.layer(i, tensor);
            let linear =
                |tensor, out, input| tensors.linear_biased(&at(tensor), [out, input], Some(true));
            let square = |tensor| linear(tensor, self.dim, self.dim);
            let projections = [
                square(LayerTensor::Q)?,
                square(LayerTensor::K)?,
                square(LayerTensor::V)?,
                square(LayerTensor::O)?,
            ];
            let attention = EncoderAttention {
                heads: self.heads as usize,
                kv_heads: self.heads as usize,
                head_dim: (self.dim / self.heads) as usize,
                bias: true,
                mask: Mask::Custom,
                scale: None,
                softcap: None,
            };
            let label = format!("blk.{i}");
            let mask = Some(inputs.mask);
            let a = m.encoder_attention(x, projections, mask, attention, &format!("{label}.attn"));
            let a = m.add(a, x, &format!("{label}.attn_residual"));
            let [scale, bias] = names.norm(tensors, &at(LayerTensor::AttnNorm), self.dim)?;
            x = m.layer_norm(a, scale, Some(bias), self.eps, &format!("{label}.attn_norm"));
            let weights = [
                linear(LayerTensor::Up, self.ffn_dim, self.dim)?,
                linear(LayerTensor::Down, self.dim, self.ffn_dim)?,
            ];
            let f = m.mlp(x, weights, self.act, &format!("{label}.ffn"));
            let f = m.add(f, x, &format!("{label}.ffn_residual"));
            let [scale, bias] = names.norm(tensors, &at(LayerTensor::FfnNorm), self.dim)?;
            x = m.layer_norm(f, scale, Some(bias), self.eps, &format!("{label}.ffn_norm"));
            m.tap(format!("layer.{i}"), x);
        }
        encoder::outputs(&mut m, x, &inputs, self.pooling, self.dim)?;
        let pooler = names.pooler();
        if tensors.has(&format!("{pooler}.weight")) {
            let dense = tensors.linear(&pooler, self.dim, self.dim)?;
            let y = self.pooler(&mut m, x, dense);
            m.output("pooler_output", y);
        }
        Ok(m)
    }
}

impl BertConfig {
    /// The norm of the sum of three embeddings: tokens, positions, types.
    fn embeddings(
        &self,
        m: &mut Module,
        tensors: &Tensors<'_>,
        names: &Names,
        inputs: &TextInputs,
    ) -> Result<Tensor> {
        let [tokens, positions, types, norm] = names.embeddings();
        let table = tensors.weight(&tokens, &[self.vocab, self.dim])?;
        let table = m.weight(table);
        let mut x = m.op(Gather::default(), &[table, inputs.ids], "token_embd");
        let table = tensors.weight(&positions, &[self.context, self.dim])?;
        let dtype = table.ty.dtype;
        let table = m.weight(table);
        let at = first_rows(m, table, dtype, "position_embd");
        x = zip(m, Binary::Add, [x, at], "position_embd_sum");
        if let Some(ids) = inputs.types {
            let table = tensors.weight(&types, &[self.types, self.dim])?;
            let table = m.weight(table);
            let of_type = m.op(Gather::default(), &[table, ids], "type_embd");
            x = zip(m, Binary::Add, [x, of_type], "type_embd_sum");
        }
        let [scale, bias] = names.norm(tensors, &norm, self.dim)?;
        Ok(m.layer_norm(x, scale, Some(bias), self.eps, "embd_norm"))
    }

    /// `tanh(dense(first row))`.
    fn pooler(&self, m: &mut Module, x: Tensor, dense: LinearWeights) -> Tensor {
        let first = Slice { axis: 1, start: Dim::from(0u64), len: Dim::from(1u64), step: 1 };
        let first = m.op(first, &[x], "pooler_first");
        let dims = Shape(vec![Dim::symbol(BATCH), Dim::from(self.dim)]);
        let first = m.op(Reshape { dims }, &[first], "pooler_row");
        m.linear_act(first, dense, Some(Unary::Tanh), "pooler")
    }
}

/// A layer's tensors.
#[derive(Clone, Copy)]
enum LayerTensor {
    Q,
    K,
    V,
    O,
    AttnNorm,
    Up,
    Down,
    FfnNorm,
}

/// Names of tensors.
struct Names {
    naming: Naming,
    /// What some transformers checkpoints have before every name.
    prefix: &'static str,
    /// What norms call their scale and bias.
    norm: [&'static str; 2],
}

impl Names {
    fn of(tensors: &Tensors<'_>) -> Self {
        let naming = tensors.naming();
        let prefix = match tensors.has("bert.embeddings.word_embeddings.weight") {
            true => "bert.",
            false => "",
        };
        // The first checkpoints were converted from another library.
        let old = format!("{prefix}embeddings.LayerNorm.gamma");
        let norm = if tensors.has(&old) { ["gamma", "beta"] } else { ["weight", "bias"] };
        Names { naming, prefix, norm }
    }

    /// Tokens, positions, types, and the norm of their sum.
    fn embeddings(&self) -> [String; 4] {
        let p = self.prefix;
        match self.naming {
            Naming::Gguf => {
                [TOKEN_EMBD, "position_embd.weight", TYPES, "token_embd_norm"].map(String::from)
            }
            Naming::Transformers => [
                "word_embeddings.weight",
                "position_embeddings.weight",
                "token_type_embeddings.weight",
                "LayerNorm",
            ]
            .map(|part| format!("{p}embeddings.{part}")),
        }
    }

    /// Scale and bias of a norm.
    fn norm(&self, tensors: &Tensors<'_>, name: &str, dim: u64) -> Result<[Weight; 2]> {
        let [scale, bias] = self.norm.map(|part| tensors.weight(&format!("{name}.{part}"), &[dim]));
        Ok([scale?, bias?])
    }

    fn pooler(&self) -> String {
        format!("{}pooler.dense", self.prefix)
    }

    fn layer(&self, i: u64, tensor: LayerTensor) -> String {
        let (gguf, transformers) = match tensor {
            LayerTensor::Q => ("attn_q", "attention.self.query"),
            LayerTensor::K => ("attn_k", "attention.self.key"),
            LayerTensor::V => ("attn_v", "attention.self.value"),
            LayerTensor::O => ("attn_output", "attention.output.dense"),
            LayerTensor::AttnNorm => ("attn_output_norm", "attention.output.LayerNorm"),
            LayerTensor::Up => ("ffn_up", "intermediate.dense"),
            LayerTensor::Down => ("ffn_down", "output.dense"),
            LayerTensor::FfnNorm => ("layer_output_norm", "output.LayerNorm"),
        };
        match self.naming {
            Naming::Gguf => gguf_part(i, gguf),
            Naming::Transformers => format!("{}encoder.layer.{i}.{transformers}", self.prefix),
        }
    }
}
