//! Every native executor against recorded truth: `cases.json` says which, on what, how close.
//!
//! A device that is absent is a failure, not a skip. The WebGPU adapter is lavapipe, so that every
//! machine tests the same one; `RLX_TEST_ADAPTER` names another.

mod table;
mod unmask;

use crate::skip::skip;
use rlx_core::compare::difference;
use rlx_core::runtime::generate::engine::GenerateOptions;
use rlx_core::sample::SampleParams;
use rlx_core::target::ProgramActivations;
use rlx_core::text::Message;
use rlx_core::types::{BlockFormat, DType};
use rlx_native::devices::{self, DeviceRow, OpenOptions};
use rlx_native::generate::{chat_tokens, generate, raw_tokens};
use rlx_native::load::{LoadOptions, Model, load};
use rlx_native::network::CheckpointFiles;
use rlx_native::tools::verify::{Comparison, cache_tolerance, verify_model};
use serde_json::Value;
use std::path::{Path, PathBuf};

const Q8_0: DType = DType::Block(BlockFormat::Q8_0);

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}

/// The folder of recorded truth that is not tracked: beside the checkout, or the nearest above it.
fn shared() -> Option<PathBuf> {
    let mut folders = root().ancestors().skip(1).map(|folder| folder.join("shared"));
    folders.find(|folder| folder.join("reference").is_dir())
}

/// A path of `cases.json`.
fn repository(path: &str) -> PathBuf {
    match path.strip_prefix("../shared/") {
        Some(path) => shared().expect("only wider cases are there").join(path),
        None => root().join(path),
    }
}

fn json(path: &str) -> Value {
    let bytes = std::fs::read(repository(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
    serde_json::from_slice(&bytes).unwrap()
}

fn text<'a>(v: &'a Value, key: &str) -> &'a str {
    v[key].as_str().unwrap_or_else(|| panic!("{key} of {v}"))
}

fn adapter() -> String {
    std::env::var("RLX_TEST_ADAPTER").unwrap_or_else(|_| "llvmpipe".into())
}

/// Opens a device and asserts which executor and adapter it is.
fn open(row: &DeviceRow) -> std::sync::Arc<dyn rlx_core::runtime::device::Device> {
    let adapter = adapter();
    let options = OpenOptions { adapter: Some(adapter.clone()), ..OpenOptions::default() };
    let device = (row.open)(&options).unwrap_or_else(|e| panic!("{} is absent: {e}", row.name));
    let info = device.info();
    assert_eq!(info.kind, row.name);
    let part = match row.name {
        "reference" => "plain loops",
        "cpu" => "thread",
        _ => adapter.as_str(),
    };
    let name = info.adapter.to_lowercase();
    assert!(name.contains(&part.to_lowercase()), "{} runs on {name}, not {part}", row.name);
    device
}

fn model(case: &Value, row: &DeviceRow, logits: bool) -> Model {
    let kv = case.get("kv").map(|kv| DType::from_name(kv.as_str().unwrap()).unwrap());
    let activations = case
        .get("activations")
        .map(|a| ProgramActivations::from_names(a.as_str().unwrap()).unwrap());
    let context = case.get("context").and_then(Value::as_u64);
    let options = LoadOptions { context, kv, activations, logits, ..LoadOptions::default() };
    let source = CheckpointFiles::open(&repository(case["model"][0].as_str().unwrap())).unwrap();
    load(&source, row, open(row), &options, &mut |_, _| {}).unwrap()
}

/// Runs every tracked case of a kind that names the device.
fn run(kind: &str, device: &str, check: fn(&Value, &DeviceRow)) {
    run_of("cases", kind, device, check);
}

/// The same for cases whose files are not tracked, where they are; each is a skip elsewhere.
fn run_wider(kind: &str, device: &str, check: fn(&Value, &DeviceRow)) {
    if shared().is_some() {
        return run_of("wider", kind, device, check);
    }
    let cases = json("tests/parity/cases.json");
    for case in named(&cases["wider"], kind, device) {
        absent(&format!("{} on {device}", text(case, "name")));
    }
}

/// Notes that a check needs files that are not tracked and are not there.
fn absent(what: &str) {
    skip(&format!("parity: {what}"), "no folder `shared` beside the checkout");
}

/// The cases of a kind that name the device; some that are slow on it are run by the wide suite alone.
fn named<'a>(list: &'a Value, kind: &str, device: &str) -> Vec<&'a Value> {
    let has = |list: &Value| list.as_array().is_some_and(|all| all.iter().any(|d| d == device));
    let names = |case: &Value| has(&case["devices"]) && (wide() || !has(&case["wide"]));
    let cases = list.as_array().unwrap().iter();
    let cases: Vec<&Value> = cases.filter(|c| c["kind"] == kind && names(c)).collect();
    assert!(!cases.is_empty(), "no case of kind {kind} names {device}");
    cases
}

fn run_of(list: &str, kind: &str, device: &str, check: fn(&Value, &DeviceRow)) {
    let row = devices::find(device).unwrap();
    let cases = json("tests/parity/cases.json");
    for case in named(&cases[list], kind, device) {
        println!("{} on {device}", text(case, "name"));
        let start = std::time::Instant::now();
        check(case, row);
        println!("  in {:.1} s", start.elapsed().as_secs_f64());
    }
}

/// Whether slow devices run all cases, and each whole.
fn wide() -> bool {
    std::env::var_os("RLX_WIDE").is_some()
}

fn greedy(case: &Value, row: &DeviceRow) {
    let expected = json(text(case, "expected"));
    let limit = match wide() && row.name != "reference" {
        true => &Value::Null,
        false => &case["limits"][row.name],
    };
    let questions = limit["questions"].as_u64().map_or(usize::MAX, |n| n as usize);
    let tokens = limit["tokens"].as_u64().map_or(usize::MAX, |n| n as usize);
    let mut model = model(case, row, false);
    let most = expected["max_new_tokens"].as_u64().unwrap() as usize;
    for question in expected["questions"].as_array().unwrap().iter().take(questions) {
        let messages: Vec<Message> = serde_json::from_value(question["messages"].clone()).unwrap();
        let prompt = chat_tokens(&model, &messages).unwrap();
        assert_eq!(serde_json::to_value(&prompt).unwrap(), question["prompt_ids"]);
        let options =
            GenerateOptions { max_tokens: Some(tokens.min(most)), ..GenerateOptions::default() };
        let answer = generate(&mut model, prompt, &options, &|| false, &mut |_| Ok(())).unwrap();
        let want = &question["formats"][text(case, "format")];
        let want_tokens: Vec<u32> = serde_json::from_value(want["tokens"].clone()).unwrap();
        let n = want_tokens.len().min(tokens);
        let at = format!("{} on {}: {}", text(case, "name"), row.name, messages[0].content);
        assert_eq!(answer.tokens, want_tokens[..n], "{at}");
        if n == want_tokens.len() {
            assert_eq!(answer.text, text(want, "text"), "{at}");
        }
    }
}

fn logits(case: &Value, row: &DeviceRow) {
    let expected = json(text(case, "expected"));
    let want: Vec<f64> = serde_json::from_value(expected["logits"].clone()).unwrap();
    let mut model = model(case, row, true);
    let prompt = raw_tokens(&model, text(&expected, "prompt"));
    assert_eq!(serde_json::to_value(&prompt).unwrap(), expected["prompt_ids"]);
    let options =
        GenerateOptions { max_tokens: Some(1), logits: true, ..GenerateOptions::default() };
    let answer =
        generate(&mut model, prompt.clone(), &options, &|| false, &mut |_| Ok(())).unwrap();
    let got = answer.logits.expect("logits were asked for");
    let worst = difference(&got, &want).relative();
    let tolerance = case["tolerance"].as_f64().unwrap();
    let at = format!("{} on {}", text(case, "name"), row.name);
    println!("  {worst:.2e} of the largest, {tolerance:.0e} allowed");
    assert!(worst <= tolerance, "{at}: {worst:.3e}");
    // Recorded answers: with end tokens obeyed, and under a repetition penalty, to which tokens of the
    // prompt count as said.
    let ids = |list: &Value| serde_json::from_value::<Vec<u32>>(list.clone()).unwrap();
    if let Some(greedy) = expected.get("greedy").filter(|list| list.is_array()) {
        let (most, options) = (ids(greedy).len(), GenerateOptions::default());
        let options = GenerateOptions { max_tokens: Some(most), ignore_stops: true, ..options };
        let answer = generate(&mut model, prompt.clone(), &options, &|| false, &mut |_| Ok(()));
        assert_eq!(answer.unwrap().tokens, ids(greedy), "{at}: greedy");
    }
    let mut said = |params: SampleParams| {
        let options =
            GenerateOptions { max_tokens: Some(24), params, ..GenerateOptions::default() };
        generate(&mut model, prompt.clone(), &options, &|| false, &mut |_| Ok(())).unwrap().tokens
    };
    if let Some(answer) = expected.get("answer") {
        assert_eq!(said(SampleParams::default()), ids(answer), "{at}: the answer");
    }
    if let Some(penalised) = expected.get("penalised") {
        let repetition_penalty = penalised["repetition_penalty"].as_f64().unwrap() as f32;
        let params = SampleParams { repetition_penalty, ..SampleParams::default() };
        assert_eq!(said(params), ids(&penalised["tokens"]), "{at}: penalised");
    }
}

fn verify(device: &str) {
    let row = devices::find(device).unwrap();
    let folder = repository("tests/fixtures/llama32");
    let report = verify_model(&folder, row, open(row), DType::F32, true).unwrap();
    assert_eq!(report.info.kind, device);
    let count = |prefix: &str| report.outputs.iter().filter(|c| c.name.starts_with(prefix)).count();
    assert_eq!(count("out."), 6);
    assert_eq!(count("layer."), 4);
    for c in &report.outputs {
        println!("{} on {device}: {:.2e} of the largest", c.name, c.relative);
        assert!(c.passes(), "{device}: {c:?}");
    }
}

/// Every mask of a recorded image, and every stage on the way, the image's embedding never leaving the device.
fn masks(device: &str) {
    let row = devices::find(device).unwrap();
    let folder = repository("tests/fixtures/sam");
    let report = verify_model(&folder, row, open(row), DType::F32, true).unwrap();
    assert_eq!((report.info.kind.as_str(), report.family.as_str()), (device, "sam"));
    let count = |prefix: &str| report.outputs.iter().filter(|c| c.name.starts_with(prefix)).count();
    assert_eq!((count("out."), count("sub.")), (8, 12));
    for c in &report.outputs {
        println!("{} on {device}: {:.2e} of the largest", c.name, c.relative);
        assert!(c.passes(), "{device}: {c:?}");
    }
}

#[test]
fn reference_masks_are_pytorchs() {
    masks("reference");
}

#[test]
fn cpu_masks_are_pytorchs() {
    masks("cpu");
}

#[test]
fn webgpu_masks_are_pytorchs() {
    masks("webgpu");
}

/// A weight of layer 1 that is not the recorded one is found there and nowhere before.
fn changed_layer(device: &str) {
    let row = devices::find(device).unwrap();
    let from = repository("tests/fixtures/llama32");
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("changed-layer-{device}"));
    std::fs::create_dir_all(&dir).unwrap();
    for file in ["config.json", "io.safetensors"] {
        std::fs::copy(from.join(file), dir.join(file)).unwrap();
    }
    let mut weights = std::fs::read(from.join("model.safetensors")).unwrap();
    let header = usize::from_le_bytes(*weights.first_chunk().unwrap());
    let tensors: Value = serde_json::from_slice(&weights[8..8 + header]).unwrap();
    let at = &tensors["model.layers.1.mlp.down_proj.weight"]["data_offsets"][0];
    let at = 8 + header + at.as_u64().unwrap() as usize;
    weights[at..at + 4].copy_from_slice(&1f32.to_le_bytes());
    std::fs::write(dir.join("model.safetensors"), weights).unwrap();

    let report = verify_model(&dir, row, open(row), DType::F32, true).unwrap();
    let first = report.first_layer_that_differs().map(|c| c.name.as_str());
    assert_eq!(first, Some("layer.1"), "{device}: {:?}", report.outputs);
    let layers = report.outputs.iter().filter(|c| c.name.starts_with("layer."));
    let passes: Vec<_> = layers.map(|c| (c.name.as_str(), c.passes())).collect();
    let names = ["layer.embed", "layer.0", "layer.1", "layer.norm"];
    assert_eq!(passes, names.map(|name| (name, ["layer.embed", "layer.0"].contains(&name))));
}

#[test]
fn reference_names_the_first_layer_that_differs() {
    changed_layer("reference");
}

#[test]
fn cpu_names_the_first_layer_that_differs() {
    changed_layer("cpu");
}

#[test]
fn webgpu_names_the_first_layer_that_differs() {
    changed_layer("webgpu");
}

#[test]
fn reference_answers_are_the_recorded_tokens() {
    run("greedy", "reference", greedy);
}

#[test]
fn cpu_answers_are_the_recorded_tokens() {
    run("greedy", "cpu", greedy);
}

#[test]
fn cpu_answers_are_the_recorded_tokens_of_formats_that_are_not_tracked() {
    run_wider("greedy", "cpu", greedy);
}

#[test]
fn webgpu_answers_are_the_recorded_tokens() {
    run("greedy", "webgpu", greedy);
}

#[test]
#[ignore = "minutes on a GPU in software: npm test -- --only wide"]
fn webgpu_answers_are_the_recorded_tokens_of_formats_that_are_not_tracked() {
    run_wider("greedy", "webgpu", greedy);
}

#[test]
fn reference_logits_are_the_recorded_ones() {
    run("logits", "reference", logits);
}

#[test]
fn cpu_logits_are_the_recorded_ones() {
    run("logits", "cpu", logits);
}

#[test]
fn cpu_logits_are_the_recorded_ones_of_formats_that_are_not_tracked() {
    run_wider("logits", "cpu", logits);
}

#[test]
fn webgpu_logits_are_the_recorded_ones() {
    run("logits", "webgpu", logits);
}

#[test]
#[ignore = "minutes on a GPU in software: npm test -- --only wide"]
fn webgpu_logits_are_the_recorded_ones_of_formats_that_are_not_tracked() {
    run_wider("logits", "webgpu", logits);
}

#[test]
fn reference_outputs_and_layers_are_pytorchs() {
    verify("reference");
}

#[test]
fn cpu_outputs_and_layers_are_pytorchs() {
    verify("cpu");
}

#[test]
fn webgpu_outputs_and_layers_are_pytorchs() {
    verify("webgpu");
}

/// Every output of a recorded folder, and what lies between its layers.
fn folder(case: &Value, row: &DeviceRow) {
    let folder = repository(text(case, "folder"));
    let report = verify_model(&folder, row, open(row), DType::F32, true).unwrap();
    let outputs = report.outputs.iter().filter(|c| c.name.starts_with("out."));
    assert!(outputs.clone().count() >= 2, "{}: {:?}", text(case, "name"), report.outputs);
    let worst = outputs.clone().map(|c| c.relative).fold(0.0, f64::max);
    println!("  {worst:.2e} of the largest");
    for c in &report.outputs {
        assert!(c.passes(), "{} on {}: {c:?}", text(case, "name"), row.name);
    }
    // Layers, or stages of a model of several networks.
    let layers = report.outputs.iter().filter(|c| !c.name.starts_with("out."));
    assert!(layers.count() >= 3, "{}: {:?}", text(case, "name"), report.outputs);
}

#[test]
fn reference_outputs_of_images_and_texts_are_pytorchs() {
    run("verify", "reference", folder);
}

#[test]
fn cpu_outputs_of_images_and_texts_are_pytorchs() {
    run("verify", "cpu", folder);
}

#[test]
fn webgpu_outputs_of_images_and_texts_are_pytorchs() {
    run("verify", "webgpu", folder);
}

#[test]
fn reference_outputs_of_every_family_are_pytorchs() {
    run_wider("verify", "reference", folder);
}

#[test]
fn cpu_outputs_of_every_family_are_pytorchs() {
    run_wider("verify", "cpu", folder);
}

#[test]
fn webgpu_outputs_of_every_family_are_pytorchs() {
    run_wider("verify", "webgpu", folder);
}

/// Caches of q8_0 next to caches of f32: the same prompt, the same activations.
fn q8_0_caches(device: &str) {
    let row = devices::find(device).unwrap();
    let cases = json("tests/parity/cases.json");
    let named = |case: &&Value| case["kind"] == "greedy" && case.get("kv").is_none();
    let mut n = 0;
    for case in cases["cases"].as_array().unwrap().iter().filter(named) {
        let logits = |kv: &str| {
            let mut case = case.clone();
            (case["kv"], case["activations"]) = (kv.into(), "f32".into());
            let mut model = model(&case, row, true);
            // Some hundred positions, which every later one reads.
            let prompt =
                raw_tokens(&model, &"How does a borrow end before its owner moves? ".repeat(8));
            let options =
                GenerateOptions { max_tokens: Some(1), logits: true, ..GenerateOptions::default() };
            let answer =
                generate(&mut model, prompt, &options, &|| false, &mut |_| Ok(())).unwrap();
            answer.logits.expect("logits were asked for")
        };
        let c = Comparison::of("logits", &logits("q8_0"), &logits("f32"), cache_tolerance(Q8_0));
        println!("{} on {device}: {:.2e} of the largest", text(case, "name"), c.relative);
        assert!(c.relative > 0.0, "blocks do round");
        assert!(c.passes(), "{} on {device}: {c:?}", text(case, "name"));
        n += 1;
    }
    assert!(n > 0);
    let folder = repository("tests/fixtures/llama32");
    let report = verify_model(&folder, row, open(row), Q8_0, false).unwrap();
    for c in report.outputs.iter().filter(|c| c.name.starts_with("out.")) {
        assert!(c.passes(), "{device}: {c:?}");
    }
}

#[test]
fn reference_caches_of_q8_0_stay_within_their_tolerance() {
    q8_0_caches("reference");
}

#[test]
fn cpu_caches_of_q8_0_stay_within_their_tolerance() {
    q8_0_caches("cpu");
}
