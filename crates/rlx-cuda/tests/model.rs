//! Whole language models in the emulator, or on a card (`RLX_CUDA=1`).

use crate::common::{device, watched};
use crate::language::{generate, load};
use crate::recorded;
use rlx_core::compare::difference;
use rlx_core::reference::device::ReferenceDevice;
use rlx_core::runtime::device::Device;
use rlx_core::runtime::model::ModelOptions;
use rlx_core::target::{Activations, ProgramActivations};
use rlx_core::types::{BlockFormat, DType};
use std::sync::Arc;

#[test]
fn greedy_tokens_are_llama_cpps() {
    // The emulator takes a tenth of a second for a token.
    recorded::greedy_tokens_are_llama_cpps(device(), 1, 24);
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
    let q8_0 = DType::Block(BlockFormat::Q8_0);
    recorded::logits_agree_with_the_reference_device(|| device(), Some((q8_0, 1e-3)));
}
