//! Whole language models on XLA's CPU device.

use crate::common::{executor, ready};
use crate::language::{FIXTURES, generate, load, numbers};
use rlx_core::runtime::device::Device;
use rlx_core::runtime::model::ModelOptions;
use rlx_core::types::DType;

#[test]
fn greedy_tokens_are_llama_cpps() {
    if !ready("model::greedy_tokens_are_llama_cpps") {
        return;
    }
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
