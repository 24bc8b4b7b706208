//! Names of a decoder's tensors, without `.weight`, in both kinds of file.

use crate::models::naming::Naming;
use alloc::string::String;

/// A layer's tensor that a family's files name otherwise than others' do: in GGUF files, and in
/// transformers' folders.
pub(in crate::models) type Renamed = (Part, &'static str, &'static str);

/// A layer's tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::models) enum Part {
    /// The table of embeddings, of no layer; whole.
    Embedding,
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
    /// Attention over latent rows: the projection to the row and to what turns, its norm, keys and values of it in
    /// one tensor, in two; the row of queries, its norm, queries of it.
    LatentKv,
    LatentKvNorm,
    LatentKvUp,
    LatentKeys,
    LatentValues,
    LatentQ,
    LatentQNorm,
    LatentQUp,
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
    /// The last norm, of no layer.
    OutputNorm,
    /// Scores of the experts.
    Router,
    /// What is added to the scores where experts are chosen; whole.
    ChoiceBias,
    /// The expert of all rows: its gate, up and down, and what its result is multiplied by.
    SharedGate,
    SharedUp,
    SharedDown,
    SharedScore,
    /// The convolution of rows, and what stands before and behind it in a layer of its own.
    Conv,
    ConvIn,
    ConvOut,
    /// Linear attention: q, k and v; z; a; b; b and a; q, k, v and z; the decay, without `.weight`; the time
    /// step's bias, whole; the norm; the output.
    DeltaQkv,
    DeltaZ,
    DeltaA,
    DeltaB,
    DeltaBa,
    DeltaQkvz,
    DeltaDecay,
    DeltaTime,
    DeltaNorm,
    DeltaOut,
    /// A score of each head that joins its softmax, the whole name.
    Sinks,
    /// Gates and ups of all experts in one tensor, the whole name.
    GateUpExperts,
    /// A feed-forward beside experts: its norm behind it, the experts' norms before and behind them; the router's
    /// factor of each element and the factor of each expert, both whole.
    DensePostNorm,
    ExpertsNorm,
    ExpertsPostNorm,
    RouterScale,
    ExpertScale,
    /// What a layer takes of the token itself: its gate, the product back to a row, the norm; and what multiplies the
    /// layer's result, whole.
    LayerInputGate,
    LayerInputUp,
    LayerInputNorm,
    LayerScale,
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
    (Part::LatentKv, "attn_kv_a_mqa", "self_attn.kv_a_proj_with_mqa"),
    (Part::LatentKvNorm, "attn_kv_a_norm", "self_attn.kv_a_layernorm"),
    (Part::LatentKvUp, "attn_kv_b", "self_attn.kv_b_proj"),
    (Part::LatentKeys, "attn_k_b", ""),
    (Part::LatentValues, "attn_v_b", ""),
    (Part::LatentQ, "attn_q_a", "self_attn.q_a_proj"),
    (Part::LatentQNorm, "attn_q_a_norm", "self_attn.q_a_layernorm"),
    (Part::LatentQUp, "attn_q_b", "self_attn.q_b_proj"),
    (Part::FfnNorm, "ffn_norm", "post_attention_layernorm"),
    (Part::FfnPreNorm, "ffn_norm", "pre_feedforward_layernorm"),
    (Part::FfnPostNorm, "post_ffw_norm", "post_feedforward_layernorm"),
    (Part::Gate, "ffn_gate", "mlp.gate_proj"),
    (Part::Up, "ffn_up", "mlp.up_proj"),
    (Part::GateUp, "ffn_up", "mlp.gate_up_proj"),
    (Part::Down, "ffn_down", "mlp.down_proj"),
    (Part::Router, "ffn_gate_inp", "mlp.gate"),
    (Part::ChoiceBias, "exp_probs_b.bias", "mlp.gate.e_score_correction_bias"),
    (Part::SharedGate, "ffn_gate_shexp", "mlp.shared_expert.gate_proj"),
    (Part::SharedUp, "ffn_up_shexp", "mlp.shared_expert.up_proj"),
    (Part::SharedDown, "ffn_down_shexp", "mlp.shared_expert.down_proj"),
    (Part::SharedScore, "ffn_gate_inp_shexp", "mlp.shared_expert_gate"),
    (Part::Conv, "shortconv.conv", "conv.conv"),
    (Part::ConvIn, "shortconv.in_proj", "conv.in_proj"),
    (Part::ConvOut, "shortconv.out_proj", "conv.out_proj"),
    (Part::DeltaQkv, "attn_qkv", "linear_attn.in_proj_qkv"),
    (Part::DeltaZ, "attn_gate", "linear_attn.in_proj_z"),
    (Part::DeltaA, "ssm_alpha", "linear_attn.in_proj_a"),
    (Part::DeltaB, "ssm_beta", "linear_attn.in_proj_b"),
    (Part::DeltaBa, "ssm_ba", "linear_attn.in_proj_ba"),
    (Part::DeltaQkvz, "", "linear_attn.in_proj_qkvz"),
    (Part::DeltaDecay, "ssm_a", "linear_attn.A_log"),
    (Part::DeltaTime, "ssm_dt.bias", "linear_attn.dt_bias"),
    (Part::DeltaNorm, "ssm_norm", "linear_attn.norm"),
    (Part::DeltaOut, "ssm_out", "linear_attn.out_proj"),
    (Part::Sinks, "attn_sinks.weight", "self_attn.sinks"),
    (Part::GateUpExperts, "ffn_gate_up_exps.weight", "mlp.experts.gate_up_proj"),
    (Part::DensePostNorm, "post_ffw_norm_1", "post_feedforward_layernorm_1"),
    (Part::ExpertsNorm, "pre_ffw_norm_2", "pre_feedforward_layernorm_2"),
    (Part::ExpertsPostNorm, "post_ffw_norm_2", "post_feedforward_layernorm_2"),
    (Part::RouterScale, "ffn_gate_inp.scale", "router.scale"),
    (Part::ExpertScale, "ffn_down_exps.scale", "router.per_expert_scale"),
    (Part::LayerInputGate, "inp_gate", "per_layer_input_gate"),
    (Part::LayerInputUp, "proj", "per_layer_projection"),
    (Part::LayerInputNorm, "post_norm", "post_per_layer_input_norm"),
    (Part::LayerScale, "layer_output_scale.weight", "layer_scalar"),
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
        let row = self.renamed.iter().find(|row| row.0 == Part::Embedding);
        match (row, self.naming) {
            (Some(row), Naming::Gguf) => row.1,
            (Some(row), Naming::Transformers) => row.2,
            (None, naming) => naming.embedding(),
        }
    }

    /// The last norm.
    pub fn output_norm(&self) -> &'static str {
        let row = self.renamed.iter().find(|row| row.0 == Part::OutputNorm);
        let (gguf, transformers) = row.map_or(("output_norm", "model.norm"), |row| (row.1, row.2));
        match self.naming {
            Naming::Gguf => gguf,
            Naming::Transformers => transformers,
        }
    }

    /// What layers take of the token itself: the table, the projection of the first rows, its norm.
    pub fn layer_inputs(&self) -> [&'static str; 3] {
        match self.naming {
            Naming::Gguf => ["per_layer_token_embd", "per_layer_model_proj", "per_layer_proj_norm"],
            Naming::Transformers => [
                "model.embed_tokens_per_layer",
                "model.per_layer_model_projection",
                "model.per_layer_projection_norm",
            ],
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
        self.naming.part(i as u64, if self.naming == Naming::Gguf { gguf } else { transformers })
    }
}
