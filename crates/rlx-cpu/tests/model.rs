//! Whole models: planned programs answer with the tokens that llama.cpp recorded.

use crate::common;
use crate::skip::skip;
use common::model::{generate, load};
use rlx_core::runtime::generate::engine::GenerateOptions;
use rlx_core::runtime::model::ModelOptions;
use rlx_core::target::Activations;
use rlx_core::types::{BlockFormat, DType};
use rlx_cpu::{CpuDevice, CpuOptions, Level};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn fixture(name: &str) -> PathBuf {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/rustdoc-2m");
    Path::new(root).join(name)
}

/// The formats of the recorded answers whose files are tracked.
const TRACKED: [&str; 3] = ["f16", "q8_0", "q4_k_m"];
/// Those whose files stand in a folder `shared` beside the checkout.
const WIDER: [&str; 7] = ["q6_k", "q5_k_m", "q4_0", "q3_k_m", "q2_k", "iq4_xs", "iq4_nl"];

/// The model in a format: tracked, or in a folder `shared` beside the checkout, or nowhere.
fn model(format: &str) -> Option<PathBuf> {
    let name = format!("rustdoc-2m-{format}.gguf");
    let tracked = fixture(&name);
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let mut shared = above.map(|folder| folder.join("shared/models/rustdoc-2m").join(&name));
    if tracked.is_file() { Some(tracked) } else { shared.find(|path| path.is_file()) }
}

fn ids(list: &Value) -> Vec<u32> {
    list.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

/// Prompts, and the greedy answers of a format.
fn recorded(format: &str) -> Vec<(Vec<u32>, Vec<u32>)> {
    let text = std::fs::read_to_string(fixture("expected.json")).unwrap();
    let json: Value = serde_json::from_str(&text).unwrap();
    let questions = json["questions"].as_array().unwrap().iter();
    questions.map(|q| (ids(&q["prompt_ids"]), ids(&q["formats"][format]["tokens"]))).collect()
}

fn check(format: &str, cpu: CpuOptions, activations: Activations, kv: DType, keep: bool) {
    let mut options = ModelOptions::chat(16);
    options.context = Some(256);
    options.activations = activations.into();
    options.compile.kv = kv;
    let path = model(format).unwrap_or_else(|| panic!("no rustdoc-2m in {format}"));
    let device = Arc::new(CpuDevice::new(cpu).unwrap());
    let mut engine = load(&[&path], device, &options, keep).unwrap();
    for (prompt, expected) in recorded(format) {
        let limit = GenerateOptions { max_tokens: Some(64), ..GenerateOptions::default() };
        let got = generate(&mut engine, &prompt, &limit).unwrap();
        assert_eq!(got, expected, "{format} {activations:?} {kv} {cpu:?}");
    }
}

#[test]
fn greedy_answers_are_the_recorded_ones_in_every_mode() {
    for format in ["f16", "q8_0", "q4_k_m"] {
        for activations in [Activations::F32, Activations::Int8] {
            for kv in [DType::F32, DType::F16, DType::Block(BlockFormat::Q8_0)] {
                check(format, CpuOptions::default(), activations, kv, true);
            }
        }
    }
}

#[test]
fn every_level_and_number_of_workers_gives_the_recorded_answers() {
    for level in Level::ALL.into_iter().filter(|l| l.is_available()) {
        for threads in [1, 2, 5] {
            let cpu = CpuOptions { threads: Some(threads), simd: Some(level), clock: None };
            check("q4_k_m", cpu, Activations::Int8, DType::F16, false);
        }
    }
}

#[test]
fn tracked_formats_give_the_recorded_answers_at_every_level() {
    every_level(&TRACKED);
}

#[test]
fn formats_that_are_not_tracked_give_the_recorded_answers_at_every_level() {
    let (there, absent): (Vec<_>, Vec<_>) = WIDER.iter().partition(|f| model(f).is_some());
    every_level(&there);
    if !absent.is_empty() {
        let test = "model::formats_that_are_not_tracked_give_the_recorded_answers_at_every_level";
        let absent = absent.join(", ");
        skip(test, &format!("no folder `shared` beside the checkout has rustdoc-2m in {absent}"));
    }
}

fn every_level(formats: &[&str]) {
    for format in formats {
        for level in Level::ALL.into_iter().filter(|l| l.is_available()) {
            for activations in [Activations::F32, Activations::Int8] {
                let cpu = CpuOptions { threads: Some(2), simd: Some(level), clock: None };
                check(format, cpu, activations, DType::F32, true);
            }
        }
    }
}

#[test]
fn slices_of_a_clocked_worker_give_the_same_answers() {
    // A clock that jumps: every slice of every step ends in a pause.
    fn jump() -> f64 {
        use core::sync::atomic::{AtomicU64, Ordering};
        static NOW: AtomicU64 = AtomicU64::new(0);
        NOW.fetch_add(50, Ordering::Relaxed) as f64
    }
    let cpu = CpuOptions { threads: Some(1), clock: Some(jump), ..CpuOptions::default() };
    check("q4_k_m", cpu, Activations::F32, DType::F32, true);
}
