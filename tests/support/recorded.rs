//! Fixtures' language models on a device, against what is known of them: tests that executors share.
#![allow(dead_code)] // a test binary may have one of them

use crate::language::{FIXTURES, generate, load, numbers};
use rlx_core::compare::difference;
use rlx_core::reference::device::ReferenceDevice;
use rlx_core::runtime::device::Device;
use rlx_core::runtime::model::ModelOptions;
use rlx_core::types::DType;
use std::sync::Arc;

/// The greedy tokens of a small model are llama.cpp's: so many of each answer at most, of so many questions.
pub fn greedy_tokens_are_llama_cpps(device: Arc<dyn Device>, questions: usize, most: usize) {
    let text = std::fs::read_to_string(format!("{FIXTURES}/rustdoc-2m/expected.json")).unwrap();
    let expected: serde_json::Value = serde_json::from_str(&text).unwrap();
    for (format, kv, chunk) in [("f16", DType::F32, 16), ("q4_k_m", DType::F16, 7)] {
        let mut options = ModelOptions::chat(chunk);
        options.compile.kv = kv;
        options.context = Some(256);
        let file = format!("rustdoc-2m/rustdoc-2m-{format}.gguf");
        let mut engine = load(device.clone(), &file, &options);
        for question in expected["questions"].as_array().unwrap().iter().take(questions) {
            let want = numbers(&question["formats"][format]["tokens"]);
            let (got, _) = generate(&mut engine, numbers(&question["prompt_ids"]), most, false);
            assert_eq!(got, want[..got.len()], "{format} {kv} {}", question["prompt"]);
            assert_eq!(got.len(), most.min(want.len()));
        }
    }
    assert_eq!(device.counters().live_bytes, 0, "everything was freed");
}

/// Logits of models of several families agree with the reference's; `narrow` is a type of caches with its tolerance,
/// where the device has one that is its own.
pub fn logits_agree_with_the_reference_device(
    device: impl Fn() -> Arc<dyn Device>,
    narrow: Option<(DType, f64)>,
) {
    let models = [
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
    ];
    let narrow = narrow.map(|(kv, tolerance)| ("rustdoc-2m/rustdoc-2m-f16.gguf", kv, tolerance));
    logits_agree(device, models.into_iter().chain(narrow));
}

/// Logits of these models, with caches of a type, are within a tolerance of the reference's largest.
pub fn logits_agree<'a>(
    device: impl Fn() -> Arc<dyn Device>,
    models: impl IntoIterator<Item = (&'a str, DType, f64)>,
) {
    for (file, kv, tolerance) in models {
        let mut options = ModelOptions::chat(16).with_logits();
        options.compile.kv = kv;
        options.context = Some(64);
        let on = |device: Arc<dyn Device>| {
            let mut engine = load(device, file, &options);
            generate(&mut engine, vec![1, 5, 9, 2, 7, 3], 2, true).1.expect("logits were asked for")
        };
        let want = on(Arc::new(ReferenceDevice::new()));
        let off = difference(&on(device()), &want).relative();
        println!("{file} {kv}: {off:.2e} of the largest, {tolerance:.0e} allowed");
        assert!(off <= tolerance, "{file} {kv}: off by {off:e}");
    }
}
