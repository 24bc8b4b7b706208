//! Nothing of a file is passed over in silence.

use super::checkpoints::{as_transformers, gguf, json, llama, module, refusal, text};
use rlx_core::Code;
use rlx_core::gguf::{Array, Value};
use rlx_core::ir::hir::{Attention, Block, Module};
use rlx_core::models::{self, Checkpoint, FAMILIES, Keys};
use rlx_core::ops::RopeScaling;

#[test]
fn a_key_that_nobody_reads_is_refused_by_its_name() {
    let (mut pairs, tensors) = llama();
    assert!(module(&gguf(&pairs, &tensors)).is_ok());
    pairs.push(("llama.attention.sparkle".into(), Value::F32(0.5)));
    let e = module(&gguf(&pairs, &tensors)).unwrap_err();
    assert_eq!(e.code, Code::Unsupported);
    assert!(e.what.starts_with("llama.attention.sparkle is 0.5"), "{e}");
    assert!(e.at.starts_with("f.gguf, byte "), "{e}");
}

#[test]
fn keys_that_change_nothing_are_read() {
    let (mut pairs, tensors) = llama();
    pairs.extend([
        ("llama.vocab_size".into(), Value::U32(8)),
        ("llama.attention.key_length".into(), Value::U32(8)),
        ("llama.attention.value_length".into(), Value::U32(8)),
        ("llama.rope.dimension_count".into(), Value::U32(8)),
        ("llama.rope.scaling.type".into(), text("none")),
        ("llama.rope.scaling.finetuned".into(), Value::Bool(true)),
        ("llama.expert_count".into(), Value::U32(0)),
        ("llama.attention.causal".into(), Value::Bool(true)),
        ("llama.tensor_data_layout".into(), text("Meta AI original pth")),
        ("general.file_type".into(), Value::U32(1)),
        ("quantize.imatrix.chunks_count".into(), Value::I32(7)),
        ("tokenizer.ggml.sparkle".into(), Value::Bool(true)),
        ("other.attention.sparkle".into(), Value::Bool(true)),
    ]);
    let with = module(&gguf(&pairs, &tensors)).unwrap();
    let (pairs, tensors) = llama();
    assert_eq!(with, module(&gguf(&pairs, &tensors)).unwrap());
}

#[test]
fn a_value_of_another_architecture_says_what_it_changes() {
    for (key, value, what) in [
        ("attention.causal", Value::Bool(false), "lets rows see those after them"),
        ("attention.clamp_kqv", Value::F32(8.0), "bounds q, k and v"),
        ("attention.value_length", Value::U32(16), "not as wide"),
        ("rope.scaling.type", text("sparkle"), "rope scaling `sparkle` is not supported"),
    ] {
        let (mut pairs, tensors) = llama();
        pairs.push((format!("llama.{key}"), value));
        let said = refusal(&pairs, &tensors);
        assert!(said.contains(what), "{key}: {said}");
    }
}

#[test]
fn llada_reads_masks_of_its_own_positions_alone() {
    let with = |more: &[(&str, Value)]| {
        let (pairs, tensors) = llama();
        let renamed = |(key, value): (String, Value)| match key.as_str() {
            "general.architecture" => (key, text("llada")),
            _ => (key.replace("llama.", "llada."), value),
        };
        let mut pairs: Vec<_> = pairs.into_iter().map(renamed).collect();
        pairs.extend(more.iter().map(|(key, value)| ((*key).into(), value.clone())));
        (pairs, tensors)
    };
    let mask = ("tokenizer.ggml.mask_token_id", Value::U32(3));
    let own = ("llada.attention.causal", Value::Bool(false));
    let (pairs, tensors) = with(&[mask.clone(), own.clone()]);
    assert!(module(&gguf(&pairs, &tensors)).is_ok());
    for (more, what) in [
        (vec![own], "tokenizer.ggml.mask_token_id is missing"),
        (vec![(mask.0, Value::U32(8))], "the mask is token 8, and there are 8 tokens"),
        (
            vec![mask.clone(), ("llada.attention.causal", Value::Bool(true))],
            "hides rows from those before them",
        ),
        (
            vec![mask, ("diffusion.shift_logits", Value::Bool(true))],
            "diffusion.shift_logits is true: logits at a position are of the next one",
        ),
    ] {
        let (pairs, tensors) = with(&more);
        let said = refusal(&pairs, &tensors);
        assert!(said.contains(what), "{said}");
    }
}

#[test]
fn a_tensor_that_no_weight_names_is_refused() {
    let (pairs, mut tensors) = llama();
    tensors.push(("blk.1.attn_sinks.weight".into(), vec![4]));
    let e = module(&gguf(&pairs, &tensors)).unwrap_err();
    assert_eq!(e.code, Code::Unsupported);
    assert!(e.what.starts_with("tensor blk.1.attn_sinks.weight (f32, 4)"), "{e}");
    let (pairs, mut tensors) = llama();
    tensors.push(("blk.2.attn_norm.weight".into(), vec![32]));
    assert!(refusal(&pairs, &tensors).contains("blk.2.attn_norm.weight"));
}

/// Attention of each layer.
fn attentions(module: &Module) -> impl Iterator<Item = &Attention> {
    module.nodes.iter().filter_map(|node| match &node.block {
        Block::Attention(a) => Some(a),
        _ => None,
    })
}

#[test]
fn layers_have_sizes_and_windows_of_their_own() {
    let (mut pairs, mut tensors) = llama();
    let list = |xs: [u32; 2]| Value::Array(Array::U32(xs.into()));
    pairs.retain(|(k, _)| !k.contains("head_count") && !k.contains("feed_forward"));
    pairs.extend([
        ("llama.attention.head_count".into(), list([4, 2])),
        ("llama.attention.head_count_kv".into(), list([2, 1])),
        ("llama.feed_forward_length".into(), list([64, 96])),
        ("llama.attention.key_length".into(), Value::U32(8)),
        ("llama.attention.sliding_window".into(), Value::U32(7)),
        (
            "llama.attention.sliding_window_pattern".into(),
            Value::Array(Array::Bool([true, false].into())),
        ),
    ]);
    // The tensors have to agree.
    assert!(refusal(&pairs, &tensors).contains("blk.1.attn_q.weight is 32 x 32, expected 16 x 32"));
    for (name, dims) in &mut tensors {
        match name.strip_prefix("blk.1.") {
            Some("attn_q.weight") => *dims = vec![16, 32],
            Some("attn_k.weight" | "attn_v.weight") => *dims = vec![8, 32],
            Some("attn_output.weight") => *dims = vec![32, 16],
            Some("ffn_gate.weight" | "ffn_up.weight") => *dims = vec![96, 32],
            Some("ffn_down.weight") => *dims = vec![32, 96],
            _ => {}
        }
    }
    let built = module(&gguf(&pairs, &tensors)).unwrap();
    let sizes = attentions(&built).map(|a| (a.heads, a.kv_heads, a.window)).collect::<Vec<_>>();
    // Seven keys, the row's own among them.
    assert_eq!(sizes, [(4, 2, Some(6)), (2, 1, None)]);
    let three = Value::Array(Array::U32(vec![64, 96, 64]));
    pairs.iter_mut().find(|p| p.0.contains("feed_forward")).unwrap().1 = three;
    let said = refusal(&pairs, &tensors);
    assert!(said.contains("llama.feed_forward_length has 3 values for 2 layers"), "{said}");
}

#[test]
fn a_periodic_pattern_leaves_each_nth_layer_without_a_window() {
    let (mut pairs, tensors) = llama();
    pairs.push(("llama.attention.sliding_window".into(), Value::U32(4)));
    let windows = |pairs: &_| -> Vec<Option<u64>> {
        attentions(&module(&gguf(pairs, &tensors)).unwrap()).map(|a| a.window).collect()
    };
    assert_eq!(windows(&pairs), [Some(3), Some(3)]);
    pairs.push(("llama.attention.sliding_window_pattern".into(), Value::U32(2)));
    assert_eq!(windows(&pairs), [Some(3), None]);
}

const CONFIG: &str = r#""num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "hidden_size": 32, "intermediate_size": 64, "max_position_embeddings": 128, "vocab_size": 8"#;

/// The module of a folder of that type, whose configuration says `more`.
fn folder(model_type: &str, more: &str) -> rlx_core::Result<Module> {
    let config = json(format!("{{\"model_type\": \"{model_type}\", {CONFIG}{more}}}").as_bytes());
    let header = as_transformers(&llama().1);
    let checkpoint = Checkpoint::transformers(&config, &header);
    let model = models::open(&checkpoint)?;
    model.module(&checkpoint, model.facts().context)
}

#[test]
fn every_key_of_a_configuration_is_read_or_refused() {
    let plain = folder("llama", "").unwrap();
    let same = r#", "torch_dtype": "float16", "use_cache": true, "rope_scaling": null, "bad_words_ids": [],
        "pruned_heads": {}, "attention_bias": null, "rope_parameters": {"rope_type": "default"}"#;
    assert_eq!(folder("llama", same).unwrap(), plain);
    for (more, what) in [
        (r#", "quantization_config": {"bits": 4}"#, "quantization_config is an object"),
        (
            r#", "rope_scaling": {"rope_type": "linear", "factor": 2.0, "sparkle": 1}"#,
            "rope_scaling.sparkle is 1",
        ),
        (r#", "rope_scaling": {"rope_type": "sparkle"}"#, "rope_type `sparkle` is not supported"),
        (r#", "hidden_act": "sparkle""#, "hidden_act `sparkle` is not supported"),
        (r#", "is_encoder_decoder": true"#, "adds an encoder"),
        (
            r#", "layer_types": ["full_attention", "sliding_attention"]"#,
            "sliding_window is missing",
        ),
        (r#", "layer_types": ["full_attention"]"#, "layer_types has 1 values for 2 layers"),
        (r#", "sparkle": "a""#, "sparkle is \"a\""),
        (r#", "partial_rotary_factor": 0.2"#, "1 rotary dimensions of 8"),
    ] {
        let said = folder("llama", more).unwrap_err().to_string();
        assert!(said.contains(what), "{more}: {said}");
    }
}

#[test]
fn a_configuration_may_change_functions_factors_and_rope() {
    let built = folder(
        "granite",
        r#", "hidden_act": "gelu_pytorch_tanh", "embedding_multiplier": 3.0, "residual_multiplier": 0.5,
        "attention_multiplier": 0.25, "logits_scaling": 4.0, "partial_rotary_factor": 0.5"#,
    )
    .unwrap();
    let blocks = |name: &str| built.nodes.iter().filter(|n| n.block.name() == name).count();
    assert_eq!((blocks("geglu_ffn"), blocks("swiglu_ffn")), (2, 0));
    let labels = |part: &str| built.nodes.iter().filter(|n| n.label.ends_with(part)).count();
    assert_eq!((labels("embd_scaled"), labels("attn_scaled"), labels("norm_scaled")), (1, 2, 1));
    assert!(attentions(&built).all(|a| a.scale == 0.25 && a.rope.dims == 4));
    let built = folder(
        "llama",
        r#", "sliding_window": 7, "layer_types": ["full_attention", "sliding_attention"]"#,
    )
    .unwrap();
    assert_eq!(attentions(&built).map(|a| a.window).collect::<Vec<_>>(), [None, Some(6)]);
    let built = folder("llama", r#", "rope_scaling": {"type": "dynamic", "factor": 2.0}"#).unwrap();
    let scaling = RopeScaling::Dynamic { factor: 2.0, original: 128.0 };
    assert!(attentions(&built).all(|a| a.rope.scaling == scaling));
    assert_eq!(built.context, 256);
}

#[test]
fn sizes_that_no_model_has_are_refused_before_they_cost_anything() {
    let (mut pairs, tensors) = llama();
    pairs.iter_mut().find(|p| p.0 == "llama.block_count").unwrap().1 = Value::U32(u32::MAX);
    assert!(refusal(&pairs, &tensors).contains("at most 4096 layers"));
    let (mut pairs, tensors) = llama();
    pairs.iter_mut().find(|p| p.0 == "llama.embedding_length").unwrap().1 = Value::U32(3);
    assert!(refusal(&pairs, &tensors).contains("do not give 4 heads a width"));
    assert!(Keys::json(&json(b"[]"), "f").is_err());
}

#[test]
fn a_head_is_there_where_the_configuration_says_so() {
    let (pairs, mut tensors) = llama();
    let heads = |m: &rlx_core::ir::hir::Module| m.params.iter().any(|p| p.name == "output.weight");
    assert!(!heads(&module(&gguf(&pairs, &tensors)).unwrap()));
    tensors.push(("output.weight".into(), vec![8, 32]));
    assert!(heads(&module(&gguf(&pairs, &tensors)).unwrap()));
}

#[test]
fn the_hint_of_an_unknown_architecture_names_every_family() {
    let (mut pairs, tensors) = llama();
    pairs[0].1 = text("sparkle");
    let said = refusal(&pairs, &tensors);
    for name in FAMILIES.iter().flat_map(|f| f.gguf) {
        assert!(said.contains(name), "{said}");
    }
    let (header, config) = (as_transformers(&tensors), json(br#"{"model_type": "sparkle"}"#));
    let e = models::open(&Checkpoint::transformers(&config, &header)).err().unwrap();
    assert_eq!((e.code, e.what.as_str()), (Code::Unsupported, "unknown model_type sparkle"));
    for name in FAMILIES.iter().flat_map(|f| f.transformers) {
        assert!(e.hint.contains(name), "{e}");
    }
}

#[test]
fn experts_of_a_family_that_has_none_are_refused() {
    let (mut pairs, tensors) = llama();
    pairs[0].1 = text("granite");
    for pair in &mut pairs[1..] {
        pair.0 = pair.0.replace("llama.", "granite.");
    }
    pairs.push(("granite.expert_count".into(), Value::U32(8)));
    assert!(refusal(&pairs, &tensors).contains("splits the feed-forward into experts"));
}

#[test]
fn numbers_of_experts_that_no_row_can_use_are_refused() {
    let (mut pairs, tensors) = llama();
    pairs.push(("llama.expert_count".into(), Value::U32(4)));
    assert!(refusal(&pairs, &tensors).contains("llama.expert_used_count is missing"));
    pairs.push(("llama.expert_used_count".into(), Value::U32(5)));
    assert!(refusal(&pairs, &tensors).contains("a row uses 5 experts of 4"));
    pairs.iter_mut().find(|p| p.0.ends_with("expert_count")).unwrap().1 = Value::U32(1 << 20);
    assert!(refusal(&pairs, &tensors).contains("at most 4096 are read"));
}
