//! Whole language models in the emulator, or on a card (`RLX_CUDA=1`).

use crate::common::{TestDevice, device, watched};
use crate::language::{FIXTURES, generate, load, numbers};
use rlx_core::compare::difference;
use rlx_core::reference::device::ReferenceDevice;
use rlx_core::runtime::device::Device;
use rlx_core::runtime::model::ModelOptions;
use rlx_core::target::{Activations, ProgramActivations};
use rlx_core::types::{BlockFormat, DType};
use std::sync::Arc;

const Q8_0: DType = DType::Block(BlockFormat::Q8_0);

#[test]
fn greedy_tokens_are_llama_cpps() {
    let text = std::fs::read_to_string(format!("{FIXTURES}/rustdoc-2m/expected.json")).unwrap();
    let expected: serde_json::Value = serde_json::from_str(&text).unwrap();
    let device: Arc<TestDevice> = device();
    for (format, kv, chunk) in [("f16", DType::F32, 16), ("q4_k_m", DType::F16, 7)] {
        let mut options = ModelOptions::chat(chunk);
        options.compile.kv = kv;
        options.context = Some(256);
        let mut engine =
            load(device.clone(), &format!("rustdoc-2m/rustdoc-2m-{format}.gguf"), &options);
        let question = &expected["questions"].as_array().unwrap()[0];
        let want = numbers(&question["formats"][format]["tokens"]);
        // The emulator takes a tenth of a second for a token.
        let (got, _) = generate(&mut engine, numbers(&question["prompt_ids"]), 24, false);
        assert_eq!(got, want[..got.len()], "{format} {kv} {}", question["prompt"]);
        assert_eq!(got.len(), 24.min(want.len()));
    }
    assert_eq!(device.counters().live_bytes, 0, "everything was freed");
}

/// A chunk of 300 rows, which the library multiplies: all of them, or those of its first 256 tokens.
#[test]
fn the_rest_of_a_prompt_is_multiplied_alone() {
    for (tokens, rows) in [(150u32, 256), (280, 300)] {
        let mut options = ModelOptions::chat(300).with_logits();
        options.compile.kv = DType::F16;
        options.context = Some(320);
        let prompt: Vec<u32> = (0..tokens).map(|i| 1 + i * 7 % 60).collect();
        let on = |device: Arc<dyn Device>, activations: Activations| {
            let options = ModelOptions {
                activations: ProgramActivations { decode: Activations::F32, prompts: activations },
                ..options.clone()
            };
            let mut engine = load(device, "gguf/llama.gguf", &options);
            generate(&mut engine, prompt.clone(), 2, true).1.expect("logits were asked for")
        };
        let want = on(Arc::new(ReferenceDevice::new()), Activations::F32);
        for (activations, tolerance) in [(Activations::F32, 1e-4), (Activations::F16, 2e-3)] {
            let (device, products) = watched();
            let off = difference(&on(device, activations), &want).relative();
            println!("{tokens} {activations:?}: {off:.2e} of the largest, {tolerance:.0e} allowed");
            assert!(off <= tolerance, "{tokens} {activations:?}: off by {off:e}");
            // In f32 a row is two, one far behind the other.
            let rows = if activations == Activations::F16 { rows } else { 600 };
            let products = products.lock().unwrap();
            assert!(!products.is_empty() && products.iter().all(|&n| n == rows), "{products:?}");
        }
    }
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
        ("rustdoc-2m/rustdoc-2m-f16.gguf", Q8_0, 1e-3),
    ] {
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
