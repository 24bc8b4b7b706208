//! ModernBERT encoder (Warner et al. 2024, arXiv:2412.13663).
//!
//! D model   F feed-forward   H heads   E = D / H width of a head   V tokens   P positions   W reach
//!
//! Layers are pre-norm, positions turn queries and keys, and the feed-forward is `o(gelu(x) gate)`. Most
//! layers are local: a token sees those at most W positions before or after it.

use super::checkpoint::Checkpoint;
use super::encoder::{self, zip};
use super::family::Family;
use super::keys::Keys;
use super::model::{Facts, Model, Task};
use super::pooling::Pooling;
use super::rotary::Rotary;
use super::tensors::Tensors;
use super::transformers;
use crate::error::Result;
use crate::ir::hir::{Module, Tensor};
use crate::ops::{
    Binary, Compare, Comparison, Constant, Gather, Iota, Map, Mask, Reshape, Sdpa, Select, Slice,
    Unary,
};
use crate::profile::{Preset, Presets};
use crate::types::{BATCH, DType, Dim, SEQ, Shape};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// The family's row.
pub(super) const FAMILY: Family = Family {
    name: "modernbert",
    presets: Presets::of(Preset::Encoder),
    gguf: &[],
    transformers: &["modernbert"],
    open: |checkpoint| Ok(Box::new(ModernBertConfig::open(checkpoint)?)),
};

/// Added to the score of a token that is not seen. Not infinite: a kernel that goes over keys in blocks
/// takes the difference of two scores before it has met one that is seen.
const HIDDEN: f64 = -1e30;

/// What a layer has and another has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModernBertLayer {
    /// Whether it sees no further than W.
    pub local: bool,
    /// Whether a norm stands before its attention. The first layer has none: its rows were just normed.
    pub normed: bool,
}

/// Sizes and constants of one checkpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct ModernBertConfig {
    /// Each encoder layer.
    pub layers: Vec<ModernBertLayer>,
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
    /// W: how many positions local layers see before a token, and after it.
    pub reach: u64,
    /// Added to the variance in norms.
    pub eps: f32,
    /// What the feed-forward's first half goes through.
    pub act: Unary,
    /// Whether attention's linear layers, the feed-forward's, and norms have a bias.
    pub biases: [bool; 3],
    /// Positions of layers that see everything, and of local ones.
    pub rotaries: [Rotary; 2],
    /// What makes one vector of a text.
    pub pooling: Pooling,
}

impl ModernBertConfig {
    /// Reads a checkpoint's configuration.
    ///
    /// # Errors
    /// `BadFile` naming the key that is missing, mistyped or 0; `Unsupported` for a key or a value
    /// that this version does not know.
    pub fn open(checkpoint: &Checkpoint<'_>) -> Result<Self> {
        let keys = checkpoint.keys()?;
        transformers::common(&keys)?;
        // What training does, heads that are not read, and which of two programs that compute the same
        // runs. Position embeddings are named in published files, where no such table is; so is an epsilon
        // beside the one that is used.
        keys.inert(&[
            "classifier_activation",
            "classifier_bias",
            "classifier_pooling",
            "decoder_bias",
            "deterministic_flash_attn",
            "embedding_dropout",
            "initializer_cutoff_factor",
            "layer_norm_eps",
            "mlp_dropout",
            "position_embedding_type",
            "reference_compile",
            "repad_logits_with_grad",
            "sparse_pred_ignore_index",
            "sparse_prediction",
            "tie_word_embeddings",
        ]);
        let (dim, heads) = (keys.positive("hidden_size")?, keys.positive("num_attention_heads")?);
        let width = encoder::head_dim(&keys, "num_attention_heads", dim, heads)?;
        let layers = keys.layers("num_hidden_layers")?;
        let context = keys.positive("max_position_embeddings")?;
        let has = |key: &str| -> Result<bool> { Ok(keys.opt_bool(key)?.unwrap_or(false)) };
        let config = ModernBertConfig {
            layers: kinds(&keys, layers)?,
            dim,
            ffn_dim: keys.positive("intermediate_size")?,
            heads,
            vocab: keys.positive("vocab_size")?,
            context,
            reach: keys.opt_positive("local_attention")?.unwrap_or(128) / 2,
            eps: keys.opt_f32("norm_eps")?.unwrap_or(1e-5),
            act: transformers::activation(&keys, "hidden_activation", Unary::GeluErf)?,
            biases: [has("attention_bias")?, has("mlp_bias")?, has("norm_bias")?],
            rotaries: rotaries(&keys, width, context)?,
            pooling: checkpoint.pooling.unwrap_or(Pooling::MEAN),
        };
        keys.finish()?;
        Ok(config)
    }
}

/// Which layers are local: a list says it, or every so many-th sees everything, from the first on.
fn kinds(keys: &Keys<'_>, layers: u64) -> Result<Vec<ModernBertLayer>> {
    const TYPES: &str = "layer_types";
    let every = keys.opt_positive("global_attn_every_n_layers")?.unwrap_or(3);
    let local: Vec<bool> = match keys.opt_strs(TYPES)? {
        None => (0..layers).map(|i| i % every != 0).collect(),
        Some(types) => {
            keys.one_each(TYPES, types.len(), layers)?;
            let of = |ty: &&str| match *ty {
                "full_attention" => Ok(false),
                "sliding_attention" => Ok(true),
                other => Err(keys.unsupported(
                    TYPES,
                    format!("layers of type `{other}` are not supported"),
                    "supported: full_attention, sliding_attention",
                )),
            };
            types.iter().map(of).collect::<Result<_>>()?
        }
    };
    let of = |(i, local): (usize, bool)| ModernBertLayer { local, normed: i > 0 };
    Ok(local.into_iter().enumerate().map(of).collect())
}

/// Positions of layers that see everything, and of local ones: in an object for each (transformers 5), or a
/// base for each.
fn rotaries(keys: &Keys<'_>, width: u64, context: u64) -> Result<[Rotary; 2]> {
    let both = keys.object("rope_parameters")?;
    let of = |kind: &str, old: &str, base: f32| -> Result<Rotary> {
        let own = match &both {
            Some(both) => both.object(kind)?,
            None => None,
        };
        let base = keys.opt_above_zero(old)?.unwrap_or(base);
        let said = own.as_ref().is_some_and(|own| own.has("rope_theta"));
        let rotary = Rotary::from_objects(keys, own.as_ref(), width, context)?;
        Ok(if said { rotary } else { Rotary { base, ..rotary } })
    };
    Ok([
        of("full_attention", "global_rope_theta", 160000.0)?,
        of("sliding_attention", "local_rope_theta", 10000.0)?,
    ])
}

impl Model for ModernBertConfig {
    fn facts(&self) -> Facts {
        Facts {
            family: FAMILY.name,
            task: Task::Embed,
            layers: self.layers.len() as u64,
            context: self.context,
            vocab: self.vocab,
            width: self.dim,
        }
    }

    fn small(&self, layers: &[u64]) -> Box<dyn Model> {
        let width = self.dim / self.heads;
        let heads = encoder::fewer_heads(self.heads, width);
        let of = |&i: &u64| self.layers.get(i as usize).copied();
        Box::new(ModernBertConfig {
            layers: layers.iter().filter_map(of).collect(),
            dim: heads * width,
            heads,
            ffn_dim: encoder::row(self.ffn_dim),
            vocab: encoder::row(self.vocab),
            ..self.clone()
        })
    }

    fn kind(&self, layer: u64) -> u64 {
        let own = self.layers.get(layer as usize);
        self.layers.iter().position(|kind| Some(kind) == own).unwrap_or(0) as u64
    }

    fn build(&self, tensors: &Tensors<'_>, context: u64) -> Result<Module> {
        // A head for masked words gives none of the outputs.
        tensors.inert(|n| n.starts_with("head.") || n.starts_with("decoder."));
        let prefix = match tensors.has("model.embeddings.tok_embeddings.weight") {
            true => "model.",
            false => "",
        };
        let mut m = Module::graph(FAMILY.name);
        let inputs = encoder::inputs(&mut m, false);
        let table = format!("{prefix}embeddings.tok_embeddings.weight");
        let table = tensors.weight(&table, &[self.vocab, self.dim])?;
        let table = m.weight(table);
        let x = m.op(Gather::default(), &[table, inputs.ids], "token_embd");
        let norm = format!("{prefix}embeddings.norm");
        let mut x = self.norm(&mut m, tensors, (&norm, x), "embd_norm")?;
        m.tap("layer.embed", x);
        let bias = match self.layers.iter().any(|l| l.local) {
            true => Some(self.near(&mut m, inputs.real)?),
            false => None,
        };
        for (i, kind) in self.layers.iter().enumerate() {
            let (at, label) = (format!("{prefix}layers.{i}"), format!("blk.{i}"));
            let mut y = x;
            if kind.normed {
                let norm = format!("{at}.attn_norm");
                y = self.norm(&mut m, tensors, (&norm, y), &format!("{label}.attn_norm"))?;
            }
            let seen = match bias.filter(|_| kind.local) {
                Some(bias) => (Mask::Bias, bias, &self.rotaries[1]),
                None => (Mask::Custom, inputs.mask, &self.rotaries[0]),
            };
            let a = self.attention(&mut m, tensors, y, seen, (&at, &label, context))?;
            x = m.add(a, x, &format!("{label}.attn_residual"));
            let norm = format!("{at}.mlp_norm");
            let y = self.norm(&mut m, tensors, (&norm, x), &format!("{label}.ffn_norm"))?;
            let f = self.feed_forward(&mut m, tensors, y, (&at, &label))?;
            x = m.add(f, x, &format!("{label}.ffn_residual"));
            m.tap(format!("layer.{i}"), x);
        }
        let norm = format!("{prefix}final_norm");
        let x = self.norm(&mut m, tensors, (&norm, x), "output_norm")?;
        encoder::outputs(&mut m, x, &inputs, self.pooling, self.dim)?;
        Ok(m)
    }
}

impl ModernBertConfig {
    /// `x` through the norm of that name.
    fn norm(
        &self,
        m: &mut Module,
        tensors: &Tensors<'_>,
        (name, x): (&str, Tensor),
        label: &str,
    ) -> Result<Tensor> {
        let part = |part: &str| tensors.weight(&format!("{name}.{part}"), &[self.dim]);
        let bias = self.biases[2].then(|| part("bias")).transpose()?;
        Ok(m.layer_norm(x, part("weight")?, bias, self.eps, label))
    }

    /// What local layers add to their scores, `[BATCH, 1, SEQ, SEQ]`: 0 where a real token is near enough,
    /// and [`HIDDEN`] elsewhere. A token always sees itself: rows of padding stay finite.
    fn near(&self, m: &mut Module, real: Tensor) -> Result<Tensor> {
        let (seq, one) = (Dim::symbol(SEQ), Dim::from(1u64));
        let number = |m: &mut Module, x: f64, label: &str| -> Result<Tensor> {
            Ok(m.op(Constant::scalar(DType::F32, x)?, &[], label))
        };
        let count = |m: &mut Module, dims: [Dim; 2], axis: usize, label: &str| {
            let dims = Shape(dims.into());
            m.op(Iota { dtype: DType::F32, dims, axis }, &[], label)
        };
        let query = count(m, [seq.clone(), one.clone()], 0, "local_query");
        let key = count(m, [one.clone(), seq.clone()], 1, "local_key");
        let distance = zip(m, Binary::Sub, [query, key], "local_offset");
        let distance = m.op(Map { f: Unary::Abs }, &[distance], "local_distance");
        let (zero, hidden) = (number(m, 0.0, "local_seen")?, number(m, HIDDEN, "local_hidden")?);
        let reach = number(m, self.reach as f64, "local_reach")?;
        let is_near = m.op(Compare { f: Comparison::Le }, &[distance, reach], "local_is_near");
        let near = m.op(Select, &[is_near, zero, hidden], "local_near");
        let dims = Shape(vec![Dim::symbol(BATCH), one.clone(), one, seq]);
        let real = m.op(Reshape { dims }, &[real], "local_real");
        let bias = m.op(Select, &[real, near, hidden], "local_real_near");
        let is_own = m.op(Compare { f: Comparison::Eq }, &[query, key], "local_is_own");
        Ok(m.op(Select, &[is_own, zero, bias], "local_bias"))
    }

    /// `o(attention(rope(q), rope(k), v))` of one layer; q, k and v are rows of one matrix.
    fn attention(
        &self,
        m: &mut Module,
        tensors: &Tensors<'_>,
        x: Tensor,
        (mask, seen, rotary): (Mask, Tensor, &Rotary),
        (at, label, context): (&str, &str, u64),
    ) -> Result<Tensor> {
        let (dim, width) = (self.dim, (self.dim / self.heads) as usize);
        let label = format!("{label}.attn");
        let linear = |part: &str, out: u64| {
            let name = format!("{at}.attn.{part}");
            tensors.linear_biased(&name, [out, dim], Some(self.biases[0]))
        };
        let qkv = m.linear(x, linear("Wqkv", 3 * dim)?, &format!("{label}_qkv"));
        let mut third = |n: u64, part: &str| columns(m, qkv, [n * dim, dim], &label, part);
        let (q, k, v) = (third(0, "q"), third(1, "k"), third(2, "v"));
        let rope = rotary.table(context);
        let q = m.encoder_rope(q, width, rope.clone(), &format!("{label}_q_rope"));
        let k = m.encoder_rope(k, width, rope, &format!("{label}_k_rope"));
        let op = Sdpa { mask, ..Sdpa::new(self.heads as usize, width) };
        let a = m.op(op, &[q, k, v, seen], &label);
        Ok(m.linear(a, linear("Wo", dim)?, &format!("{label}_output")))
    }

    /// `o(act(input) gate)`; input and gate are rows of one matrix, in that order.
    fn feed_forward(
        &self,
        m: &mut Module,
        tensors: &Tensors<'_>,
        x: Tensor,
        (at, label): (&str, &str),
    ) -> Result<Tensor> {
        let (f, label) = (self.ffn_dim, format!("{label}.ffn"));
        let linear = |part: &str, sizes: [u64; 2]| {
            tensors.linear_biased(&format!("{at}.mlp.{part}"), sizes, Some(self.biases[1]))
        };
        let both = m.linear(x, linear("Wi", [2 * f, self.dim])?, &format!("{label}_in"));
        let input = columns(m, both, [0, f], &label, "input");
        let gate = columns(m, both, [f, f], &label, "gate");
        let y = m.op(Map { f: self.act }, &[input], &format!("{label}_act"));
        let y = zip(m, Binary::Mul, [y, gate], &format!("{label}_gated"));
        Ok(m.linear(y, linear("Wo", [self.dim, f])?, &format!("{label}_out")))
    }
}

/// So many columns of `x` from one on.
fn columns(m: &mut Module, x: Tensor, [start, len]: [u64; 2], label: &str, part: &str) -> Tensor {
    let op = Slice { axis: 2, start: Dim::from(start), len: Dim::from(len), step: 1 };
    let label: String = format!("{label}_{part}");
    m.op(op, &[x], &label)
}
