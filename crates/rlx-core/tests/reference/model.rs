//! Recorded models through the whole road: GGUF, HIR, MIR, LIR, replay.

use super::floats;
use crate::load::{Hand, model, wait};
use crate::models::checkpoints::as_transformers;
use crate::targets;
use rlx_core::compare::difference;
use rlx_core::gguf::{HeaderReader, ModelFiles};
use rlx_core::ir::hir::Block;
use rlx_core::models::{self, Checkpoint};
use rlx_core::ops::{RopeScaling, RopeTable};
use rlx_core::plan::check::check;
use rlx_core::reference::device::ReferenceDevice;
use rlx_core::runtime::device::{Device, SharedBytes, Submission, Write, WriteTo};
use rlx_core::runtime::model::{CompiledModel, ModelOptions};
use rlx_core::runtime::session::Session;
use rlx_core::safetensors::json::Json;
use rlx_core::sample::{Control, SampleParams};
use rlx_core::target::{Activations, CompileOptions, Target};
use rlx_core::types::{BlockFormat, DType};
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;

const CHUNK: u64 = 32;

fn read(path: &str) -> Vec<u8> {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(path);
    std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn json(path: &str) -> Value {
    serde_json::from_slice(&read(path)).unwrap()
}

fn ids(list: &Value) -> Vec<u32> {
    list.as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as u32).collect()
}

/// A model on a reference device that runs what is compiled for `target`.
struct Running {
    compiled: CompiledModel,
    session: Session,
}

fn load(files: &[&str], target: Target, options: CompileOptions) -> Running {
    let shards: Vec<SharedBytes> = files.iter().map(|f| Arc::new(read(f)) as SharedBytes).collect();
    let options = ModelOptions { compile: options, ..ModelOptions::chat(CHUNK).with_logits() };
    let device: Arc<dyn Device> = Arc::new(ReferenceDevice::with_target(target));
    let (_, compiled, session) = model(&shards, device, &options, Hand::Kept).unwrap();
    Running { compiled, session }
}

impl Running {
    fn step(&self, name: &str, writes: &[Write]) -> Vec<Vec<u8>> {
        let ticket = self.session.submit(name, &Submission::new(writes)).unwrap();
        wait(|cx| self.session.poll(ticket, cx)).unwrap().values
    }

    fn write(&self, state: &str, words: &[u32]) -> Write {
        let n = self.session.state(state).unwrap();
        let bytes = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        Write { to: WriteTo::State(n), offset: 0, bytes }
    }

    /// Feeds a prompt in chunks; outputs of the last one, run by `last`.
    fn prompt(&self, ids: &[u32], last: &str) -> Vec<Vec<u8>> {
        let mut values = Vec::new();
        let chunks = ids.chunks(CHUNK as usize).enumerate();
        for (i, chunk) in chunks {
            let done = i * CHUNK as usize;
            let ctl = Control {
                past: done as u32,
                len: chunk.len() as u32,
                limit: 1000,
                capacity: self.compiled.context as u32,
                ..Control::default()
            };
            let writes = [
                self.write("ctl", &ctl.to_words()),
                self.write("params", &SampleParams::default().to_words()),
                Write {
                    to: WriteTo::Input(0),
                    offset: 0,
                    bytes: chunk.iter().flat_map(|w| w.to_le_bytes()).collect(),
                },
            ];
            let name = if done + chunk.len() == ids.len() { last } else { "prefill" };
            values = self.step(name, &writes);
        }
        values
    }

    /// The first `n` greedy tokens.
    fn greedy(&self, prompt: &[u32], n: usize) -> Vec<u32> {
        let token = |v: Vec<Vec<u8>>| u32::from_le_bytes(v[0][..4].try_into().unwrap());
        let mut out = vec![token(self.prompt(prompt, "prefill_last"))];
        while out.len() < n {
            out.push(token(self.step("decode", &[])));
        }
        out
    }

    fn logits(&self, prompt: &[u32]) -> Vec<f32> {
        let outputs = self.session.outputs("prefill_last_logits").unwrap();
        let at = outputs.iter().position(|o| o.name == "logits");
        floats(&self.prompt(prompt, "prefill_last_logits")[at.unwrap()])
    }
}

/// Of ten times what was measured, on this device and by this arithmetic: 1.2e-6 at most.
const F32_LOGITS: f64 = 1e-5;

fn close(name: &str, got: &[f32], expected: &Value, tolerance: f64) {
    let expected: Vec<f32> =
        expected.as_array().unwrap().iter().map(|x| x.as_f64().unwrap() as f32).collect();
    let found = difference(got, &expected);
    println!("{name}: {:.2e} of the largest logit, {tolerance:.0e} allowed", found.relative());
    assert!(found.relative() <= tolerance, "{name}: {found:?}");
}

#[test]
fn recorded_logits_come_out_whatever_is_fused() {
    // llama_linear has linear rope scaling and an epsilon of 0.05.
    for path in ["gguf/llama", "gguf/llama-q4_k_m", "gguf/llama-q6_k", "llama_linear/llama_linear"]
    {
        let name = path.split_once('/').unwrap().1;
        let recorded = json(&format!("tests/fixtures/{path}.json"));
        let file = format!("tests/fixtures/{path}.gguf");
        let prompt = ids(&recorded["prompt_ids"]);
        let plain = load(&[&file], Target::reference(), CompileOptions::default());
        let logits = plain.logits(&prompt);
        close(name, &logits, &recorded["logits"], F32_LOGITS);
        assert_eq!(plain.greedy(&prompt, 24), ids(&recorded["greedy"]), "{name}");
        for target in [targets::gpu(), targets::host()] {
            // Splits of positions add up in another order; all else has the same bits.
            let split = load(&[&file], target.clone(), CompileOptions::default());
            close(name, &split.logits(&prompt), &recorded["logits"], F32_LOGITS);
            let target = Target { attention_splits: None, ..target };
            let fused = load(&[&file], target.clone(), CompileOptions::default());
            let p = &fused.compiled.programs[0];
            assert!(p.steps.len() < plain.compiled.programs[0].steps.len(), "something fused");
            assert_eq!(fused.logits(&prompt), logits, "{name} for {}: the same bits", target.name);
        }
    }
}

/// One checkpoint, described by its GGUF file's metadata and by the `config.json` that transformers
/// saved for it: both have the epsilon, and the linear scaling and its factor.
#[test]
fn a_gguf_file_and_config_json_describe_the_same_model() {
    let file = read("tests/fixtures/llama_linear/llama_linear.gguf");
    let mut reader = HeaderReader::new("llama_linear.gguf", None);
    reader.push(&file).unwrap();
    let files = ModelFiles::new(vec![reader.into_header().unwrap()]).unwrap();
    let config = read("tests/fixtures/llama_linear/config.json");
    let config = Json::parse(&config, "config.json", 0).unwrap();
    let tensors = files.tensors.iter().map(|(name, (_, t))| (name.clone(), t.dims.clone()));
    let header = as_transformers(&tensors.collect::<Vec<_>>());
    // What does not follow from how files name tensors: epsilons, and angles of the layers.
    let said = |checkpoint: &Checkpoint<'_>| {
        let module = models::open(checkpoint).unwrap().module(checkpoint, 64).unwrap();
        let blocks = module.nodes.into_iter().filter_map(|node| match node.block {
            Block::RmsNorm(norm) => Some((Some(norm.eps), None)),
            Block::Attention(a) => Some((None, Some((a.rope, a.heads, a.kv_heads, a.scale)))),
            _ => None,
        });
        blocks.collect::<Vec<_>>()
    };
    let by_gguf = said(&Checkpoint::gguf(&files));
    let rope = |b: &(_, Option<(RopeTable, _, _, _)>)| b.1.clone().map(|a| a.0.scaling);
    assert_eq!(by_gguf[0].0, Some(0.05));
    assert_eq!(by_gguf.iter().find_map(rope), Some(RopeScaling::Linear(4.0)));
    assert_eq!(said(&Checkpoint::transformers(&config, &header)), by_gguf);
}

#[test]
fn int8_activations_stay_within_their_tolerance() {
    for name in ["llama-q4_k_m", "llama-q6_k"] {
        let recorded = json(&format!("tests/fixtures/gguf/{name}.json"));
        let file = format!("tests/fixtures/gguf/{name}.gguf");
        let options =
            CompileOptions { activations: Activations::Int8, ..CompileOptions::default() };
        let model = load(&[&file], targets::host(), options);
        let logits = model.logits(&ids(&recorded["prompt_ids"]));
        close(&format!("{name} int8"), &logits, &recorded["logits"], 2e-2);
    }
}

#[test]
fn f16_caches_stay_within_their_tolerance() {
    // Measured: 1.5e-3, 5.4e-4, 7.3e-5, 6.1e-5. Random branches of full size, which the first two
    // have, make more of a rounding.
    for (path, tolerance) in [
        ("gguf/llama", 3e-3),
        ("llama_linear/llama_linear", 3e-3),
        ("gguf/llama-q4_k_m", 3e-4),
        ("gguf/llama-q6_k", 3e-4),
    ] {
        let recorded = json(&format!("tests/fixtures/{path}.json"));
        let file = format!("tests/fixtures/{path}.gguf");
        let options = CompileOptions { kv: DType::F16, ..CompileOptions::default() };
        let model = load(&[&file], Target::reference(), options);
        let logits = model.logits(&ids(&recorded["prompt_ids"]));
        close(&format!("{path}, f16 caches"), &logits, &recorded["logits"], tolerance);
    }
}

#[test]
fn q8_0_caches_answer_as_recorded_and_stay_within_their_tolerance() {
    let recorded = json("tests/fixtures/rustdoc-2m/expected.json");
    let file = "tests/fixtures/rustdoc-2m/rustdoc-2m-f16.gguf";
    let q8_0 = DType::Block(BlockFormat::Q8_0);
    for target in [Target::reference(), targets::host()] {
        let with =
            |kv| load(&[file], target.clone(), CompileOptions { kv, ..CompileOptions::default() });
        let (blocks, floats) = (with(q8_0), with(DType::F32));
        for q in recorded["questions"].as_array().unwrap().iter().take(3) {
            let prompt = ids(&q["prompt_ids"]);
            let (got, expected) = (blocks.logits(&prompt), floats.logits(&prompt));
            let off = difference(&got, &expected).relative();
            println!("{}: {off:.2e} of the largest logit", target.name);
            assert!(off > 0.0 && off <= 2e-2, "{}: {off:e}", target.name);
            let tokens = ids(&q["formats"]["f16"]["tokens"]);
            assert_eq!(blocks.greedy(&prompt, tokens.len()), tokens, "{}", q["prompt"]);
        }
    }
}

#[test]
fn rustdoc_2m_answers_in_every_format() {
    let recorded = json("tests/fixtures/rustdoc-2m/expected.json");
    for format in ["f16", "q8_0", "q4_k_m"] {
        let file = format!("tests/fixtures/rustdoc-2m/rustdoc-2m-{format}.gguf");
        let model = load(&[&file], Target::reference(), CompileOptions::default());
        for q in recorded["questions"].as_array().unwrap() {
            let expected = ids(&q["formats"][format]["tokens"]);
            let got = model.greedy(&ids(&q["prompt_ids"]), expected.len());
            assert_eq!(got, expected, "{format}: {}", q["prompt"]);
        }
    }
}

#[test]
fn rustdoc_29m_begins_every_answer_right() {
    let recorded = json("tests/fixtures/rustdoc-29m/expected.json");
    let files =
        [1, 2, 3].map(|n| format!("models/rustdoc-29m/rustdoc-29m-q4_k_m-0000{n}-of-00003.gguf"));
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let model = load(&files, Target::reference(), CompileOptions::default());
    for program in &model.compiled.programs {
        let target = targets::gpu();
        check(program, &model.compiled.plan, &target.limits).unwrap();
    }
    let start = std::time::Instant::now();
    let mut decoded = 0;
    let questions = recorded["questions"].as_array().unwrap();
    for q in questions {
        let expected = ids(&q["formats"]["q4_k_m"]["tokens"]);
        let n = expected.len().min(12);
        let got = model.greedy(&ids(&q["prompt_ids"]), n);
        assert_eq!(got, expected[..n], "{}", q["prompt"]);
        decoded += n - 1;
    }
    println!("{} prompts and {decoded} more tokens in {:?}", questions.len(), start.elapsed());
    let start = std::time::Instant::now();
    (0..8).for_each(|_| drop(model.step("decode", &[])));
    println!("{:.1} tokens/s", 8.0 / start.elapsed().as_secs_f64());
}
