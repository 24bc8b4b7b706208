//! Recorded decoders of every family, by the oracle.

use super::checkpoints::{Folder, gguf, gguf_file, gguf_name, recorded, rows, text};
use crate::common::execute::Data;
use crate::skip::skip;
use rlx_core::compare::difference;
use rlx_core::gguf::{ModelFiles, Value};
use rlx_core::models::{self, Checkpoint};
use rlx_core::safetensors::json::Json;
use rlx_core::types::Scalar;

/// Ten times what was measured, of the largest logit.
const TOLERANCE: f64 = 1e-5;

/// Checks one recorded prompt of a folder, in both forms of its configuration.
fn check(name: &str, cases: &[(&str, &str)]) {
    let Some(path) = recorded(name) else {
        return skip(&format!("models: {name}"), "no folder `shared` beside the checkout");
    };
    for config in ["config.json", "config.legacy.json"] {
        if !path.join(config).exists() {
            continue; // There is no older form of Qwen3.5.
        }
        let folder = Folder::open(&path, config);
        let checkpoint = folder.checkpoint();
        let model = models::open(&checkpoint).unwrap_or_else(|e| panic!("{name} {config}: {e}"));
        let context = model.facts().context;
        let module = model.module(&checkpoint, context).unwrap_or_else(|e| panic!("{name}: {e}"));
        for (ids, expected) in cases {
            let got = rows(&module, &folder.weights(), &folder.ids(ids));
            let expected = folder.floats(expected);
            let logits = &got["logits"][got["logits"].len() - expected.len()..];
            let off = difference(logits, &expected).relative();
            println!("{name}, {config}, {ids}: {off:.2e}");
            assert!(off <= TOLERANCE, "{name}, {config}, {ids}: {off:e}");
        }
        let got = rows(&module, &folder.weights(), &folder.ids("in.input_ids"));
        for tap in ["layer.embed", "layer.0", "layer.1", "layer.norm"] {
            let off = difference(&got[tap], &folder.floats(tap)).relative();
            assert!(off <= TOLERANCE, "{name}, {config}, {tap}: {off:e}");
        }
    }
}

const PROMPTS: &[(&str, &str)] =
    &[("in.input_ids", "out.logits"), ("in.long_input_ids", "out.long_tail_logits")];

#[test]
fn llama_3_2() {
    check("llama32", PROMPTS);
}

#[test]
fn llama_with_biases_and_a_head_of_its_own() {
    check("llama_untied_bias", PROMPTS);
}

#[test]
fn llama_with_yarn() {
    check("llama_yarn", PROMPTS);
}

#[test]
fn mistral_with_a_window_of_seven() {
    check("mistral", PROMPTS);
}

#[test]
fn granite_with_its_four_factors() {
    check("granite", PROMPTS);
}

#[test]
fn smollm3_with_a_layer_that_does_not_turn() {
    check("smollm3", PROMPTS);
}

#[test]
fn olmo_2_with_norms_behind_its_branches() {
    check("olmo2", PROMPTS);
}

#[test]
fn phi_3_with_fused_projections() {
    check("phi3", PROMPTS);
}

#[test]
fn qwen_2_with_biases_of_q_k_and_v() {
    check("qwen2", PROMPTS);
}

#[test]
fn qwen_3_with_norms_of_heads() {
    check("qwen3", PROMPTS);
}

#[test]
fn gemma_one_two_and_three() {
    check("gemma", PROMPTS);
    check("gemma2", PROMPTS);
    check("gemma3", PROMPTS);
}

#[test]
fn experts_of_mixtral_and_of_qwen_3() {
    check("mixtral", PROMPTS);
    check("qwen3_moe", PROMPTS);
}

#[test]
fn gpt_oss_with_sinks_and_bounded_experts() {
    check("gpt_oss", PROMPTS);
}

#[test]
fn latent_attention_of_deepseek_and_minicpm_3() {
    check("deepseek_v2", PROMPTS);
    check("deepseek_v3", PROMPTS);
    check("minicpm3", PROMPTS);
}

#[test]
fn gemma_4_with_inputs_of_layers_and_with_experts() {
    check("gemma4", PROMPTS);
    check("gemma4_moe", PROMPTS);
}

#[test]
fn lfm2_with_short_convolutions() {
    check("lfm2", PROMPTS);
}

#[test]
fn delta_nets_of_qwen_3_next_and_qwen_3_5() {
    check("qwen3_next", PROMPTS);
    check("qwen35", PROMPTS);
}

/// Matrices, norms and biases in bf16 or f16, as folders are published, are read as the same numbers in f32 are.
#[test]
fn folders_in_half_precision_are_their_numbers() {
    for name in [
        "llama32",
        "llama_untied_bias",
        "granite",
        "smollm3",
        "olmo2",
        "phi3",
        "qwen2",
        "qwen3",
        "qwen3_moe",
        "qwen3_next",
        "qwen35",
        "gemma",
        "gemma2",
        "gemma3",
        "gemma4",
        "gemma4_moe",
        "mixtral",
        "gpt_oss",
        "deepseek_v2",
        "deepseek_v3",
        "minicpm3",
        "lfm2",
        "llada2",
    ] {
        let Some(path) = recorded(name) else {
            skip(&format!("models: {name} in bf16"), "no folder `shared` beside the checkout");
            continue;
        };
        for half in [Scalar::Bf16, Scalar::F16] {
            let mut folder = Folder::open(&path, "config.json");
            let ids = folder.ids("in.input_ids");
            let logits = |folder: &Folder| {
                let checkpoint = folder.checkpoint();
                let model = models::open(&checkpoint).unwrap();
                let module = model.module(&checkpoint, 64);
                let module = module.unwrap_or_else(|e| panic!("{name} in {half:?}: {e}"));
                rows(&module, &folder.weights(), &ids).remove("logits").unwrap()
            };
            folder.narrow(half);
            let narrow = logits(&folder);
            folder.widen();
            assert!(narrow == logits(&folder), "{name} in {half:?}");
        }
    }
}

/// The mask of attention is blocks of 8 positions, or one block of all of them.
#[test]
fn llada_2_whose_blocks_see_themselves() {
    let Some(path) = recorded("llada2") else {
        return skip("models: llada2", "no folder `shared` beside the checkout");
    };
    let folder = Folder::open(&path, "config.json");
    let checkpoint = folder.checkpoint();
    let model = models::open(&checkpoint).unwrap();
    let diffusion = model.diffusion().expect("it fills blocks");
    assert_eq!((diffusion.block, diffusion.mask), (32, 260));
    for (block, expected) in [(8, "out.block_logits"), (29, "out.logits")] {
        let model = model.with_block(block).expect("it has blocks");
        let module = model.module(&checkpoint, 64).unwrap();
        let got = rows(&module, &folder.weights(), &folder.ids("in.input_ids"));
        let off = difference(&got["logits"], &folder.floats(expected)).relative();
        assert!(off <= TOLERANCE, "{expected}: {off:e}");
        for tap in ["layer.embed", "layer.0", "layer.1", "layer.2", "layer.norm"] {
            let off = difference(&got[tap], &folder.floats(tap)).relative();
            assert!(off <= TOLERANCE || block != 8, "{tap}: {off:e}");
        }
    }
}

/// Files of llama.cpp's converter, by what llama.cpp computes from the same weights in f32; Gemma's by what
/// transformers computes, whose GELU is no table of f16.
#[test]
fn gguf_files_give_what_llama_cpp_gives() {
    for (name, logits) in [
        ("llama", "logits"),
        ("qwen2", "logits"),
        ("qwen3", "logits"),
        ("qwen3moe", "logits"),
        ("qwen3next", "logits"),
        ("qwen35", "logits"),
        ("gemma", "top20_hf"),
        ("gemma2", "top20_hf"),
        ("gemma3", "top20_hf"),
        ("phi3", "logits"),
    ] {
        let (Some(file), Some(record)) =
            (recorded(&format!("gguf/{name}.gguf")), recorded(&format!("gguf/{name}.json")))
        else {
            skip(&format!("models: {name}.gguf"), "no folder `shared` beside the checkout");
            continue;
        };
        let (files, weights) = gguf_file(&file);
        let record = crate::models::checkpoints::json(&std::fs::read(record).unwrap());
        let number = |v: &Json| v.as_f64().unwrap();
        let list = |key: &str| record.get(key).and_then(Json::as_array).unwrap();
        let ids: Vec<u32> = list("prompt_ids").iter().map(|v| number(v) as u32).collect();
        let checkpoint = Checkpoint::gguf(&files);
        let model = models::open(&checkpoint).unwrap_or_else(|e| panic!("{name}: {e}"));
        let module = model.module(&checkpoint, 192).unwrap_or_else(|e| panic!("{name}: {e}"));
        let got = &rows(&module, &weights, &ids)["logits"];
        let got = &got[got.len() - model.facts().vocab as usize..];
        let (got, expected): (Vec<f32>, Vec<f32>) = match logits {
            "logits" => (got.to_vec(), list(logits).iter().map(|v| number(v) as f32).collect()),
            pairs => list(pairs)
                .iter()
                .map(|pair| {
                    let [id, logit] = pair.as_array().unwrap() else { panic!("a pair") };
                    (got[number(id) as usize], number(logit) as f32)
                })
                .unzip(),
        };
        let off = difference(&got, &expected).relative();
        println!("{name}.gguf: {off:.2e}");
        assert!(off <= TOLERANCE, "{name}.gguf: {off:e}");
    }
}

/// LongRoPE: the planned context chooses the divisors, those up to the original 48 positions, or those beyond.
#[test]
fn longrope_up_to_its_original_context_and_beyond() {
    let Some(path) = recorded("phi3_longrope") else {
        return skip("models: phi3_longrope", "no folder `shared` beside the checkout");
    };
    for config in ["config.json", "config.legacy.json"] {
        let folder = Folder::open(&path, config);
        let (checkpoint, weights) = (folder.checkpoint(), folder.weights());
        let model = models::open(&checkpoint).unwrap();
        assert_eq!(model.facts().context, 192);
        let edge = folder.ids("in.edge_input_ids");
        for (context, ids, expected) in [
            (48, folder.ids("in.input_ids"), "out.logits"),
            (48, edge[..48].to_vec(), "out.edge_short_last_logits"),
            (192, edge, "out.edge_long_last_logits"),
            (192, folder.ids("in.long_input_ids"), "out.long_tail_logits"),
        ] {
            let got = &rows(&model.module(&checkpoint, context).unwrap(), &weights, &ids)["logits"];
            let expected_logits = folder.floats(expected);
            let tail = &got[got.len() - expected_logits.len()..];
            let off = difference(tail, &expected_logits).relative();
            println!("phi3_longrope, {config}, {expected}: {off:.2e}");
            assert!(off <= TOLERANCE, "{config}, {expected}: {off:e}");
        }
    }
}

/// The checkpoint of a folder as llama.cpp's converter would write it: its names, and rows of q and k
/// in pairs. `more` are the architecture's own keys.
fn as_gguf(folder: &Folder, arch: &str, more: &[(&str, Value)]) -> (ModelFiles, Data) {
    let json = |key: &str| folder.config.get(key).and_then(Json::as_u64).map(|n| n as u32);
    let (heads, kv) = (json("num_attention_heads").unwrap(), json("num_key_value_heads").unwrap());
    let head_dim = json("head_dim").unwrap_or(json("hidden_size").unwrap() / heads);
    let eps = folder.config.get("rms_norm_eps").and_then(Json::as_f64).unwrap() as f32;
    let number = |key: &str, n: u32| (format!("{arch}.{key}"), Value::U32(n));
    let mut pairs = vec![
        ("general.architecture".to_string(), text(arch)),
        number("block_count", json("num_hidden_layers").unwrap()),
        number("context_length", json("max_position_embeddings").unwrap()),
        number("embedding_length", json("hidden_size").unwrap()),
        number("feed_forward_length", json("intermediate_size").unwrap()),
        number("attention.head_count", heads),
        number("attention.head_count_kv", kv),
        number("attention.key_length", head_dim),
        number("attention.value_length", head_dim),
        number("vocab_size", json("vocab_size").unwrap()),
        (format!("{arch}.attention.layer_norm_rms_epsilon"), Value::F32(eps)),
    ];
    pairs.extend(more.iter().map(|(key, value)| (format!("{arch}.{key}"), value.clone())));
    let (mut tensors, mut weights) = (Vec::new(), Data::new());
    for (name, mut bytes) in folder.weights() {
        let dims = folder.header.tensors[&name].shape.clone();
        if name.contains("q_proj") || name.contains("k_proj") {
            let (row, width) = (bytes.len() / dims[0] as usize, head_dim as usize);
            let old = bytes.clone();
            for (to, row_of) in bytes.chunks_mut(row).enumerate() {
                let (head, at) = (to / width, to % width);
                let from = head * width + at % 2 * (width / 2) + at / 2;
                row_of.copy_from_slice(&old[from * row..][..row]);
            }
        }
        let name = gguf_name(&name);
        tensors.push((name.clone(), dims));
        weights.insert(name, bytes);
    }
    (gguf(&pairs, &tensors), weights)
}

#[test]
fn gguf_files_of_the_same_models_give_the_same() {
    let f = Value::F32;
    let factors = [
        ("attention.scale", f(0.09)),
        ("embedding_scale", f(3.0)),
        ("residual_scale", f(0.6)),
        ("logit_scale", f(4.0)),
    ];
    let yarn = [
        ("rope.scaling.type", text("yarn")),
        ("rope.scaling.factor", f(4.0)),
        ("rope.scaling.original_context_length", Value::U32(512)),
    ];
    let linear = [("rope.scaling.type", text("linear")), ("rope.scaling.factor", f(4.0))];
    let window = [("attention.sliding_window", Value::U32(7))];
    for (name, arch, more) in [
        ("granite", "granite", &factors[..]),
        ("llama_yarn", "llama", &yarn),
        ("llama_untied_bias", "llama", &linear),
        ("mistral", "llama", &window),
    ] {
        let Some(path) = recorded(name) else {
            skip(&format!("models: {name} as GGUF"), "no folder `shared` beside the checkout");
            continue;
        };
        let folder = Folder::open(&path, "config.json");
        let (files, weights) = as_gguf(&folder, arch, more);
        let checkpoint = Checkpoint::gguf(&files);
        let model = models::open(&checkpoint).unwrap_or_else(|e| panic!("{name}: {e}"));
        let module = model.module(&checkpoint, model.facts().context).unwrap();
        let got = rows(&module, &weights, &folder.ids("in.input_ids"));
        let off = difference(&got["logits"], &folder.floats("out.logits")).relative();
        println!("{name} as GGUF: {off:.2e}");
        assert!(off <= TOLERANCE, "{name} as GGUF: {off:e}");
    }
}
