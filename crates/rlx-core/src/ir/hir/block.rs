//! The blocks: attributes, inputs, results. One row each; `lower/` has what they become.

use super::field::Field;
use crate::error::{Error, Result};
use crate::ir::mir::Graph;
use crate::ops::{Attrs, Op, RopeStyle, RopeTable, Unary};
use alloc::format;
use alloc::vec::Vec;

/// Rows of the table: documentation, variant, name in text, attributes, then inputs and results
/// as functions of the attributes.
macro_rules! blocks {
    ($(
        $(#[$doc:meta])*
        $variant:ident $name:literal { $($(#[$field_doc:meta])* $field:ident: $ty:ty,)* }
        inputs |$b:ident| $inputs:expr, results $results:expr;
    )*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Debug, PartialEq)]
            pub struct $variant { $($(#[$field_doc])* pub $field: $ty,)* }

            impl $variant {
                /// Attributes in print order.
                #[allow(unused_mut, unused_assignments)]
                fn attrs(&self) -> Attrs {
                    let mut attrs = Attrs::none();
                    $(attrs = self.$field.put(stringify!($field), attrs);)*
                    attrs
                }

                fn from_attrs(attrs: &Attrs) -> Result<Self> {
                    #[allow(unused_mut)]
                    let mut names = Vec::new();
                    $(<$ty as Field>::names(stringify!($field), &mut names);)*
                    attrs.only(&names)?;
                    Ok($variant { $($field: <$ty as Field>::take(stringify!($field), attrs)?,)* })
                }
            }

            impl From<$variant> for Block {
                fn from(block: $variant) -> Block {
                    Block::$variant(block)
                }
            }
        )*

        /// A block.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Block {
            $($(#[$doc])* $variant($variant),)*
            /// Any operator of MIR, with its regions if it has some.
            Op(Op, Vec<Graph>),
        }

        impl Block {
            /// Names of all blocks in text.
            pub const NAMES: &'static [&'static str] = &[$($name),*];

            /// The name in text; of an operator, the operator's.
            pub fn name(&self) -> &str {
                match self {
                    $(Self::$variant(_) => $name,)*
                    Self::Op(op, _) => op.name(),
                }
            }

            /// Attributes in print order.
            pub fn attrs(&self) -> Attrs {
                match self {
                    $(Self::$variant(b) => b.attrs(),)*
                    Self::Op(op, _) => op.attrs(),
                }
            }

            /// How many inputs it takes; `None` for an operator, whose type rule knows.
            pub fn inputs(&self) -> Option<usize> {
                match self {
                    $(Self::$variant($b) => { let _ = $b; Some($inputs) })*
                    Self::Op(..) => None,
                }
            }

            /// How many results it has; 1 for an operator unless it is pushed with more.
            pub fn results(&self) -> usize {
                match self {
                    $(Self::$variant(_) => $results,)*
                    Self::Op(..) => 1,
                }
            }

            /// The block of a printed name and attributes. Errors name what is unknown.
            pub fn from_text(name: &str, attrs: &Attrs) -> Result<Block> {
                match name {
                    $($name => $variant::from_attrs(attrs).map(Block::$variant),)*
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
    /// `q, k, v, (factors)? -> [SEQ, H * head_dim]`: causal self-attention with rotary positions
    /// over caches `blk.N.k` and `blk.N.v`.
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
        /// Which dimensions rotate together.
        style: RopeStyle,
        /// Angles.
        rope: RopeTable,
        /// Whether a tensor divides the frequencies.
        factors: bool,
    } inputs |b| 3 + b.factors as usize, results 1;
    /// A layer of LLaMA: `x, attn_norm, q, k, v, o, ffn_norm, gate, up, down, (factors)? -> x`.
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
        /// Added to the mean square of both norms.
        eps: f32,
        /// Which dimensions rotate together.
        style: RopeStyle,
        /// Angles.
        rope: RopeTable,
        /// Whether a tensor divides the frequencies.
        factors: bool,
    } inputs |b| 10 + b.factors as usize, results 1;
}

impl Block {
    /// Whether its program has the control block of a language model.
    pub fn reads_control(&self) -> bool {
        matches!(
            self,
            Self::Ids(_)
                | Self::OutRows(_)
                | Self::Rope(_)
                | Self::Attention(_)
                | Self::DecoderBlock(_)
        )
    }

    /// Whether an attribute says that a bias is among the inputs.
    pub fn has_bias(&self) -> bool {
        let bias = |a: &(_, _)| -> bool {
            let (name, value): &(alloc::string::String, crate::ops::Attr) = a;
            name.ends_with("bias") && *value == crate::ops::Attr::Bool(true)
        };
        matches!(self, Self::LinearFused(_)) || self.attrs().0.iter().any(bias)
    }
}

impl Block {
    /// `(layer, kv_heads, head_dim)` of the caches it keeps.
    pub fn caches(&self) -> Option<(usize, usize, usize)> {
        match self {
            Self::Attention(a) => Some((a.layer, a.kv_heads, a.head_dim)),
            Self::DecoderBlock(a) => Some((a.layer, a.kv_heads, a.head_dim)),
            _ => None,
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
            style: self.style,
            rope: self.rope.clone(),
            factors: self.factors,
        }
    }
}
