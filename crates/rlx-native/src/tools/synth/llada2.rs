//! LLaDA 2, of whose family there are no GGUF files: what a transformers folder of its sizes says and holds.

use super::contents::{Tensor, Tensors};
use super::shapes::{Experts, fewer};
use super::tokens::END;
use crate::tools::mix::Role;
use rlx_core::Result;
use serde_json::Value;

/// The dimensions of a model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Llada2 {
    /// The name on the command line.
    pub name: &'static str,
    /// Layers.
    pub layers: u32,
    /// How many of them, the first, have a feed-forward part without experts.
    pub dense: u32,
    /// Width of the residual stream.
    pub width: u32,
    /// Width of a feed-forward part without experts.
    pub feed_forward: u32,
    /// Experts of the others.
    pub experts: Experts,
    /// Experts that every row uses beside those.
    pub shared: u32,
    /// Groups of experts, and how many of them a row chooses in.
    pub groups: (u32, u32),
    /// What the chosen experts' sum is multiplied by.
    pub scaling: f32,
    /// Heads of queries.
    pub heads: u32,
    /// Heads of keys and values.
    pub kv_heads: u32,
    /// Width of a head, of which a half turns.
    pub head: u32,
    /// The base of rope's frequencies.
    pub rope_base: u32,
    /// Tokens.
    pub vocab: u32,
    /// The token of a position that has none yet.
    pub mask: u32,
    /// Positions it was trained for.
    pub context: u32,
}

/// Every shape that folders can be made in.
// Of the keys of inclusionAI/LLaDA2.0-mini's config.json.
pub const FOLDERS: [Llada2; 1] = [Llada2 {
    name: "llada2-mini",
    layers: 20,
    dense: 1,
    width: 2048,
    feed_forward: 5120,
    experts: Experts { count: 256, used: 8, width: 512 },
    shared: 1,
    groups: (8, 4),
    scaling: 2.5,
    heads: 16,
    kv_heads: 4,
    head: 128,
    rope_base: 600_000,
    vocab: 157_184,
    mask: 156_895,
    context: 16_384,
}];

impl Llada2 {
    /// The shape of that name.
    pub fn find(name: &str) -> Option<&'static Self> {
        FOLDERS.iter().find(|shape| shape.name == name)
    }

    /// The same with fewer layers: the first ones.
    ///
    /// # Errors
    /// `Usage` for none, or more than there are.
    pub fn cut(&self, layers: Option<u32>) -> Result<Self> {
        Ok(Self { layers: fewer(self.name, self.layers, layers)?, ..*self })
    }

    /// The number of weights.
    pub fn parameters(&self) -> u64 {
        self.tensors().iter().map(|t| t.dims.iter().product::<u64>()).sum()
    }

    /// The tensors, layer by layer.
    pub fn tensors(&self) -> Vec<Tensor> {
        let mut out = Tensors::default();
        let width = self.width;
        out.push("model.word_embeddings.weight", Role::Embedding, &[self.vocab, width]);
        for i in 0..self.layers {
            let name = |part: &str| format!("model.layers.{i}.{part}.weight");
            let (q, kv) = (self.heads * self.head, self.kv_heads * self.head);
            out.push(name("input_layernorm"), Role::Norm, &[width]);
            out.push(name("attention.query_key_value"), Role::Matrix, &[q + 2 * kv, width]);
            out.push(name("attention.query_layernorm"), Role::Norm, &[self.head]);
            out.push(name("attention.key_layernorm"), Role::Norm, &[self.head]);
            out.push(name("attention.dense"), Role::AttentionOutput, &[width, q]);
            out.push(name("post_attention_layernorm"), Role::Norm, &[width]);
            let mut gated = |part: &str, inner: u32| {
                out.push(name(&format!("{part}.gate_proj")), Role::Matrix, &[inner, width]);
                out.push(name(&format!("{part}.up_proj")), Role::Matrix, &[inner, width]);
                out.push(name(&format!("{part}.down_proj")), Role::Down(i), &[width, inner]);
            };
            if i < self.dense {
                gated("mlp", self.feed_forward);
                continue;
            }
            for expert in 0..self.experts.count {
                gated(&format!("mlp.experts.{expert}"), self.experts.width);
            }
            gated("mlp.shared_experts", self.shared * self.experts.width);
            out.push(name("mlp.gate"), Role::Router, &[self.experts.count, width]);
            let bias = format!("model.layers.{i}.mlp.gate.expert_bias");
            out.push(bias, Role::Bias, &[self.experts.count]);
        }
        out.push("model.norm.weight", Role::Norm, &[width]);
        out.push("lm_head.weight", Role::Head, &[self.vocab, width]);
        out.0
    }

    /// `config.json`.
    pub fn config(&self) -> Value {
        let pairs: [(&str, Value); 42] = [
            ("architectures", ["LLaDA2MoeModelLM"].as_slice().into()),
            ("model_type", "llada2_moe".into()),
            ("attention_dropout", 0.0.into()),
            ("embedding_dropout", 0.0.into()),
            ("eos_token_id", END.into()),
            ("first_k_dense_replace", self.dense.into()),
            ("head_dim", self.head.into()),
            ("hidden_act", "silu".into()),
            ("hidden_size", self.width.into()),
            ("initializer_range", 0.02.into()),
            ("intermediate_size", self.feed_forward.into()),
            ("mask_token_id", self.mask.into()),
            ("max_position_embeddings", self.context.into()),
            ("moe_intermediate_size", self.experts.width.into()),
            ("moe_router_enable_expert_bias", true.into()),
            ("n_group", self.groups.0.into()),
            ("norm_topk_prob", true.into()),
            ("num_attention_heads", self.heads.into()),
            ("num_experts", self.experts.count.into()),
            ("num_experts_per_tok", self.experts.used.into()),
            ("num_hidden_layers", self.layers.into()),
            ("num_key_value_heads", self.kv_heads.into()),
            ("num_shared_experts", self.shared.into()),
            ("output_dropout", 0.0.into()),
            ("pad_token_id", END.into()),
            ("partial_rotary_factor", 0.5.into()),
            ("rms_norm_eps", 1e-6.into()),
            ("rope_scaling", Value::Null),
            ("rope_theta", self.rope_base.into()),
            ("rotary_dim", (self.head / 2).into()),
            ("routed_scaling_factor", self.scaling.into()),
            ("router_dtype", "fp32".into()),
            ("score_function", "sigmoid".into()),
            ("tie_word_embeddings", false.into()),
            ("topk_group", self.groups.1.into()),
            ("torch_dtype", "bfloat16".into()),
            ("use_bias", false.into()),
            ("use_qk_norm", true.into()),
            ("use_qkv_bias", false.into()),
            ("use_rmsnorm", true.into()),
            ("use_sliding_window", false.into()),
            ("vocab_size", self.vocab.into()),
        ];
        pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::folder::headers;
    use super::*;
    use rlx_core::models::{self, Checkpoint, Diffusion};
    use rlx_core::safetensors::{HeaderReader, json::Json};

    /// The family reads every key and every tensor's sizes, or refuses them, and names what is missing.
    #[test]
    fn a_folder_has_the_published_sizes_and_all_that_the_family_reads() {
        let shape = Llada2::find("llada2-mini").unwrap();
        let config = Json::parse(shape.config().to_string().as_bytes(), "config.json", 0).unwrap();
        let read = |(bytes, total): (Vec<u8>, u64)| {
            let mut reader = HeaderReader::new("model", Some(total));
            reader.push(&bytes).unwrap();
            reader.into_header().unwrap()
        };
        let headers: Vec<_> = headers(&shape.tensors()).map(read).collect();
        // 16.26 B parameters in files of at most 5 GB.
        assert_eq!((shape.parameters(), headers.len()), (16_255_643_392, 7));
        let checkpoint = Checkpoint::transformers_shards(&config, &headers);
        let model = models::open(&checkpoint).unwrap();
        let facts = model.facts();
        assert_eq!((facts.layers, facts.width, facts.vocab), (20, 2048, 157_184));
        assert_eq!(facts.context, 16_384);
        let Diffusion { block, mask, .. } = model.diffusion().unwrap();
        assert_eq!((block, mask), (32, 156_895));
        let hir = model.module(&checkpoint, 4096).unwrap().to_string();
        let heads = "heads = 16, kv_heads = 4, head_dim = 128, scale = 0.088388346, style = half";
        let turns = "base = 600000.0, dims = 64";
        assert_eq!(hir.matches(&format!("{heads}, {turns}")).count(), 20);
        let scores = "top_k = 8, sigmoid = true, normalise = true, scale = 2.5, choice_bias = true";
        let groups = "groups = 8, top_groups = 4";
        assert_eq!(hir.matches(&format!("{scores}, {groups}")).count(), 19);
    }

    #[test]
    fn a_shape_is_cut_to_its_first_layers() {
        let shape = Llada2::find("llada2-mini").unwrap();
        let cut = shape.cut(Some(1)).unwrap();
        assert!(cut.tensors().iter().all(|t| !t.name.contains("experts")));
        let e = shape.cut(Some(21)).unwrap_err();
        assert_eq!(e.to_string(), "llada2-mini has no 21 layers; give 1 to 20");
    }
}
