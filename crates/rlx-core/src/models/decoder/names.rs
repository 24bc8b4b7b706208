//! Names of a decoder's tensors, without `.weight`, in both kinds of file.

use crate::models::naming::{Naming, TOKEN_EMBD, gguf_part};
use alloc::format;
use alloc::string::String;

/// A layer's tensor that a family's files name otherwise than others' do: in GGUF files, and in
/// transformers' folders.
pub(in crate::models) type Renamed = (Part, &'static str, &'static str);

/// A layer's tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::models) enum Part {
    /// The norm before the attention.
    AttnNorm,
    /// The norm after it.
    AttnPostNorm,
    Q,
    K,
    V,
    /// q, k and v, one behind the other.
    Qkv,
    O,
    QNorm,
    KNorm,
    /// The norm before the feed-forward, where there is none after the attention.
    FfnNorm,
    /// The norm before the feed-forward, where there is one after the attention.
    FfnPreNorm,
    /// The norm after the feed-forward.
    FfnPostNorm,
    Gate,
    Up,
    /// The gate and up, one behind the other.
    GateUp,
    Down,
    /// Scores of the experts.
    Router,
    /// Gates of all experts; in transformers' folders an expert's own, whose number stands for `#`.
    GateExperts,
    /// The same of up.
    UpExperts,
    /// The same of down.
    DownExperts,
}

/// Each part in GGUF files and in transformers' folders.
const NAMES: &[Renamed] = &[
    (Part::AttnNorm, "attn_norm", "input_layernorm"),
    (Part::AttnPostNorm, "post_attention_norm", "post_attention_layernorm"),
    (Part::Q, "attn_q", "self_attn.q_proj"),
    (Part::K, "attn_k", "self_attn.k_proj"),
    (Part::V, "attn_v", "self_attn.v_proj"),
    (Part::Qkv, "attn_qkv", "self_attn.qkv_proj"),
    (Part::O, "attn_output", "self_attn.o_proj"),
    (Part::QNorm, "attn_q_norm", "self_attn.q_norm"),
    (Part::KNorm, "attn_k_norm", "self_attn.k_norm"),
    (Part::FfnNorm, "ffn_norm", "post_attention_layernorm"),
    (Part::FfnPreNorm, "ffn_norm", "pre_feedforward_layernorm"),
    (Part::FfnPostNorm, "post_ffw_norm", "post_feedforward_layernorm"),
    (Part::Gate, "ffn_gate", "mlp.gate_proj"),
    (Part::Up, "ffn_up", "mlp.up_proj"),
    (Part::GateUp, "ffn_up", "mlp.gate_up_proj"),
    (Part::Down, "ffn_down", "mlp.down_proj"),
    (Part::Router, "ffn_gate_inp", "mlp.gate"),
    (Part::GateExperts, "ffn_gate_exps", "mlp.experts.#.gate_proj"),
    (Part::UpExperts, "ffn_up_exps", "mlp.experts.#.up_proj"),
    (Part::DownExperts, "ffn_down_exps", "mlp.experts.#.down_proj"),
];

/// Names of one checkpoint's tensors.
pub(in crate::models) struct Names {
    /// Which kind of file it is.
    pub naming: Naming,
    /// The family's own names.
    pub renamed: &'static [Renamed],
}

impl Names {
    /// The table of embeddings, with `.weight`.
    pub fn embedding(&self) -> &'static str {
        match self.naming {
            Naming::Gguf => TOKEN_EMBD,
            Naming::Transformers => "model.embed_tokens.weight",
        }
    }

    /// The last norm.
    pub fn output_norm(&self) -> &'static str {
        match self.naming {
            Naming::Gguf => "output_norm",
            Naming::Transformers => "model.norm",
        }
    }

    /// The head.
    pub fn head(&self) -> &'static str {
        match self.naming {
            Naming::Gguf => "output",
            Naming::Transformers => "lm_head",
        }
    }

    /// A layer's tensor.
    pub fn layer(&self, i: usize, part: Part) -> String {
        let row = self.renamed.iter().chain(NAMES).find(|row| row.0 == part);
        let (gguf, transformers) = row.map_or(("", ""), |row| (row.1, row.2));
        match self.naming {
            Naming::Gguf => gguf_part(i as u64, gguf),
            Naming::Transformers => format!("model.layers.{i}.{transformers}"),
        }
    }
}
