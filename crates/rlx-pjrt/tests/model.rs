//! Whole language models on XLA's CPU device.

use crate::common::executor;
use crate::language::{FIXTURES, generate, load, numbers};
use rlx_core::compare::difference;
use rlx_core::reference::device::ReferenceDevice;
use rlx_core::runtime::device::Device;
use rlx_core::runtime::model::ModelOptions;
use rlx_core::types::DType;
use std::sync::Arc;

#[test]
fn greedy_tokens_are_llama_cpps() {
    let text = std::fs::read_to_string(format!("{FIXTURES}/rustdoc-2m/expected.json")).unwrap();
    let expected: serde_json::Value = serde_json::from_str(&text).unwrap();
    let device = executor();
    for (format, kv, chunk) in [("f16", DType::F32, 16), ("q4_k_m", DType::F16, 7)] {
        let mut options = ModelOptions::chat(chunk);
        options.compile.kv = kv;
        options.context = Some(256);
        let file = format!("rustdoc-2m/rustdoc-2m-{format}.gguf");
        let mut engine = load(device.clone(), &file, &options);
        for question in expected["questions"].as_array().unwrap() {
            let want = numbers(&question["formats"][format]["tokens"]);
            let (got, _) = generate(&mut engine, numbers(&question["prompt_ids"]), 48, false);
            assert_eq!(got, want[..got.len()], "{format} {kv} {}", question["prompt"]);
            assert_eq!(got.len(), 48.min(want.len()));
        }
    }
    assert_eq!(device.counters().live_bytes, 0, "everything was freed");
}

#[test]
fn logits_agree_with_the_reference_device() {
    for (file, kv, tolerance) in [
        ("gguf/llama.gguf", DType::F32, 1e-5),
        ("llama_linear/llama_linear.gguf", DType::F32, 1e-5),
        ("gguf/llama-q6_k.gguf", DType::F32, 1e-5),
        ("gguf/qwen3.gguf", DType::F16, 1e-3),
        ("gguf/gemma3.gguf", DType::F32, 1e-5),
        ("gguf/phi3.gguf", DType::F16, 1e-3),
        // A mixture of experts.
        ("gguf/qwen3moe.gguf", DType::F32, 1e-5),
        // Delta nets and convolutions.
        ("gguf/qwen35.gguf", DType::F32, 1e-5),
    ] {
        let mut options = ModelOptions::chat(16).with_logits();
        options.compile.kv = kv;
        options.context = Some(64);
        let on = |device: Arc<dyn Device>| {
            let mut engine = load(device, file, &options);
            generate(&mut engine, vec![1, 5, 9, 2, 7, 3], 2, true).1.expect("logits were asked for")
        };
        let want = on(Arc::new(ReferenceDevice::new()));
        let off = difference(&on(executor()), &want).relative();
        println!("{file} {kv}: {off:.2e} of the largest, {tolerance:.0e} allowed");
        assert!(off <= tolerance, "{file} {kv}: off by {off:e}");
    }
}
