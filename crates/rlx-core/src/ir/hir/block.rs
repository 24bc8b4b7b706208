//! The blocks: attributes, inputs, results. One row each; `lower/` has what they become.

use super::caches::Caches;
use crate::error::{Error, Result};
use crate::ir::mir::Graph;
#[cfg(feature = "encoders")]
use crate::ops::Mask;
use crate::ops::def::field::{attributes, read};
use crate::ops::{Attrs, Field, Op, RopeStyle, RopeTable, Route, Unary};
use crate::types::{DType, Shape, Type};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Rows of the table: documentation, variant, name in text, attributes, then inputs and results
/// as functions of the attributes.
macro_rules! blocks {
    ($(
        $(#[$doc:meta])*
        $variant:ident $name:literal $([$gate:literal])? { $($(#[$field_doc:meta])* $field:ident: $ty:ty,)* }
        inputs |$b:ident| $inputs:expr, results $results:expr;
    )*) => {
        $(
            $(#[$doc])*
            $(#[cfg(feature = $gate)])?
            #[derive(Clone, Debug, PartialEq)]
            pub struct $variant { $($(#[$field_doc])* pub $field: $ty,)* }

            $(#[cfg(feature = $gate)])?
            attributes! { $variant { $($field),* } }

            $(#[cfg(feature = $gate)])?
            impl From<$variant> for Block {
                fn from(block: $variant) -> Block {
                    Block::$variant(block)
                }
            }
        )*

        /// A block.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Block {
            $($(#[$doc])* $(#[cfg(feature = $gate)])? $variant($variant),)*
            /// Any operator of MIR, with its regions if it has some.
            Op(Op, Vec<Graph>),
        }

        impl Block {
            /// Names of all blocks in text.
            pub const NAMES: &'static [&'static str] = &[$($(#[cfg(feature = $gate)])? $name),*];

            /// The name in text; of an operator, the operator's.
            pub fn name(&self) -> &str {
                match self {
                    $($(#[cfg(feature = $gate)])? Self::$variant(_) => $name,)*
                    Self::Op(op, _) => op.name(),
                }
            }

            /// Attributes in print order.
            pub fn attrs(&self) -> Attrs {
                match self {
                    $($(#[cfg(feature = $gate)])? Self::$variant(b) => b.put("", Attrs::none()),)*
                    Self::Op(op, _) => op.attrs(),
                }
            }

            /// How many inputs it takes; `None` for an operator, whose type rule knows.
            pub fn inputs(&self) -> Option<usize> {
                match self {
                    $($(#[cfg(feature = $gate)])? Self::$variant($b) => { let _ = $b; Some($inputs) })*
                    Self::Op(..) => None,
                }
            }

            /// How many results it has; 1 for an operator unless it is pushed with more.
            pub fn results(&self) -> usize {
                match self {
                    $($(#[cfg(feature = $gate)])? Self::$variant(_) => $results,)*
                    Self::Op(..) => 1,
                }
            }

            /// The block of a printed name and attributes. Errors name what is unknown.
            pub fn from_text(name: &str, attrs: &Attrs) -> Result<Block> {
                match name {
                    $($(#[cfg(feature = $gate)])? $name => read("", attrs).map(Block::$variant),)*
                    _ => Err(Error::bad_graph(format!("unknown block {name}"))
                        .hint(format!("known: {}, and mir. before an operator", Self::NAMES.join(", ")))),
                }
            }
        }
    };
}

/// Inputs of a linear layer: weight, bias.
const fn linear(bias: bool) -> usize {
    1 + bias as usize
}

blocks! {
    /// Token ids `[SEQ]` of this step: of the control block, or input `ids`.
    Ids "ids" {} inputs |b| 0, results 1;
    /// `ids, table [V, D] -> [.., D]`: rows of a table by id.
    Embedding "embedding" {} inputs |b| 2, results 1;
    /// `x [SEQ, D] -> [OUT_ROWS, D]`: the last real rows, those that reach the head.
    OutRows "out_rows" {} inputs |b| 1, results 1;
    /// `x, w [V, D], (b)? -> [.., V]`: logits; their rows are sampled or returned.
    LmHead "lm_head" {
        /// Whether there is a bias.
        bias: bool,
        /// Bounds the logits: `softcap tanh(l / softcap)`.
        softcap: Option<f32>,
    } inputs |b| 1 + linear(b.bias), results 1;

    /// `a, b -> a + b`: a residual sum.
    Add "add" {} inputs |b| 2, results 1;
    /// `x, w [D] -> [.., D]`: root-mean-square norm (arXiv:1910.07467).
    RmsNorm "rms_norm" {
        /// Added to the mean square.
        eps: f32,
    } inputs |b| 2, results 1;
    /// `x, residual, w [D] -> norm(x + residual), x + residual`: what stands between two branches.
    ResidualRmsNorm "residual_rms_norm" {
        /// Added to the mean square.
        eps: f32,
    } inputs |b| 3, results 2;

    /// `x, scale [D], (bias [D])? -> [.., D]`: layer norm over the last axis.
    LayerNorm "layer_norm" {
        /// Added to the variance.
        eps: f32,
        /// Whether there is a bias.
        bias: bool,
    } inputs |b| 1 + linear(b.bias), results 1;
    /// `x, residual, scale [D], (bias [D])? -> norm(x + residual), x + residual`.
    ResidualLayerNorm "residual_layer_norm" {
        /// Added to the variance.
        eps: f32,
        /// Whether there is a bias.
        bias: bool,
    } inputs |b| 2 + linear(b.bias), results 2;

    /// `x [.., K], w [N, K], (b [N])? -> act(x w^T + b) [.., N]`.
    Linear "linear" {
        /// Whether there is a bias.
        bias: bool,
        /// What follows.
        act: Option<Unary>,
    } inputs |b| 1 + linear(b.bias), results 1;
    /// `x, w, b -> act(x w^T + b)`: one operator under either policy.
    LinearFused "linear_fused" {
        /// What follows.
        act: Option<Unary>,
    } inputs |b| 3, results 1;
    /// `x, w1, w2, (b1, b2)? -> x w1^T + b1, x w2^T + b2`.
    SharedLinearPair "shared_linear_pair" {
        /// Whether there are biases.
        bias: bool,
    } inputs |b| 1 + 2 * linear(b.bias), results 2;

    /// `x, gate [F, D], (b)?, up [F, D], (b)?, down [D, F], (b)? -> down(silu(gate x) * up x)`
    /// (arXiv:2002.05202).
    SwigluFfn "swiglu_ffn" {
        /// Whether the gate has a bias.
        gate_bias: bool,
        /// Whether up has a bias.
        up_bias: bool,
        /// Whether down has a bias.
        down_bias: bool,
    } inputs |b| 1 + linear(b.gate_bias) + linear(b.up_bias) + linear(b.down_bias), results 1;
    /// `swiglu_ffn` with GELU (tanh) for SiLU.
    GegluFfn "geglu_ffn" {
        /// Whether the gate has a bias.
        gate_bias: bool,
        /// Whether up has a bias.
        up_bias: bool,
        /// Whether down has a bias.
        down_bias: bool,
    } inputs |b| 1 + linear(b.gate_bias) + linear(b.up_bias) + linear(b.down_bias), results 1;
    /// `x, w1 [F, D], (b1)?, w2 [D, F], (b2)? -> act(x w1^T + b1) w2^T + b2`.
    Mlp "mlp" {
        /// What stands between the two.
        act: Unary,
        /// Whether both have biases.
        bias: bool,
    } inputs |b| 1 + 2 * linear(b.bias), results 1;

    /// `x [M, D], (scored [M, D])?, router [E, D], ([E])?, gate [E, F, D], ([E, F])?, up [E, F, D], ([E, F])?,
    /// down [E, D, F], ([E, D])?, (choice_bias [E])?, (weight [E])? -> [M, D]`: a mixture of experts, each
    /// product with a bias or none. A row goes to the experts that [`Route`] chooses by the router's products
    /// with x, or with `scored`, and is the sum of what they give, each times its share, and times its expert's
    /// weight. The bias of the choice counts for the choice alone.
    MoeFfn "moe_ffn" {
        /// What the gate's product goes through.
        act: Unary,
        /// Which experts, and what they count for.
        route: Route,
        /// Bounds both factors of the glu, whose second one then has 1 added: `f(min(gate, limit)) *
        /// (max(min(up, limit), -limit) + 1)`.
        limit: Option<f32>,
        /// Whether the router and the experts have biases.
        bias: bool,
        /// Whether the router reads other rows than the experts.
        scored: bool,
        /// Whether experts have weights that their shares are multiplied by.
        weighted: bool,
    } inputs |b| 5 + b.route.choice_bias as usize + 4 * usize::from(b.bias) + b.scored as usize
        + b.weighted as usize, results 1;

    /// `x [SEQ, H * head_dim], (factors)? -> x`: rotary positions of the step (arXiv:2104.09864).
    Rope "rope" {
        /// Which dimensions rotate together.
        style: RopeStyle,
        /// Width of a head.
        head_dim: usize,
        /// Angles.
        rope: RopeTable,
        /// Whether a tensor divides the frequencies.
        factors: bool,
    } inputs |b| 1 + b.factors as usize, results 1;
    /// `q, k, v, (q_norm, k_norm)?, (factors)?, (sinks)? -> [SEQ, H * head_dim]`: causal or
    /// block-causal self-attention with rotary positions over caches `blk.N.k` and `blk.N.v`.
    Attention "attention" {
        /// N: the layer's number.
        layer: usize,
        /// Query heads.
        heads: usize,
        /// Key and value heads.
        kv_heads: usize,
        /// Width of a head.
        head_dim: usize,
        /// Multiplies the scores.
        scale: f32,
        /// Rows that a row sees before its own, at most.
        window: Option<u64>,
        /// Bounds the scores: `softcap tanh(s / softcap)`.
        softcap: Option<f32>,
        /// Which dimensions rotate together.
        style: RopeStyle,
        /// Angles; with no dimensions, nothing turns.
        rope: RopeTable,
        /// Whether a tensor divides the frequencies.
        factors: bool,
        /// q and k have an RMS norm before they rotate, with this eps; its weights stand behind v:
        /// `[head_dim]` of each head, or as wide as all heads together.
        qk_eps: Option<f32>,
        /// Keys are the values too: there is no v, and one cache `blk.N.k`.
        values_are_keys: bool,
        /// An earlier layer whose caches are read: there are no k, v and k_norm.
        cache_of: Option<usize>,
        /// Whether a tensor `[H]` of f32 has a score for each head that joins its softmax and has no value.
        sinks: bool,
        /// Positions of a block, all of which see each other; `None`: a row sees none behind its own.
        block: Option<u64>,
    } inputs |b| 1 + b.written() + b.norms() + b.factors as usize + b.sinks as usize, results 1;
    /// `x [B, S, D], q, (b)?, k, (b)?, v, (b)?, o, (b)?, (mask)? -> [B, S, D]`: self-attention
    /// without a cache, its four projections among the inputs.
    EncoderAttention "encoder_attention" ["encoders"] {
        /// Query heads.
        heads: usize,
        /// Key and value heads.
        kv_heads: usize,
        /// Width of a head.
        head_dim: usize,
        /// Whether the projections have biases.
        bias: bool,
        /// Which keys a query sees.
        mask: Mask,
        /// Multiplies the scores; `1 / sqrt(head_dim)` if there is none.
        scale: Option<f32>,
        /// Bounds the scores.
        softcap: Option<f32>,
    } inputs |b| 1 + 4 * linear(b.bias) + b.mask.operands(), results 1;
    /// `x [B, S, H * head_dim] -> x`: rotary positions from 0 on (arXiv:2104.09864), the two halves of
    /// what turns of a head being pairs. The rest of a head passes through.
    EncoderRope "encoder_rope" ["encoders"] {
        /// Width of a head.
        head_dim: usize,
        /// Angles.
        rope: RopeTable,
    } inputs |b| 1, results 1;
    /// `x [B, S, D], memory [B, T, C], q, (b)?, k, (b)?, v, (b)?, o, (b)?, (mask)? -> [B, S, D]`:
    /// queries of x, keys and values of the memory.
    CrossAttention "cross_attention" ["encoders"] {
        /// Query heads.
        heads: usize,
        /// Key and value heads.
        kv_heads: usize,
        /// Width of a head.
        head_dim: usize,
        /// Whether the projections have biases.
        bias: bool,
        /// Which keys a query sees.
        mask: Mask,
    } inputs |b| 2 + 4 * linear(b.bias) + b.mask.operands(), results 1;
    /// `x [B, H, W, C], q, (b)?, k, (b)?, v, (b)?, o, (b)? -> [B, H, W, C]`: self-attention within
    /// windows of `window` by `window` places; a grid that they do not divide is padded with zeros.
    WindowAttention "window_attention" ["vision"] {
        /// Places along an edge of a window.
        window: usize,
        /// Heads.
        heads: usize,
        /// Width of a head.
        head_dim: usize,
        /// Whether the projections have biases.
        bias: bool,
    } inputs |b| 1 + 4 * linear(b.bias), results 1;
    /// `x [B, S, D], c [B, D], m [6 D, D], (b)?, q, (b)?, k, (b)?, v, (b)?, o, (b)?, w1, (b)?, w2,
    /// (b)? -> [B, S, D]`: a diffusion transformer's layer (arXiv:2212.09748). `m` of `silu(c)` gives
    /// shift, scale and gate of the attention, then those of the feed-forward.
    DitBlock "dit_block" ["vision"] {
        /// Heads.
        heads: usize,
        /// Width of a head.
        head_dim: usize,
        /// Added to the variance of both norms.
        eps: f32,
        /// What stands within the feed-forward.
        act: Unary,
        /// Whether linear layers have biases.
        bias: bool,
    } inputs |b| 2 + 7 * linear(b.bias), results 1;
    /// `x [B, S, C], w [C, K], left [B, K - 1, C] -> [B, S, C]`: a convolution of each channel over
    /// the positions up to its own; `left` are those before the first.
    DepthwiseConv1dCausal "depthwise_conv1d_causal" {
        /// K.
        kernel: usize,
    } inputs |b| 3, results 1;
    /// `x, w, (b)? -> act(conv(x, w) + b)`.
    Conv "conv" ["vision"] {
        /// Stride, padding, dilation, groups, bias.
        conv: crate::ops::Conv,
        /// What follows.
        act: Option<Unary>,
    } inputs |b| 2 + b.conv.bias as usize, results 1;
    /// `x [B, C, H, W], w [D, C, patch, patch], (b [D])? -> [B, H / patch * W / patch, D]`: patches
    /// of an image as rows.
    PatchEmbed "patch_embed" ["vision"] {
        /// Pixels along an edge.
        patch: usize,
        /// Whether there is a bias.
        bias: bool,
    } inputs |b| 1 + linear(b.bias), results 1;
    /// `q [.., S, K, N], k, v [.., S, H, V], g [.., S, H], beta [.., S, H] -> [.., S, H, V]`:
    /// linear attention with a gated delta rule (arXiv:2412.06464).
    GatedDeltaNet "gated_delta_net" {
        /// The layer's number: names the state `blk.N.s`.
        layer: usize,
        /// H.
        heads: usize,
        /// N.
        state_size: usize,
        /// V.
        width: usize,
        /// The matrices start as the state, f32 `[H, N, V]`, and are written back to it.
        carry: bool,
        /// Value heads of one key head do not follow each other but are K apart.
        tiled: bool,
    } inputs |b| 5, results 1;
    /// `qkv [S, 2 K N + H V], a [S, H], b [S, H], decay [H], dt [H] -> [S, H, V]`: a layer's gated delta net,
    /// of what its convolution and its projections give.
    DeltaNet "delta_net" {
        /// The layer's number: names the state `blk.N.s`.
        layer: usize,
        /// K.
        key_heads: usize,
        /// H.
        heads: usize,
        /// N.
        state_size: usize,
        /// V.
        width: usize,
        /// Added to the square of a query's or key's length.
        eps: f32,
        /// Value heads of one key head do not follow each other but are K apart.
        tiled: bool,
    } inputs |b| 5, results 1;
    /// `x [S, C], w [C, K] -> act(conv(x, w)) [S, C]`: a convolution of each channel over the rows up to its
    /// own; those before the step's first are the state `blk.N.conv`.
    CausalConv1d "causal_conv1d" {
        /// The layer's number.
        layer: usize,
        /// C.
        channels: usize,
        /// K.
        kernel: usize,
        /// What follows.
        act: Option<Unary>,
        /// A row of x has gates before and behind the convolution, and is `[S, 3 C]`.
        gated: bool,
    } inputs |b| 2, results 1;
    /// A layer of LLaMA: `x, attn_norm, q, k, v, o, ffn_norm, gate, up, down, (q_norm, k_norm)?,
    /// (factors)? -> x`; with norms of q and k, one of Qwen 3.
    DecoderBlock "decoder_block" {
        /// The layer's number: names the caches.
        layer: usize,
        /// Query heads.
        heads: usize,
        /// Key and value heads.
        kv_heads: usize,
        /// Width of a head.
        head_dim: usize,
        /// Multiplies the scores.
        scale: f32,
        /// Rows that a row sees before its own, at most.
        window: Option<u64>,
        /// Bounds the scores: `softcap tanh(s / softcap)`.
        softcap: Option<f32>,
        /// Added to the mean square of both norms.
        eps: f32,
        /// Which dimensions rotate together.
        style: RopeStyle,
        /// Angles.
        rope: RopeTable,
        /// Whether a tensor divides the frequencies.
        factors: bool,
        /// q and k have an RMS norm per head before they rotate, with this eps; its weights
        /// `[head_dim]` stand behind down.
        qk_eps: Option<f32>,
    } inputs |b| 10 + b.factors as usize + 2 * usize::from(b.qk_eps.is_some()), results 1;
}

impl Block {
    /// Whether its program has the control block of a language model.
    pub fn reads_control(&self) -> bool {
        match self {
            Self::GatedDeltaNet(b) => b.carry,
            Self::DeltaNet(_) | Self::CausalConv1d(_) => true,
            Self::Ids(_) | Self::OutRows(_) | Self::Rope(_) => true,
            Self::Attention(_) | Self::DecoderBlock(_) => true,
            _ => false,
        }
    }

    /// Whether an attribute says that a bias is among the inputs.
    pub fn has_bias(&self) -> bool {
        let bias = |a: &(_, _)| -> bool {
            let (name, value): &(String, crate::ops::Attr) = a;
            name.ends_with("bias") && *value == crate::ops::Attr::Bool(true)
        };
        matches!(self, Self::LinearFused(_)) || self.attrs().0.iter().any(bias)
    }
}

impl Attention {
    /// Its own caches: names, and types for a context of so many positions.
    pub fn states(&self, context: u64, caches: Caches) -> Vec<(String, Type)> {
        let ring = self.ring(context, caches);
        let dims = [self.kv_heads as u64, ring.unwrap_or(context), self.head_dim as u64];
        let cache =
            |part| (format!("blk.{}.{part}", self.layer), Type::state(caches.kv, Shape::of(&dims)));
        ["k", "v"].into_iter().take(self.written()).map(cache).collect()
    }

    /// Positions of its caches where these are rings.
    pub fn ring(&self, context: u64, caches: Caches) -> Option<u64> {
        caches.ring(context, self.window.filter(|_| self.block.is_none())?)
    }

    /// How many of k and v are among its inputs, and written to caches of its own.
    pub fn written(&self) -> usize {
        match (self.cache_of, self.values_are_keys) {
            (Some(_), _) => 0,
            (None, true) => 1,
            (None, false) => 2,
        }
    }

    /// How many of the norms of q and k are among its inputs.
    pub fn norms(&self) -> usize {
        if self.qk_eps.is_none() { 0 } else { 1 + usize::from(self.cache_of.is_none()) }
    }
}

/// Matrices of a layer of linear attention.
fn matrices(layer: usize, dims: [usize; 3]) -> (String, Type) {
    let ty = Type::state(DType::F32, Shape::of(&dims.map(|n| n as u64)));
    (format!("blk.{layer}.s"), ty)
}

impl GatedDeltaNet {
    /// Its state's name and type.
    pub fn state(&self) -> (String, Type) {
        matrices(self.layer, [self.heads, self.state_size, self.width])
    }
}

impl DeltaNet {
    /// Its state's name and type.
    pub fn state(&self) -> (String, Type) {
        matrices(self.layer, [self.heads, self.state_size, self.width])
    }
}

impl CausalConv1d {
    /// Its state's name and type: the rows before the step's first that its taps reach.
    pub fn state(&self) -> (String, Type) {
        let dims = [self.kernel.saturating_sub(1), self.channels].map(|n| n as u64);
        (format!("blk.{}.conv", self.layer), Type::state(DType::F32, Shape::of(&dims)))
    }
}

impl Block {
    /// Names and types of the states it keeps, for a context of so many positions.
    pub fn states(&self, context: u64, caches: Caches) -> Vec<(String, Type)> {
        match self {
            Self::Attention(a) => a.states(context, caches),
            Self::DecoderBlock(a) => a.attention().states(context, caches),
            Self::GatedDeltaNet(b) if b.carry => Vec::from([b.state()]),
            Self::DeltaNet(b) => Vec::from([b.state()]),
            Self::CausalConv1d(b) => Vec::from([b.state()]),
            _ => Vec::new(),
        }
    }
}

impl DecoderBlock {
    /// Its attention alone.
    pub fn attention(&self) -> Attention {
        Attention {
            layer: self.layer,
            heads: self.heads,
            kv_heads: self.kv_heads,
            head_dim: self.head_dim,
            scale: self.scale,
            window: self.window,
            softcap: self.softcap,
            style: self.style,
            rope: self.rope.clone(),
            factors: self.factors,
            qk_eps: self.qk_eps,
            values_are_keys: false,
            cache_of: None,
            sinks: false,
            block: None,
        }
    }
}
