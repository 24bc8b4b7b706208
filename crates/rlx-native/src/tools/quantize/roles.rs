//! What the tensors of a model file are, by their names, and what a mix asks of the model.

use crate::files::ModelSource;
use crate::tools::mix::{Role, Traits};
use rlx_core::gguf::TensorInfo;
use rlx_core::types::{DType, Scalar};
use rlx_core::{Error, Result};

/// Parts of names of matrices that stay as they are: norms, routers, and what is small or looked up
/// by position. llama.cpp keeps the same ones.
const KEPT: &[&str] = &[
    "_norm.weight",
    "ffn_gate_inp.weight",
    "ffn_gate_tid2eid.weight",
    "altup",
    "laurel",
    "per_layer_model_proj",
    "ssm_conv1d",
    "shortconv.conv.weight",
    "indexer.k_proj.weight",
    "indexer.q_proj.weight",
    "time_mix_first.weight",
    "time_mix_w0.weight",
    "time_mix_w1.weight",
    "time_mix_w2.weight",
    "time_mix_v0.weight",
    "time_mix_v1.weight",
    "time_mix_v2.weight",
    "time_mix_a0.weight",
    "time_mix_a1.weight",
    "time_mix_a2.weight",
    "time_mix_g1.weight",
    "time_mix_g2.weight",
    "time_mix_decay_w1.weight",
    "time_mix_decay_w2.weight",
    "time_mix_lerp_fused.weight",
    "attn_rel_b.weight",
    "position_embd",
    "token_types.weight",
    "patch_embd",
    "patch_merger",
    ".rel_pos",
];

/// The number of a block's tensor: 3 of `blk.3.ffn_down.weight`.
fn block(name: &str) -> Option<u32> {
    name.strip_prefix("blk.")?.split('.').next()?.parse().ok()
}

/// True for a matrix that a quant is for.
fn converts(tensor: &TensorInfo) -> bool {
    let float = match tensor.dtype {
        DType::Scalar(scalar) => matches!(scalar, Scalar::F32 | Scalar::F16 | Scalar::Bf16),
        DType::Block(_) => true,
    };
    // Leading sizes of one make no matrix.
    let matrix = tensor.elements() > tensor.dims.last().copied().unwrap_or(1);
    let name = tensor.name.as_str();
    float && matrix && name.ends_with("weight") && !KEPT.iter().any(|part| name.contains(part))
}

fn is_values(name: &str) -> bool {
    ["attn_v.weight", "attn_qkv.weight", "attn_kv_b.weight"].iter().any(|part| name.contains(part))
}

/// What each tensor is; `None` for those that keep their bytes. Values and down matrices are counted by
/// block, wherever they stand in the file.
pub fn roles(tensors: &[&(usize, TensorInfo)]) -> Vec<Option<Role>> {
    // A block's down matrices count once: experts are one tensor, or several of one block.
    let ranks = |part: &dyn Fn(&str) -> bool| {
        let mut blocks: Vec<u32> = tensors
            .iter()
            .filter(|(_, t)| part(&t.name) && converts(t))
            .filter_map(|(_, t)| block(&t.name))
            .collect();
        blocks.sort_unstable();
        blocks.dedup();
        blocks
    };
    let is_down = |name: &str| name.contains("ffn_down");
    let (values, downs) = (ranks(&is_values), ranks(&is_down));
    let rank = |list: &[u32], name: &str| {
        block(name).and_then(|n| list.binary_search(&n).ok()).unwrap_or(0) as u32
    };
    let role = |tensor: &TensorInfo| {
        let name = tensor.name.as_str();
        match name {
            _ if !converts(tensor) => None,
            "output.weight" => Some(Role::Head),
            "token_embd.weight" | "per_layer_token_embd.weight" => Some(Role::Embedding),
            _ if is_values(name) => Some(Role::Values(rank(&values, name))),
            _ if name.contains("attn_k.weight") => Some(Role::Keys),
            _ if name.contains("attn_output.weight") => Some(Role::AttentionOutput),
            _ if is_down(name) => Some(Role::Down(rank(&downs, name))),
            _ => Some(Role::Matrix),
        }
    };
    tensors.iter().map(|(_, tensor)| role(tensor)).collect()
}

/// What a mix asks of the model.
///
/// # Errors
/// `BadFile` for a file that does not say its architecture or its number of blocks.
pub fn traits(source: &ModelSource, roles: &[Option<Role>]) -> Result<Traits> {
    let metadata = &source.files.metadata;
    let architecture = metadata.str("general.architecture")?;
    let key = |name: &str| format!("{architecture}.{name}");
    let layers = metadata.u32(&key("block_count"))?;
    let first = |list: Option<Vec<u32>>| list.and_then(|list| list.first().copied());
    let heads = first(metadata.opt_u32s(&key("attention.head_count"))?).unwrap_or(1);
    let kv_heads = first(metadata.opt_u32s(&key("attention.head_count_kv"))?).unwrap_or(heads);
    if layers == 0 {
        return Err(Error::bad_file(format!("{} is 0", key("block_count"))).at(metadata.file()));
    }
    let experts = metadata.opt_u32(&key("expert_count"))?.unwrap_or(0);
    let tied = !source.files.tensors.contains_key("output.weight");
    Ok(traits_of(architecture, layers, [heads, kv_heads], experts, tied, roles))
}

/// The same of a model of so many layers, heads and experts.
pub fn traits_of(
    architecture: &str,
    layers: u32,
    [heads, kv_heads]: [u32; 2],
    experts: u32,
    tied: bool,
    roles: &[Option<Role>],
) -> Traits {
    Traits {
        layers,
        values: roles.iter().filter(|role| matches!(role, Some(Role::Values(_)))).count() as u32,
        group: heads / kv_heads.max(1),
        experts,
        tied,
        seventy: architecture == "llama" && layers == 80 && kv_heads < heads,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::mix::Quant;
    use std::path::Path;

    /// Every tensor of a file that llama.cpp's own tool has made has the type that we would choose.
    #[track_caller]
    fn agrees(path: &str, quant: &str) -> usize {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
        let source = ModelSource::open(&path).unwrap();
        let tensors: Vec<_> = source.files.tensors.values().collect();
        let roles = roles(&tensors);
        let traits = traits(&source, &roles).unwrap();
        let quant = Quant::parse(quant, false).unwrap();
        let mut compared = 0;
        for ((_, tensor), role) in tensors.into_iter().zip(roles) {
            if let Some(role) = role {
                let row = *tensor.dims.last().unwrap();
                assert_eq!(quant.of(&traits, role, row).0, tensor.dtype, "{}", tensor.name);
                compared += 1;
            }
        }
        compared
    }

    #[test]
    fn types_are_those_of_llama_cpp_s_files() {
        let shards = "models/rustdoc-29m/rustdoc-29m-q4_k_m-00001-of-00003.gguf";
        assert_eq!(agrees(shards, "q4_k_m"), 57);
        assert_eq!(agrees("tests/fixtures/rustdoc-2m/rustdoc-2m-q4_k_m.gguf", "q4_k_m"), 15);
        assert_eq!(agrees("tests/fixtures/rustdoc-2m/rustdoc-2m-q8_0.gguf", "q8_0"), 15);
        assert_eq!(agrees("tests/fixtures/gguf/llama-q4_k_m.gguf", "q4_k_m"), 16);
        assert_eq!(agrees("tests/fixtures/gguf/llama-q6_k.gguf", "q6_k"), 16);
    }

    #[test]
    fn recorded_files_beside_the_repository_agree_too() {
        for (path, quant) in [
            ("reference/gguf/llama-iq4_xs.gguf", "iq4_xs"),
            ("reference/gguf/qwen3-q4_0.gguf", "q4_0"),
            ("reference/gguf/qwen3-q8_0.gguf", "q8_0"),
            ("models/rustdoc-2m/rustdoc-2m-q5_k_m.gguf", "q5_k_m"),
            ("models/rustdoc-2m/rustdoc-2m-q6_k.gguf", "q6_k"),
            ("models/rustdoc-2m/rustdoc-2m-q4_0.gguf", "q4_0"),
            ("models/rustdoc-2m/rustdoc-2m-iq4_nl.gguf", "iq4_nl"),
            ("models/rustdoc-2m/rustdoc-2m-iq4_xs.gguf", "iq4_xs"),
        ] {
            let path = format!("../shared/{path}");
            if Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(&path).exists() {
                assert!(agrees(&path, quant) > 10);
            } else {
                println!("{path} is not there: not compared");
            }
        }
    }

    #[test]
    fn norms_routers_and_vectors_keep_their_bytes() {
        let tensor = |name: &str, dims: &[u64]| {
            let dims = dims.to_vec();
            let (dtype, name) = (DType::F32, name.to_owned());
            (0, TensorInfo { name, dtype, dims, offset: 0, bytes: 0, at: 0 })
        };
        let tensors = [
            tensor("blk.0.attn_norm.weight", &[8]),
            tensor("blk.0.ffn_gate_inp.weight", &[8, 64]),
            tensor("blk.0.attn_q.bias", &[8]),
            tensor("rope_freqs.weight", &[1, 32]),
            tensor("blk.3.ffn_down_exps.weight", &[8, 64, 64]),
            tensor("blk.10.ffn_down_exps.weight", &[8, 64, 64]),
            tensor("blk.10.attn_qkv.weight", &[64, 64]),
        ];
        let tensors: Vec<_> = tensors.iter().collect();
        let kept = [None; 4];
        let rest = [Some(Role::Down(0)), Some(Role::Down(1)), Some(Role::Values(0))];
        assert_eq!(roles(&tensors), [&kept[..], &rest[..]].concat());
    }
}
