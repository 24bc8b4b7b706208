//! HIR: what a model's author writes. Blocks over tensors, with the model's symbols unbound.
//!
//! A builder never fails: a wrong shape comes out of [`lower`](crate::lower::lower) with the label
//! of the block that made it, so a model's file stays free of `?`.

use crate::ops::{RopeStyle, RopeTable};
use crate::types::Type;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

/// A block's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tensor(pub u32);

/// A tensor of the model's file: its name there and its type.
#[derive(Clone, Debug, PartialEq)]
pub struct Weight {
    /// Name in the file.
    pub name: String,
    /// Type; matrices are `[out, in]`.
    pub ty: Type,
}

/// A linear layer's weights.
#[derive(Clone, Debug, PartialEq)]
pub struct LinearWeights {
    /// `[out, in]`.
    pub weight: Weight,
    /// `[out]`.
    pub bias: Option<Weight>,
}

/// Causal self-attention with rotary positions and a cache, after q, k and v are projected.
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionSpec {
    /// The layer's number: names the caches `blk.N.k` and `blk.N.v`.
    pub layer: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Multiplies the scores.
    pub scale: f32,
    /// Which dimensions rotate together.
    pub rope_style: RopeStyle,
    /// Angles.
    pub rope: RopeTable,
    /// Tensor that divides the frequencies.
    pub rope_factors: Option<Weight>,
}

/// A gated feed-forward: `down(f(gate(x)) * up(x))`.
#[derive(Clone, Debug, PartialEq)]
pub struct FfnWeights {
    /// `[F, D]`.
    pub gate: LinearWeights,
    /// `[F, D]`.
    pub up: LinearWeights,
    /// `[D, F]`.
    pub down: LinearWeights,
}

/// A block.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// Token ids `[SEQ]` of this step.
    Ids,
    /// Rows of a table by id.
    Embedding(Weight),
    /// Root-mean-square norm.
    RmsNorm {
        /// Scale.
        weight: Weight,
        /// Added to the mean square.
        eps: f32,
    },
    /// `x W^T + b`.
    Linear(LinearWeights),
    /// Attention of q, k, v.
    Attention(AttentionSpec),
    /// SwiGLU feed-forward (arXiv:2002.05202).
    SwigluFfn(FfnWeights),
    /// A residual sum.
    Add,
    /// The rows that reach the head: the last `OUT_ROWS` real ones.
    OutRows,
    /// Logits, `x W^T`; their rows are sampled or returned.
    LmHead(LinearWeights),
}

impl Block {
    /// The name in text.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Ids => "ids",
            Self::Embedding(_) => "embedding",
            Self::RmsNorm { .. } => "rms_norm",
            Self::Linear(_) => "linear",
            Self::Attention(_) => "attention",
            Self::SwigluFfn(_) => "swiglu_ffn",
            Self::Add => "add",
            Self::OutRows => "out_rows",
            Self::LmHead(_) => "lm_head",
        }
    }
}

/// A block with its inputs.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockNode {
    /// What it is.
    pub block: Block,
    /// Inputs.
    pub inputs: Vec<Tensor>,
    /// `blk.0.attn_q`.
    pub label: String,
}

/// A model as its author writes it.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Module {
    /// The family.
    pub name: String,
    /// Blocks in order; block `i` makes tensor `i`.
    pub nodes: Vec<BlockNode>,
    /// Points that a check may look at: name and tensor.
    pub taps: Vec<(String, Tensor)>,
    /// Positions the model is planned for: the capacity of its caches.
    pub context: u64,
    /// Tokens it knows.
    pub vocab: u64,
}

impl Module {
    /// An empty module for this many positions and tokens.
    pub fn new(name: &str, context: u64, vocab: u64) -> Self {
        Module { name: name.into(), context, vocab, ..Self::default() }
    }

    /// Appends a block.
    pub fn push(&mut self, block: Block, inputs: &[Tensor], label: impl Into<String>) -> Tensor {
        self.nodes.push(BlockNode { block, inputs: inputs.to_vec(), label: label.into() });
        Tensor(self.nodes.len() as u32 - 1)
    }

    /// The step's token ids, `[SEQ]`.
    pub fn ids(&mut self) -> Tensor {
        self.push(Block::Ids, &[], "ids")
    }

    /// Embeddings of `ids`, `[SEQ, D]`.
    pub fn embedding(&mut self, ids: Tensor, table: Weight) -> Tensor {
        self.push(Block::Embedding(table), &[ids], "token_embd")
    }

    /// RMS norm of the rows of `x`.
    pub fn rms_norm(&mut self, x: Tensor, weight: Weight, eps: f32, label: &str) -> Tensor {
        self.push(Block::RmsNorm { weight, eps }, &[x], label)
    }

    /// A linear layer.
    pub fn linear(&mut self, x: Tensor, weights: LinearWeights, label: &str) -> Tensor {
        self.push(Block::Linear(weights), &[x], label)
    }

    /// Attention over the layer's cache, `[SEQ, H * E]`.
    pub fn attention(&mut self, q: Tensor, k: Tensor, v: Tensor, spec: AttentionSpec) -> Tensor {
        let label = format!("blk.{}.attn", spec.layer);
        self.push(Block::Attention(spec), &[q, k, v], label)
    }

    /// SwiGLU feed-forward.
    pub fn swiglu_ffn(&mut self, x: Tensor, weights: FfnWeights, label: &str) -> Tensor {
        self.push(Block::SwigluFfn(weights), &[x], label)
    }

    /// A residual sum.
    pub fn add(&mut self, a: Tensor, b: Tensor, label: &str) -> Tensor {
        self.push(Block::Add, &[a, b], label)
    }

    /// The rows that reach the head, `[OUT_ROWS, D]`.
    pub fn out_rows(&mut self, x: Tensor) -> Tensor {
        self.push(Block::OutRows, &[x], "out_rows")
    }

    /// Logits, `[OUT_ROWS, V]`: the last block of a language model.
    pub fn lm_head(&mut self, x: Tensor, weights: LinearWeights) -> Tensor {
        self.push(Block::LmHead(weights), &[x], "lm_head")
    }

    /// Names a tensor that `rlx verify` compares with a record.
    pub fn tap(&mut self, name: impl Into<String>, x: Tensor) {
        self.taps.push((name.into(), x));
    }
}

impl fmt::Display for Module {
    /// One block a line: `%3 = linear %2, blk.0.attn_q.weight : tensor<…>`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "module @{} {{context = {}, vocab = {}}} {{",
            self.name, self.context, self.vocab
        )?;
        for (i, node) in self.nodes.iter().enumerate() {
            write!(f, "  %{i} = {}", node.block.name())?;
            for (k, x) in node.inputs.iter().enumerate() {
                write!(f, "{}%{}", if k > 0 { ", " } else { " " }, x.0)?;
            }
            let mut weights: Vec<&Weight> = vec![];
            let linear = |w: &'_ LinearWeights| [Some(w.weight.clone()), w.bias.clone()];
            let mut owned: Vec<Weight> = vec![];
            match &node.block {
                Block::Embedding(w) | Block::RmsNorm { weight: w, .. } => weights.push(w),
                Block::Linear(w) | Block::LmHead(w) => {
                    owned.extend(linear(w).into_iter().flatten())
                }
                Block::SwigluFfn(w) => {
                    for l in [&w.gate, &w.up, &w.down] {
                        owned.extend(linear(l).into_iter().flatten());
                    }
                }
                Block::Attention(a) => weights.extend(&a.rope_factors),
                Block::Ids | Block::Add | Block::OutRows => {}
            }
            weights.extend(&owned);
            for w in weights {
                write!(f, ", {} : {}", w.name, w.ty)?;
            }
            match &node.block {
                Block::RmsNorm { eps, .. } => write!(f, " {{eps = {eps:?}}}")?,
                Block::Attention(a) => write!(
                    f,
                    " {{heads = {}, kv_heads = {}, head_dim = {}, scale = {:?}, rope = {}, base = {:?}, dims = {}}}",
                    a.heads,
                    a.kv_heads,
                    a.head_dim,
                    a.scale,
                    a.rope_style.name(),
                    a.rope.base,
                    a.rope.dims
                )?,
                _ => {}
            }
            writeln!(f, " // {}", node.label)?;
        }
        writeln!(f, "}}")
    }
}
