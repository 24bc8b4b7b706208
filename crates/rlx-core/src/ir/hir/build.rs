//! Builders: one method a block, weights by value, so that a model's file reads top to bottom.

use super::{
    Add, Attention, Block, DecoderBlock, Embedding, GegluFfn, Ids, LayerNorm, Linear, LinearFused,
    LmHead, Mlp, Module, OutRows, ResidualRmsNorm, RmsNorm, Rope, SharedLinearPair, SwigluFfn,
    Tensor, Weight,
};
#[cfg(feature = "encoders")]
use super::{CrossAttention, EncoderAttention, EncoderRope};
use crate::ops::{Op, RopeStyle, RopeTable, Unary};
use alloc::format;
use alloc::vec::Vec;

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
    /// Rows that a row sees before its own, at most.
    pub window: Option<u64>,
    /// Bounds the scores: `softcap tanh(s / softcap)`.
    pub softcap: Option<f32>,
    /// Which dimensions rotate together.
    pub rope_style: RopeStyle,
    /// Angles; `None`: nothing rotates.
    pub rope: Option<RopeTable>,
    /// Tensor that divides the frequencies.
    pub rope_factors: Option<Weight>,
    /// RMS norms of q and k before they rotate: weights and eps. Weights `[E]` are of each head,
    /// weights as wide as the rows of q and k of these. Only the first is read where k is another layer's.
    pub qk_norm: Option<([Tensor; 2], f32)>,
    /// A score of each head that joins its softmax and has no value, `[H]`.
    pub sinks: Option<Tensor>,
    /// Positions of a block, all of which see each other; `None`: a row sees none behind its own.
    pub block: Option<u64>,
}

/// What attention looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyValues {
    /// Keys and values `[SEQ, K * E]`, written to caches of the layer.
    Both(Tensor, Tensor),
    /// Keys that are the values too, in one cache.
    Keys(Tensor),
    /// What an earlier layer wrote.
    Of(usize),
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

/// A decoder layer's weights, none with a bias.
#[derive(Clone, Debug, PartialEq)]
pub struct DecoderWeights {
    /// `[D]`.
    pub attn_norm: Weight,
    /// `[H * E, D]`.
    pub q: Weight,
    /// `[K * E, D]`.
    pub k: Weight,
    /// `[K * E, D]`.
    pub v: Weight,
    /// `[D, H * E]`.
    pub o: Weight,
    /// `[D]`.
    pub ffn_norm: Weight,
    /// `[F, D]`.
    pub gate: Weight,
    /// `[F, D]`.
    pub up: Weight,
    /// `[D, F]`.
    pub down: Weight,
}

impl Module {
    /// Adds a layer's weights to a block's inputs; true if it has a bias.
    fn add_linear(&mut self, inputs: &mut Vec<Tensor>, w: LinearWeights) -> bool {
        inputs.push(self.weight(w.weight));
        let bias = w.bias.map(|b| self.weight(b));
        inputs.extend(bias);
        bias.is_some()
    }

    /// Any operator of MIR with one result.
    pub fn op(&mut self, op: impl Into<Op>, inputs: &[Tensor], label: &str) -> Tensor {
        self.push(Block::Op(op.into(), Vec::new()), inputs, label)
    }

    /// Any operator of MIR with `results` results.
    pub fn ops(
        &mut self,
        op: impl Into<Op>,
        inputs: &[Tensor],
        results: usize,
        label: &str,
    ) -> Vec<Tensor> {
        self.push_n(Block::Op(op.into(), Vec::new()), inputs, results, label)
    }

    /// The step's token ids, `[SEQ]`.
    pub fn ids(&mut self) -> Tensor {
        self.push(Ids {}, &[], "ids")
    }

    /// Embeddings of `ids`, `[SEQ, D]`.
    pub fn embedding(&mut self, ids: Tensor, table: Weight) -> Tensor {
        let table = self.weight(table);
        self.push(Embedding {}, &[ids, table], "token_embd")
    }

    /// RMS norm of the rows of `x`.
    pub fn rms_norm(&mut self, x: Tensor, weight: Weight, eps: f32, label: &str) -> Tensor {
        let weight = self.weight(weight);
        self.push(RmsNorm { eps }, &[x, weight], label)
    }

    /// `(rms_norm(x + residual), x + residual)`.
    pub fn residual_rms_norm(
        &mut self,
        x: Tensor,
        residual: Tensor,
        weight: Weight,
        eps: f32,
        label: &str,
    ) -> (Tensor, Tensor) {
        let weight = self.weight(weight);
        let y = self.push_n(ResidualRmsNorm { eps }, &[x, residual, weight], 2, label);
        (y[0], y[1])
    }

    /// Layer norm of the rows of `x`.
    pub fn layer_norm(
        &mut self,
        x: Tensor,
        scale: Weight,
        bias: Option<Weight>,
        eps: f32,
        label: &str,
    ) -> Tensor {
        let mut inputs = Vec::from([x, self.weight(scale)]);
        inputs.extend(bias.map(|b| self.weight(b)));
        let bias = inputs.len() > 2;
        self.push(LayerNorm { eps, bias }, &inputs, label)
    }

    /// A linear layer.
    pub fn linear(&mut self, x: Tensor, weights: LinearWeights, label: &str) -> Tensor {
        self.linear_act(x, weights, None, label)
    }

    /// A linear layer and a function of its result.
    pub fn linear_act(
        &mut self,
        x: Tensor,
        weights: LinearWeights,
        act: Option<Unary>,
        label: &str,
    ) -> Tensor {
        let mut inputs = Vec::from([x]);
        let bias = self.add_linear(&mut inputs, weights);
        self.push(Linear { bias, act }, &inputs, label)
    }

    /// `act(x w^T + b)` as one operator under either policy.
    pub fn linear_fused(
        &mut self,
        x: Tensor,
        (weight, bias): (Weight, Weight),
        act: Option<Unary>,
        label: &str,
    ) -> Tensor {
        let (weight, bias) = (self.weight(weight), self.weight(bias));
        self.push(LinearFused { act }, &[x, weight, bias], label)
    }

    /// Two linear layers of one input, both with a bias or neither.
    pub fn shared_linear_pair(
        &mut self,
        x: Tensor,
        weights: [LinearWeights; 2],
        label: &str,
    ) -> (Tensor, Tensor) {
        let mut inputs = Vec::from([x]);
        let mut biases = Vec::new();
        for w in weights {
            inputs.push(self.weight(w.weight));
            biases.extend(w.bias.map(|b| self.weight(b)));
        }
        let bias = !biases.is_empty();
        inputs.extend(biases);
        let y = self.push_n(SharedLinearPair { bias }, &inputs, 2, label);
        (y[0], y[1])
    }

    /// Rotary positions of this step.
    pub fn rope(
        &mut self,
        x: Tensor,
        style: RopeStyle,
        head_dim: usize,
        rope: RopeTable,
        factors: Option<Weight>,
        label: &str,
    ) -> Tensor {
        let mut inputs = Vec::from([x]);
        inputs.extend(factors.map(|w| self.weight(w)));
        let factors = inputs.len() > 1;
        self.push(Rope { style, head_dim, rope, factors }, &inputs, label)
    }

    /// Attention over the layer's caches, `[SEQ, H * E]`.
    pub fn attention(&mut self, q: Tensor, kv: KeyValues, spec: AttentionSpec) -> Tensor {
        let label = format!("blk.{}.attn", spec.layer);
        let mut inputs = Vec::from([q]);
        let (mut values_are_keys, mut cache_of) = (false, None);
        match kv {
            KeyValues::Both(k, v) => inputs.extend([k, v]),
            KeyValues::Keys(k) => {
                inputs.push(k);
                values_are_keys = true;
            }
            KeyValues::Of(layer) => cache_of = Some(layer),
        }
        let qk_eps = spec.qk_norm.as_ref().map(|n| n.1);
        let norms = if cache_of.is_some() { 1 } else { 2 };
        inputs.extend(spec.qk_norm.into_iter().flat_map(|n| n.0.into_iter().take(norms)));
        let factors = spec.rope_factors.is_some();
        inputs.extend(spec.rope_factors.map(|w| self.weight(w)));
        let sinks = spec.sinks.is_some();
        inputs.extend(spec.sinks);
        let block = Attention {
            layer: spec.layer,
            heads: spec.heads,
            kv_heads: spec.kv_heads,
            head_dim: spec.head_dim,
            scale: spec.scale,
            window: spec.window,
            softcap: spec.softcap,
            style: spec.rope_style,
            rope: spec.rope.unwrap_or_else(|| RopeTable::none(self.context)),
            factors,
            qk_eps,
            values_are_keys,
            cache_of,
            sinks,
            block: spec.block,
        };
        self.push(block, &inputs, label)
    }

    /// SwiGLU feed-forward.
    pub fn swiglu_ffn(&mut self, x: Tensor, weights: FfnWeights, label: &str) -> Tensor {
        let (inputs, [gate_bias, up_bias, down_bias]) = self.ffn(x, weights);
        self.push(SwigluFfn { gate_bias, up_bias, down_bias }, &inputs, label)
    }

    /// GEGLU feed-forward.
    pub fn geglu_ffn(&mut self, x: Tensor, weights: FfnWeights, label: &str) -> Tensor {
        let (inputs, [gate_bias, up_bias, down_bias]) = self.ffn(x, weights);
        self.push(GegluFfn { gate_bias, up_bias, down_bias }, &inputs, label)
    }

    fn ffn(&mut self, x: Tensor, weights: FfnWeights) -> (Vec<Tensor>, [bool; 3]) {
        let mut inputs = Vec::from([x]);
        let layers = [weights.gate, weights.up, weights.down];
        let biases = layers.map(|w| self.add_linear(&mut inputs, w));
        (inputs, biases)
    }

    /// Two linear layers with a function between them, both with a bias or neither.
    pub fn mlp(
        &mut self,
        x: Tensor,
        weights: [LinearWeights; 2],
        act: Unary,
        label: &str,
    ) -> Tensor {
        let mut inputs = Vec::from([x]);
        let biases = weights.map(|w| self.add_linear(&mut inputs, w));
        self.push(Mlp { act, bias: biases.contains(&true) }, &inputs, label)
    }

    /// A whole layer of LLaMA; its label is `blk.N`.
    pub fn decoder_block(
        &mut self,
        x: Tensor,
        w: DecoderWeights,
        spec: AttentionSpec,
        eps: f32,
    ) -> Tensor {
        let label = format!("blk.{}", spec.layer);
        let weights = [w.attn_norm, w.q, w.k, w.v, w.o, w.ffn_norm, w.gate, w.up, w.down]
            .map(|w| self.weight(w));
        let mut inputs = Vec::from([x]);
        inputs.extend(weights);
        let qk_eps = spec.qk_norm.as_ref().map(|n| n.1);
        inputs.extend(spec.qk_norm.into_iter().flat_map(|n| n.0));
        let factors = spec.rope_factors.is_some();
        inputs.extend(spec.rope_factors.map(|w| self.weight(w)));
        let block = DecoderBlock {
            layer: spec.layer,
            heads: spec.heads,
            kv_heads: spec.kv_heads,
            head_dim: spec.head_dim,
            scale: spec.scale,
            window: spec.window,
            softcap: spec.softcap,
            eps,
            style: spec.rope_style,
            rope: spec.rope.unwrap_or_else(|| RopeTable::none(self.context)),
            factors,
            qk_eps,
        };
        self.push(block, &inputs, label)
    }

    /// Self-attention without a cache; `projections` are q, k, v, o, all with a bias or none.
    #[cfg(feature = "encoders")]
    pub fn encoder_attention(
        &mut self,
        x: Tensor,
        projections: [LinearWeights; 4],
        mask: Option<Tensor>,
        mut block: EncoderAttention,
        label: &str,
    ) -> Tensor {
        let mut inputs = Vec::from([x]);
        let biases = projections.map(|w| self.add_linear(&mut inputs, w));
        block.bias = biases.contains(&true);
        inputs.extend(mask);
        self.push(block, &inputs, label)
    }

    /// Rotary positions of whole sequences `[B, S, H * head_dim]`, from 0 on.
    #[cfg(feature = "encoders")]
    pub fn encoder_rope(
        &mut self,
        x: Tensor,
        head_dim: usize,
        rope: RopeTable,
        label: &str,
    ) -> Tensor {
        self.push(EncoderRope { head_dim, rope }, &[x], label)
    }

    /// Attention of x over a memory; `projections` are q, k, v, o, all with a bias or none.
    #[cfg(feature = "encoders")]
    pub fn cross_attention(
        &mut self,
        [x, memory]: [Tensor; 2],
        projections: [LinearWeights; 4],
        mask: Option<Tensor>,
        mut block: CrossAttention,
        label: &str,
    ) -> Tensor {
        let mut inputs = Vec::from([x, memory]);
        let biases = projections.map(|w| self.add_linear(&mut inputs, w));
        block.bias = biases.contains(&true);
        inputs.extend(mask);
        self.push(block, &inputs, label)
    }

    /// A residual sum.
    pub fn add(&mut self, a: Tensor, b: Tensor, label: &str) -> Tensor {
        self.push(Add {}, &[a, b], label)
    }

    /// The rows that reach the head, `[OUT_ROWS, D]`.
    pub fn out_rows(&mut self, x: Tensor) -> Tensor {
        self.push(OutRows {}, &[x], "out_rows")
    }

    /// Logits, `[OUT_ROWS, V]`: the head of a language model.
    pub fn lm_head(&mut self, x: Tensor, weights: LinearWeights) -> Tensor {
        self.lm_head_capped(x, weights, None)
    }

    /// Logits within `-softcap` and `softcap`, as Gemma 2 bounds them.
    pub fn lm_head_capped(
        &mut self,
        x: Tensor,
        weights: LinearWeights,
        softcap: Option<f32>,
    ) -> Tensor {
        let mut inputs = Vec::from([x]);
        let bias = self.add_linear(&mut inputs, weights);
        self.push(LmHead { bias, softcap }, &inputs, "lm_head")
    }
}
