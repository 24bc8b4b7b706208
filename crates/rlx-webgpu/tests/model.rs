//! A whole model on the device: greedy tokens of llama.cpp, and the device's own counts against
//! those taken outside of it.

use crate::common;
use common::model::{FIXTURES, block, generate, header, load, numbers};
use common::{device, first_of};
use rlx_core::compare::difference;
use rlx_core::reference::device::ReferenceDevice;
use rlx_core::runtime::device::Device;
use rlx_core::runtime::generate::engine::GenerateOptions;
use rlx_core::runtime::model::{CompiledModel, ModelOptions};
use rlx_core::target::Activations;
use rlx_core::types::{BlockFormat, DType};
use std::sync::Arc;

const Q8_0: DType = DType::Block(BlockFormat::Q8_0);
const Q4_0: DType = DType::Block(BlockFormat::Q4_0);

#[test]
fn greedy_tokens_are_llama_cpps() {
    let text = std::fs::read_to_string(format!("{FIXTURES}/rustdoc-2m/expected.json")).unwrap();
    let expected: serde_json::Value = serde_json::from_str(&text).unwrap();
    let device = device();
    for (format, activations, kv, chunk) in [
        ("f16", Activations::F32, DType::F32, 16),
        ("q8_0", Activations::F32, DType::F16, 64),
        ("q8_0", Activations::Int8, DType::F32, 16),
        ("q4_k_m", Activations::F32, DType::F32, 7),
        ("q4_k_m", Activations::Int8, DType::F16, 32),
        ("f16", Activations::F32, Q8_0, 16),
        ("q4_k_m", Activations::Int8, Q8_0, 64),
        // Far more rows than any prompt: those past it are left alone.
        ("q8_0", Activations::Int8, DType::F16, 512),
    ] {
        let mut options = ModelOptions::chat(chunk);
        options.activations = activations.into();
        options.compile.kv = kv;
        options.context = Some(256);
        if chunk > 64 {
            options = options.with_short(64);
        }
        let path = format!("rustdoc-2m/rustdoc-2m-{format}.gguf");
        let mut engine = load(device.clone(), &path, &options);
        // The last has every question: `tests/parity` asks them of this executor, too.
        let questions = expected["questions"].as_array().unwrap();
        let asked = if chunk > 64 { questions.len() } else { 1 };
        for question in &questions[..asked] {
            let prompt = numbers(&question["prompt_ids"]);
            let want = numbers(&question["formats"][format]["tokens"]);
            let (got, _) = generate(&mut engine, prompt, 64, false);
            assert_eq!(got, want, "{format} {activations:?} {kv} {}", question["prompt"]);
        }
        drop(engine);
    }
    assert_eq!(device.counters().live_bytes, 0, "everything was freed");
    assert_eq!(device.gpu().counts().live_bytes, 0, "and destroyed");
}

/// A prompt in chunks of 64 rows and the rest, the first of them in eight pieces, and the same one at
/// once.
#[test]
fn a_paced_prompt_has_the_tokens_of_one_submission() {
    let device = device();
    let mut options = ModelOptions::chat(512);
    options.context = Some(512);
    let prompt: Vec<u32> = (0..300).map(|i| 2044 - i * 7 % 2000).collect();
    let mut answers = Vec::new();
    for (paced, submits) in [(false, 1), (true, 8 + 1)] {
        let mut engine = load(device.clone(), "rustdoc-2m/rustdoc-2m-q4_k_m.gguf", &options);
        if paced {
            // Nothing takes any time: after the first answer a chunk is as long as it may be.
            engine.pace_by(Arc::new(|| 0.0));
        }
        let before = device.counters().submits;
        let one = GenerateOptions { max_tokens: Some(1), ahead: 1, ..GenerateOptions::default() };
        let mut generation = engine.start(prompt.clone(), &one).unwrap();
        while block(|cx| generation.poll_next(&mut engine, cx)).is_some() {}
        assert_eq!(device.counters().submits - before, submits, "paced: {paced}");
        answers.push(generation.tokens().to_vec());
        answers.push(generate(&mut engine, prompt.clone(), 24, false).0);
        drop(engine);
    }
    assert_eq!(answers[..2], answers[2..]);
    assert!(answers[1].len() > 4, "{answers:?}");
}

#[test]
fn logits_agree_with_the_reference_device() {
    let cases = [
        ("llama_linear/llama_linear.gguf", Activations::F32, DType::F32, 1e-5),
        // Delta nets and convolutions.
        ("gguf/qwen35.gguf", Activations::F32, DType::F32, 1e-5),
        // Where numbers are rounded to fewer bits, one of them may round the other way on another GPU;
        // on lavapipe none does, and all are within 5e-7.
        ("gguf/llama-q4_k_m.gguf", Activations::Int8, DType::F32, 2e-3),
        ("rustdoc-2m/rustdoc-2m-f16.gguf", Activations::F32, DType::F16, 3e-4),
        ("rustdoc-2m/rustdoc-2m-f16.gguf", Activations::F32, Q8_0, 1e-3),
        ("gguf/llama.gguf", Activations::F32, DType::F32, 1e-5),
        ("gguf/llama-q4_k_m.gguf", Activations::F32, DType::F32, 1e-5),
        ("gguf/llama-q6_k.gguf", Activations::F32, DType::F32, 1e-5),
        ("gguf/llama-q4_k_m.gguf", Activations::Int16, DType::F32, 1e-4),
        ("rustdoc-2m/rustdoc-2m-f16.gguf", Activations::F32, Q4_0, 2e-2),
    ];
    for (file, activations, kv, tolerance) in first_of(5, cases) {
        let mut options = ModelOptions::chat(16).with_logits();
        options.activations = activations.into();
        // Both round x alike.
        options.compile.super_blocks = Some(BlockFormat::Q8_0);
        options.compile.kv = kv;
        options.context = Some(256);
        let on = |device: Arc<dyn Device>| {
            let mut engine = load(device, file, &options);
            generate(&mut engine, vec![1, 5, 9, 2, 7, 3], 2, true).1.expect("logits were asked for")
        };
        let want = on(Arc::new(ReferenceDevice::new()));
        let got = on(device());
        let off = difference(&got, &want).relative();
        println!("{file} {activations:?} {kv}: {off:.2e} of the largest, {tolerance:.0e} allowed");
        assert!(off <= tolerance, "{file} {activations:?} {kv}: off by {off:e}");
    }
}

/// The divergence of what one row of logits makes likely from what another does.
fn divergence(of: &[f32], from: &[f32]) -> f64 {
    let logs = |x: &[f32]| {
        let most = x.iter().fold(f32::NEG_INFINITY, |most, x| most.max(*x));
        let sum: f64 = x.iter().map(|x| f64::from(x - most).exp()).sum();
        x.iter().map(|x| f64::from(x - most) - sum.ln()).collect::<Vec<f64>>()
    };
    let (p, q) = (logs(from), logs(of));
    p.iter().zip(q).map(|(p, q)| p.exp() * (p - q)).sum()
}

/// What a cache's type costs in answers. The model is certain of what follows these prompts, which it was trained on:
/// seen are 2e-16, 5e-13 and 2e-10.
#[test]
fn logits_over_caches_of_blocks_are_near_those_over_caches_of_f32() {
    let text = std::fs::read_to_string(format!("{FIXTURES}/rustdoc-2m/expected.json")).unwrap();
    let expected: serde_json::Value = serde_json::from_str(&text).unwrap();
    let prompts: Vec<Vec<u32>> = expected["questions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|q| numbers(&q["prompt_ids"]))
        .collect();
    let logits = |kv: DType| {
        let mut options = ModelOptions::chat(16).with_logits();
        options.activations = Activations::F32.into();
        options.compile.kv = kv;
        options.context = Some(256);
        let mut engine = load(device(), "rustdoc-2m/rustdoc-2m-f16.gguf", &options);
        let last = |prompt: &Vec<u32>| generate(&mut engine, prompt.clone(), 2, true).1;
        prompts.iter().map(last).collect::<Option<Vec<_>>>().expect("logits were asked for")
    };
    let want = logits(DType::F32);
    for (kv, most) in [(DType::F16, 1e-14), (Q8_0, 1e-11), (Q4_0, 1e-8)] {
        let got = logits(kv);
        let each = got.iter().zip(&want).map(|(got, want)| divergence(got, want));
        let mean = each.sum::<f64>() / want.len() as f64;
        println!("{kv}: a mean divergence of {mean:.2e}, {most:.0e} allowed");
        assert!(mean <= most, "{kv}: {mean:e}");
    }
}

/// Projections, convolution, recurrence, norm with its gate, output, gate and up, down.
#[test]
fn a_layer_of_a_delta_net_is_seven_launches_of_a_decoded_token() {
    let options = ModelOptions::chat(512);
    let target = rlx_webgpu::target(rlx_webgpu::DEFAULT_LIMITS);
    let files = header("gguf/qwen35.gguf");
    let model = CompiledModel::from_gguf(&files, &target, &options).unwrap();
    let steps = |program: usize| {
        let steps = model.programs[program].steps.iter();
        let layer = steps.filter(|s| s.label.starts_with("blk.1."));
        layer.map(|s| s.op.name()).collect::<Vec<_>>()
    };
    let mixer = ["causal_conv1d", "delta_net", "gated_rms_norm", "matmul"];
    assert_eq!(steps(0), [&["matmul"], &mixer[..], &["matmul", "matmul"]].concat());
    // A prompt's norms are steps of their own.
    let norm = ["rms_norm", "matmul"];
    assert_eq!(steps(1), [&norm, &mixer[..], &norm, &["matmul"]].concat());
}

#[test]
fn a_token_is_one_submission_and_four_bytes() {
    let device = device();
    let options = ModelOptions::chat(16);
    let mut engine = load(device.clone(), "rustdoc-2m/rustdoc-2m-q4_k_m.gguf", &options);
    let decode = &engine.compiled().programs[0];
    let launches = decode.steps.len() as u64;
    let before = (device.counters(), device.gpu().counts());
    let prompt = vec![2044, 2045, 100];
    let (tokens, _) = generate(&mut engine, prompt, 9, false);
    let (own, outside) = (device.counters(), device.gpu().counts());
    assert_eq!(own.dispatches, outside.dispatches);
    assert_eq!(own.submits, outside.submits);
    assert_eq!(own.readback_bytes, outside.mapped_bytes);
    assert_eq!(own.live_bytes, outside.live_bytes);
    // A submission for the prompt, which gives the first token, and one for each other.
    let submits = own.submits - before.0.submits;
    assert!(submits >= tokens.len() as u64, "{submits} for {}", tokens.len());
    assert_eq!(own.readback_bytes - before.0.readback_bytes, 4 * submits);
    assert_eq!(outside.pipelines, before.1.pipelines, "nothing is compiled per token");
    // The first submission ran the prompt's program, all others ran decode.
    let last = engine.compiled().program("prefill_last").unwrap();
    let prompt_launches = engine.compiled().programs[last].steps.len() as u64;
    let dispatches = own.dispatches - before.0.dispatches;
    assert_eq!(dispatches, prompt_launches + (submits - 1) * launches);
}
