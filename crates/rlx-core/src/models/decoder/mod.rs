//! Decoder-only language models, as what their families say of them: layers of two branches, one
//! that looks back (attention, in most) and a feed-forward, which are added to the residual stream
//! (Vaswani et al. 2017, arXiv:1706.03762, section 3, without the encoder).
//!
//! D model   F feed-forward   H query heads   K key and value heads   E width of a head   V tokens
//!
//! A family's file reads its configuration into a [`Decoder`]; what one family does and others do
//! not is a value of a layer here, never a question after the family.

mod attention;
mod delta_net;
mod feed_forward;
mod latent;
mod layer_inputs;
mod names;
mod read;
mod routed;
mod short_conv;

pub use attention::{Attention, KvSource, QkNorm};
pub use delta_net::{DeltaNet, Projections};
pub use feed_forward::{Banks, Experts, FeedForward, Shared};
pub use latent::LatentAttention;
pub(super) use names::{Names, Part, Renamed};
pub(super) use read::{Sizes, Sliding, experts, factor, finish, permuted_pairs, windows};
pub(super) use routed::routed;
pub use short_conv::ShortConv;

use super::model::{Diffusion, Facts, Model, Task};
use super::naming::Naming;
use super::rotary::Rotary;
use super::tensors::Tensors;
use crate::error::{Code, Error, Result};
use crate::ir::hir::{FusionPolicy, LinearWeights, Module, RmsNorm, Tensor, Weight};
use crate::ops::{Binary, Constant, Reshape, RopeStyle, Zip};
use crate::types::{DType, Dim, SEQ, Shape};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// Where a layer's branches are normalised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BranchNorms {
    /// Before the attention and before the feed-forward: LLaMA's.
    #[default]
    Before,
    /// After them, before the sum: OLMo 2's.
    After,
    /// Before and after them: Gemma 2's.
    Both,
}

/// What lets a row take from the rows before it: a layer's first branch.
#[derive(Clone, Debug, PartialEq)]
pub enum Mixer {
    /// Attention over all of them, or a window of them.
    Attention(Attention),
    /// Attention over all of them, of which the cache holds one short row each.
    Latent(LatentAttention),
    /// Linear attention: a matrix of each head that every row changes.
    DeltaNet(DeltaNet),
    /// A convolution over the last few.
    ShortConv(ShortConv),
}

impl From<Attention> for Mixer {
    fn from(attention: Attention) -> Mixer {
        Mixer::Attention(attention)
    }
}

/// A layer.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// The first branch.
    pub mixer: Mixer,
    /// The second branch.
    pub feed_forward: FeedForward,
    /// Where the branches are normalised.
    pub norms: BranchNorms,
    /// Multiplies what a branch adds to its residual.
    pub residual_scale: f32,
}

impl Layer {
    /// LLaMA's: normalised before its branches, which are added as they are.
    pub fn new(mixer: impl Into<Mixer>, feed_forward: FeedForward) -> Self {
        let mixer = mixer.into();
        Layer { mixer, feed_forward, norms: BranchNorms::Before, residual_scale: 1.0 }
    }
}

/// One checkpoint of a decoder-only language model.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoder {
    /// Its family's name.
    pub family: &'static str,
    /// D.
    pub dim: u64,
    /// V.
    pub vocab: u64,
    /// Positions the model was trained for.
    pub context: u64,
    /// Added to the mean square in norms.
    pub eps: f32,
    /// What norms add to their weights.
    pub norm_offset: f32,
    /// Rotary positions; a layer says by number which are its own.
    pub rotary: Vec<Rotary>,
    /// Which dimensions rotate together.
    pub rope_style: RopeStyle,
    /// The layers, one by one.
    pub layers: Vec<Layer>,
    /// Multiplies embeddings.
    pub embedding_scale: f32,
    /// Divides logits.
    pub logit_scale: f32,
    /// Bounds logits.
    pub logit_softcap: Option<f32>,
    /// Whether the embeddings are the head; `None`: where the file has no head.
    pub tied: Option<bool>,
    /// Width of what each layer takes of the token itself beside the residual stream.
    pub layer_inputs: Option<u64>,
    /// Whether a number of each layer's own multiplies its result, residual and all.
    pub layer_scales: bool,
    /// Layers behind the last one that the file has for other uses: a second token's prediction.
    pub unused_layers: u64,
    /// How blocks are filled, if text is generated block by block; attention is then block-causal.
    pub diffusion: Option<Diffusion>,
    /// Tensors that the family's files name otherwise than others' do.
    pub(super) renamed: &'static [Renamed],
}

impl Decoder {
    /// Layers over plain embeddings and a plain head.
    pub(super) fn new(
        family: &'static str,
        sizes: &Sizes,
        rotary: Vec<Rotary>,
        layers: Vec<Layer>,
    ) -> Self {
        Decoder {
            family,
            dim: sizes.dim,
            vocab: sizes.vocab,
            context: sizes.context,
            eps: sizes.eps,
            norm_offset: 0.0,
            rotary,
            rope_style: RopeStyle::Half,
            layers,
            embedding_scale: 1.0,
            logit_scale: 1.0,
            logit_softcap: None,
            tied: sizes.tied,
            layer_inputs: None,
            layer_scales: false,
            unused_layers: 0,
            diffusion: None,
            renamed: &[],
        }
    }
}

#[cfg(feature = "encode")]
impl Decoder {
    /// Whether a layer has experts.
    pub(super) fn has_experts(&self) -> bool {
        self.layers.iter().any(|layer| !matches!(layer.feed_forward, FeedForward::Gated { .. }))
    }
}

impl Model for Decoder {
    #[cfg(any(feature = "encode", feature = "vision"))]
    fn decoder(&self) -> Option<&Decoder> {
        Some(self)
    }

    fn facts(&self) -> Facts {
        let longest = |r: &Rotary| r.longest(self.context);
        Facts {
            family: self.family,
            task: Task::Generate,
            layers: self.layers.len() as u64,
            context: self.rotary.first().map_or(self.context, longest),
            vocab: self.vocab,
            width: self.dim,
        }
    }

    fn diffusion(&self) -> Option<Diffusion> {
        self.diffusion
    }

    fn with_block(&self, block: u64) -> Option<Box<dyn Model>> {
        let diffusion = Diffusion { block, ..self.diffusion? };
        Some(Box::new(Decoder { diffusion: Some(diffusion), ..self.clone() }))
    }

    fn is_embedding(&self, tensor: &str) -> bool {
        [Naming::Gguf, Naming::Transformers]
            .iter()
            .any(|&naming| Names { naming, renamed: self.renamed }.embedding() == tensor)
    }

    fn kind(&self, layer: u64) -> u64 {
        let layer = self.layers.get(layer as usize);
        self.layers.iter().position(|l| Some(l) == layer).unwrap_or(0) as u64
    }

    fn small(&self, layers: &[u64]) -> Box<dyn Model> {
        let smaller = |layer: &Layer| Layer {
            mixer: match &layer.mixer {
                Mixer::Attention(a) => Mixer::Attention(a.small()),
                Mixer::Latent(a) => Mixer::Latent(a.small()),
                Mixer::DeltaNet(d) => Mixer::DeltaNet(d.small()),
                Mixer::ShortConv(c) => Mixer::ShortConv(*c),
            },
            feed_forward: layer.feed_forward.small(),
            ..layer.clone()
        };
        let layers = layers.iter().filter_map(|&i| self.layers.get(i as usize)).map(smaller);
        let mut layers: Vec<Layer> = layers.collect();
        attention::share_within(&mut layers);
        Box::new(Decoder {
            layers,
            dim: small_row(self.dim),
            vocab: small_row(self.vocab),
            ..self.clone()
        })
    }

    fn only(&self, layers: &[u64]) -> Option<Box<dyn Model>> {
        let layers = layers.iter().filter_map(|&i| self.layers.get(i as usize));
        let mut layers: Vec<Layer> = layers.cloned().collect();
        attention::share_within(&mut layers);
        Some(Box::new(Decoder { layers, vocab: small_row(self.vocab), ..self.clone() }))
    }

    fn build(&self, tensors: &Tensors<'_>, context: u64) -> Result<Module> {
        let mut m =
            Module::new(self.family, context, self.vocab).with_policy(FusionPolicy::Fusable);
        let names = Names { naming: tensors.naming(), renamed: self.renamed };
        let divisors = self.rotary.iter().map(|r| r.divisors(tensors, context));
        let divisors = divisors.collect::<Result<Vec<_>>>()?;
        // Frequencies, which are computed.
        tensors.inert(|n| n.ends_with(".rotary_emb.inv_freq"));
        let n = self.layers.len() as u64;
        let unused = n..n.saturating_add(self.unused_layers);
        let naming = tensors.naming();
        tensors.inert(|n| naming.layer_of(n).is_some_and(|(layer, _)| unused.contains(&layer)));

        let table = tensors.weight(names.embedding(), &[self.vocab, self.dim])?;
        let ids = m.ids();
        let x = m.embedding(ids, table.clone());
        let mut x = scaled(&mut m, x, self.embedding_scale, self.dim, "token_embd_scaled")?;
        m.tap("layer.embed", x);
        let b = Builder { model: self, tensors, names, divisors };
        let inputs = match self.layer_inputs {
            Some(width) => Some((b.layer_inputs(&mut m, ids, x, width)?, width)),
            None => None,
        };
        for (i, layer) in self.layers.iter().enumerate() {
            x = b.layer(&mut m, x, layer, i)?;
            if let Some((inputs, width)) = inputs {
                x = b.layer_input(&mut m, x, inputs, width, i)?;
            }
            if self.layer_scales {
                let scale = m.weight(tensors.weight(&b.names.layer(i, Part::LayerScale), &[1])?);
                x = m.op(Zip { f: Binary::Mul }, &[x, scale], &format!("blk.{i}.scaled"));
            }
            m.tap(format!("layer.{i}"), x);
        }
        let x = m.out_rows(x);
        let x = b.norm(&mut m, x, b.names.output_norm().into(), "output_norm")?;
        m.tap("layer.norm", x);
        b.head(&mut m, x, table)?;
        super::widen::vectors(&mut m);
        Ok(m)
    }
}

/// A width that a twin has for `n`: small, with the remainder that kernels and blocks see.
fn small_row(n: u64) -> u64 {
    if n <= 512 { n } else { 256 + n % 256 }
}

/// Rows `x` of so many columns times a number, and `x` itself for 1. The number is written out as a row, which
/// every executor's kernel for products takes.
fn scaled(m: &mut Module, x: Tensor, by: f32, columns: u64, label: &str) -> Result<Tensor> {
    if by == 1.0 {
        return Ok(x);
    }
    let by = Constant::f32s(&[columns], &vec![by; columns as usize])?;
    let by = m.op(by, &[], &format!("{label}_by"));
    Ok(m.op(Zip { f: Binary::Mul }, &[x, by], label))
}

/// `x [S, heads * width]` as `[S, heads, width]`.
fn split_heads(m: &mut Module, x: Tensor, [heads, width]: [u64; 2], label: &str) -> Tensor {
    let dims = Shape(vec![Dim::symbol(SEQ), heads.into(), width.into()]);
    m.op(Reshape { dims }, &[x], label)
}

/// `x [S, heads, ..]` as `[S, width]`.
fn join_heads(m: &mut Module, x: Tensor, width: u64, label: &str) -> Tensor {
    let dims = Shape(vec![Dim::symbol(SEQ), width.into()]);
    m.op(Reshape { dims }, &[x], label)
}

/// What building a layer needs beside the module.
struct Builder<'a> {
    model: &'a Decoder,
    tensors: &'a Tensors<'a>,
    names: Names,
    /// Of each of the model's rotary positions, the tensor that divides its frequencies.
    divisors: Vec<Option<Weight>>,
}

impl Builder<'_> {
    fn layer(&self, m: &mut Module, x: Tensor, layer: &Layer, i: usize) -> Result<Tensor> {
        let (before, after) = match layer.norms {
            BranchNorms::Before => ([Some(Part::AttnNorm), Some(Part::FfnNorm)], [None, None]),
            BranchNorms::After => {
                ([None, None], [Some(Part::AttnPostNorm), Some(Part::FfnPostNorm)])
            }
            BranchNorms::Both => (
                [Some(Part::AttnNorm), Some(Part::FfnPreNorm)],
                [Some(Part::AttnPostNorm), Some(Part::FfnPostNorm)],
            ),
        };
        let norm = |m: &mut Module, x, part: Option<Part>, label: &str| match part {
            Some(part) => self.norm(m, x, self.names.layer(i, part), &format!("blk.{i}.{label}")),
            None => Ok(x),
        };
        let by = layer.residual_scale;

        let h = norm(m, x, before[0], "attn_norm")?;
        let a = match &layer.mixer {
            Mixer::Attention(a) => self.attention(m, h, a, i)?,
            Mixer::Latent(a) => self.latent_attention(m, h, a, i)?,
            Mixer::DeltaNet(d) => self.delta_net(m, h, d, i)?,
            Mixer::ShortConv(c) => self.short_conv(m, h, *c, i)?,
        };
        m.tap(format!("layer.{i}.mixer"), a);
        let a = norm(m, a, after[0], "attn_post_norm")?;
        let a = scaled(m, a, by, self.model.dim, &format!("blk.{i}.attn_scaled"))?;
        let x = m.add(x, a, &format!("blk.{i}.attn_residual"));

        let h = norm(m, x, before[1], "ffn_norm")?;
        let f = self.feed_forward(m, [h, x], &layer.feed_forward, i)?;
        m.tap(format!("layer.{i}.feed_forward"), f);
        let f = norm(m, f, after[1], "ffn_post_norm")?;
        let f = scaled(m, f, by, self.model.dim, &format!("blk.{i}.ffn_scaled"))?;
        Ok(m.add(x, f, &format!("blk.{i}.ffn_residual")))
    }

    /// A norm's weight `[width]`, with the model's offset.
    fn norm_weight(&self, m: &mut Module, name: &str, width: u64, label: &str) -> Result<Tensor> {
        let weight = m.weight(self.tensors.weight(&format!("{name}.weight"), &[width])?);
        if self.model.norm_offset == 0.0 {
            return Ok(weight);
        }
        let offset = Constant::scalar(DType::F32, self.model.norm_offset.into())?;
        let offset = m.op(offset, &[], &format!("{label}_offset"));
        Ok(m.op(Zip { f: Binary::Add }, &[weight, offset], &format!("{label}_weight")))
    }

    /// RMS norm of the rows of `x`.
    fn norm(&self, m: &mut Module, x: Tensor, name: String, label: &str) -> Result<Tensor> {
        let weight = self.norm_weight(m, &name, self.model.dim, label)?;
        Ok(m.push(RmsNorm { eps: self.model.eps }, &[x, weight], label))
    }

    /// Logits.
    fn head(&self, m: &mut Module, x: Tensor, table: Weight) -> Result<()> {
        let model = self.model;
        let own = format!("{}.weight", self.names.head());
        let tied = LinearWeights { weight: table, bias: None };
        let head = if model.tied == Some(true) {
            // A file may hold a copy under the head's name.
            self.tensors.inert(|n| n == own);
            tied
        } else if model.tied == Some(false) || self.tensors.has(&own) {
            self.tensors.linear(self.names.head(), model.vocab, model.dim)?
        } else {
            tied
        };
        if model.logit_scale != 1.0 && head.bias.is_some() {
            let what = "logits have a factor and the head has a bias, which is not supported";
            return Err(Error::new(Code::Unsupported, what).at(self.names.head()));
        }
        // A head without a bias makes the same of rows that are divided as of logits, and those are more.
        let x = scaled(m, x, 1.0 / model.logit_scale, model.dim, "output_norm_scaled")?;
        m.lm_head_capped(x, head, model.logit_softcap);
        Ok(())
    }
}
