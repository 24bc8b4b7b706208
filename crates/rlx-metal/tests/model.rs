//! Whole language models through MSL.

use crate::common::{TestDevice, device, in_halves, with_tensors};
use crate::emulator::Watch;
use crate::language::{FIXTURES, generate, load, numbers};
use rlx_core::runtime::device::Device;
use rlx_core::runtime::model::ModelOptions;
use rlx_core::types::DType;
use std::sync::Arc;

#[test]
fn greedy_tokens_are_llama_cpps() {
    let text = std::fs::read_to_string(format!("{FIXTURES}/rustdoc-2m/expected.json")).unwrap();
    let expected: serde_json::Value = serde_json::from_str(&text).unwrap();
    let (floats, halves): (Arc<TestDevice>, _) = (device(), in_halves(Watch::Nothing));
    let tensors = with_tensors(Watch::Nothing, false);
    for (device, format, kv, chunk) in [
        (&floats, "f16", DType::F32, 16),
        (&halves, "q4_k_m", DType::F16, 7),
        (&tensors, "q4_k_m", DType::F16, 16),
    ] {
        let mut options = ModelOptions::chat(chunk);
        options.compile.kv = kv;
        options.context = Some(256);
        let mut engine =
            load(device.clone(), &format!("rustdoc-2m/rustdoc-2m-{format}.gguf"), &options);
        let question = &expected["questions"].as_array().unwrap()[0];
        let want = numbers(&question["formats"][format]["tokens"]);
        let (got, _) = generate(&mut engine, numbers(&question["prompt_ids"]), 12, false);
        assert_eq!(got, want[..got.len().min(want.len())], "{format} {kv} {}", question["prompt"]);
        assert_eq!(got.len(), 12.min(want.len()));
    }
    for device in [&floats, &halves, &tensors] {
        assert_eq!(device.counters().live_bytes, 0, "everything was freed");
        assert_eq!(device.gpu().metal().live(), (0, 0), "and let go of");
    }
    assert!(tensors.gpu().metal().launches("own_matmul_tensors") > 0);
    assert_eq!(tensors.gpu().metal().launches("own_matmul_tile"), 0);
    for (device, tiles) in [(&floats, 0), (&halves, 1)] {
        let launches = |kernel: &str| device.gpu().metal().launches(kernel);
        // Products of a prompt's rows that round to f16 are asked for.
        assert_eq!(launches("own_matmul_tile_half").min(1), tiles);
        assert_eq!(launches("own_matmul_tile").min(1), 1 - tiles);
        for kernel in ["own_matmul_vec", "own_attention_split_tile", "own_rope_attention_split"] {
            assert!(launches(kernel) > 0, "{kernel}");
        }
        for kernel in
            ["matmul_rows", "matmul_vector", "attention_split_tile", "rope_attention_split"]
        {
            assert_eq!(launches(kernel), 0, "{kernel}");
        }
    }
}

/// Of families with windows, norms of heads, experts and recurrences, our kernels' tokens are WGSL's.
#[cfg(feature = "wide")]
#[test]
fn tokens_of_other_families_are_wgsls() {
    let wgsl = crate::common::without_own_kernels();
    for name in ["gemma3", "phi3", "qwen3", "qwen3moe", "qwen35", "llama-q6_k"] {
        let own = device();
        let tokens = |device: &Arc<TestDevice>| {
            let mut options = ModelOptions::chat(16);
            options.context = Some(256);
            let mut engine = load(device.clone(), &format!("gguf/{name}.gguf"), &options);
            generate(&mut engine, (3..40).collect(), 12, false).0
        };
        assert_eq!(tokens(&own), tokens(&wgsl), "{name}");
        assert!(own.gpu().metal().launches("own_matmul_vec") > 0, "{name}");
    }
    assert_eq!(wgsl.gpu().metal().launches("own_matmul_vec"), 0);
}
