//! Real models, planned from their headers alone.

use crate::targets;
use rlx_core::gguf::{HeaderReader, ModelFiles};
use rlx_core::ir::parse::parse;
use rlx_core::lower::ProgramSpec;
use rlx_core::plan::check::check;
use rlx_core::runtime::memory::Fit;
use rlx_core::runtime::model::{CompiledModel, ModelOptions};
use rlx_core::target::{Activations, CompileOptions, ProgramActivations, Target};
use rlx_core::types::{BlockFormat, DType};
use rlx_core::{Code, Error};
use std::path::Path;

const CHUNK: u64 = 128;

/// Headers of the files of a model, by paths from the repository's root.
fn headers(files: &[String]) -> ModelFiles {
    let headers = files.iter().map(|file| {
        let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(file);
        let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{file}: {e}"));
        let mut reader = HeaderReader::new(file, Some(bytes.len() as u64));
        reader.push(&bytes).unwrap();
        reader.into_header().unwrap()
    });
    ModelFiles::new(headers.collect()).unwrap()
}

fn rustdoc_29m() -> ModelFiles {
    let shard = |n| format!("models/rustdoc-29m/rustdoc-29m-q4_k_m-0000{n}-of-00003.gguf");
    headers(&[1, 2, 3].map(shard))
}

fn rustdoc_2m(format: &str) -> ModelFiles {
    headers(&[format!("tests/fixtures/rustdoc-2m/rustdoc-2m-{format}.gguf")])
}

fn models() -> Vec<(&'static str, ModelFiles)> {
    let mut models = vec![("rustdoc-29m q4_k_m", rustdoc_29m())];
    for format in ["f16", "q8_0", "q4_k_m"] {
        models.push((format, rustdoc_2m(format)));
    }
    for name in ["llama", "llama-q4_k_m", "llama-q6_k"] {
        models.push((name, headers(&[format!("tests/fixtures/gguf/{name}.gguf")])));
    }
    models
}

fn targets() -> [Target; 3] {
    [Target::reference(), targets::host(), targets::gpu()]
}

fn options(activations: Activations) -> ModelOptions {
    let mut options = ModelOptions::chat(CHUNK).with_logits();
    options.programs.push(ProgramSpec::verify(32, true));
    options.compile = CompileOptions::default();
    options.activations = activations.into();
    options
}

/// Every model on every target with both activations.
fn each(mut f: impl FnMut(&str, &ModelFiles, &Target, &CompiledModel)) {
    for (name, files) in models() {
        for target in targets() {
            for activations in [Activations::F32, Activations::Int8] {
                let what = format!("{name} on {} with {}", target.name, activations.name());
                let model = CompiledModel::from_gguf(&files, &target, &options(activations));
                f(&what, &files, &target, &model.unwrap_or_else(|e| panic!("{what}: {e}")));
            }
        }
    }
}

/// A chat's question is read with decode's type: for few rows low parts cost little. With logits it has the same, so
/// that an answer is the same with logprobs.
#[test]
fn programs_have_the_activations_of_their_rows() {
    let mut options = ModelOptions::chat(CHUNK).with_short(64).with_logits();
    options.activations = ProgramActivations::from_names("int16/int8").unwrap();
    let model = CompiledModel::from_gguf(&rustdoc_2m("q4_k_m"), &Target::reference(), &options);
    let model = model.unwrap();
    let types = model.specs.iter().zip(&model.options);
    let types: Vec<(&str, &str)> =
        types.map(|(spec, own)| (spec.name.as_str(), own.activations.name())).collect();
    let expected = [
        ("decode", "int16"),
        ("prefill", "int8"),
        ("prefill_last", "int8"),
        ("prefill_short", "int16"),
        ("prefill_last_logits", "int8"),
        ("prefill_short_logits", "int16"),
    ];
    assert_eq!(types, expected);
}

/// Splits have rows for tiles, not for tokens: what comes before and behind them is still left out for rows that are
/// not there.
#[test]
fn rows_that_are_not_there_are_left_out_around_splits_of_few_rows() {
    let options = ModelOptions::chat(CHUNK).with_short(64);
    let model = CompiledModel::from_gguf(&rustdoc_2m("q4_k_m"), &targets::gpu(), &options).unwrap();
    let program = |name| &model.programs[model.program(name).unwrap()];
    let whole = |name| {
        let steps = program(name).steps.iter().filter(|s| s.live.is_none());
        let names = steps.map(|s| s.op.name()).filter(|name| *name != "attention_split");
        names.collect::<Vec<_>>()
    };
    let count = |name, op| program(name).steps.iter().filter(|s| s.op.name() == op).count();
    assert_eq!(whole("prefill_short"), whole("prefill_last"));
    let layers = count("prefill_last", "attention");
    let splits = ["attention_split", "attention_join"].map(|op| count("prefill_short", op));
    assert!(layers > 0 && splits == [layers; 2], "{layers} layers, {splits:?} splits");
    assert_eq!(
        [count("prefill_last", "attention_split"), count("prefill_short", "attention")],
        [0; 2]
    );
}

#[test]
fn arenas_are_within_a_twentieth_of_the_largest_live_set() {
    each(|what, _, _, model| {
        for p in &model.programs {
            let share = p.arena_bytes as f64 / p.largest_live_bytes.max(1) as f64;
            assert!(
                share <= 1.05,
                "{what}, {}: {} of {} bytes",
                p.name,
                p.arena_bytes,
                p.largest_live_bytes
            );
            assert!(p.largest_live_bytes <= p.unshared_bytes);
        }
    });
}

/// WebGPU's are its default limits: the largest buffer and the fewest bindings a page may count on.
#[test]
fn every_plan_passes_its_check_at_its_target_s_limits() {
    each(|what, _, target, model| {
        for p in &model.programs {
            check(p, &model.plan, &target.limits)
                .unwrap_or_else(|e| panic!("{what}, {}: {e}", p.name));
        }
    });
}

#[test]
fn weights_take_two_hundredths_more_than_the_file_at_most() {
    each(|what, files, _, model| {
        let (have, file) = (model.plan.bytes(), files.tensor_bytes());
        assert!(have as f64 <= 1.02 * file as f64, "{what}: {have} bytes of {file}");
        let packed = model.plan.entries.iter().any(|e| e.ty.dtype.is_block());
        assert_eq!(packed, !what.starts_with("f16") && !what.starts_with("llama on"), "{what}");
    });
}

#[test]
fn no_program_of_a_real_model_misses_a_fusion() {
    each(|what, _, target, model| {
        for (p, report) in model.programs.iter().zip(&model.reports) {
            report.assert_clean().unwrap_or_else(|e| panic!("{what}, {}: {e}", p.name));
            let (before, after) = report.traffic.expect("every symbol is bound");
            // Quantisation is a step of its own, and pays in the products.
            let quantizes = what.ends_with("int8");
            assert!(quantizes || after.launches <= before.launches, "{what}, {}\n{report}", p.name);
            // Sums of few rows' splits are written for more workers, which the model of costs does not count.
            let mut joins = p.steps.iter().filter(|s| s.op.name() == "attention_join");
            let several = joins.any(|s| s.op.control(s.operands.len()).is_some());
            let spends = quantizes || several;
            assert!(spends || after.time_us <= before.time_us, "{what}, {}\n{report}", p.name);
            assert_eq!(after.launches, p.steps.len() as u64, "{what}, {}", p.name);
            let gains = target.name == "webgpu" && p.name == "decode" && !quantizes;
            assert!(!gains || after.launches * 2 < before.launches, "{what}\n{report}");
        }
    });
}

#[test]
fn real_programs_read_back_from_their_text() {
    each(|what, _, _, model| {
        for p in &model.programs {
            let text = p.graph.to_string();
            let again = parse(&text).unwrap_or_else(|e| panic!("{what}, {}: {e}", p.name));
            assert_eq!(again.to_string(), text, "{what}, {}", p.name);
        }
    });
}

fn with_caches(files: &ModelFiles, target: &Target, kv: DType) -> Result<CompiledModel, Error> {
    let mut options = ModelOptions::chat(CHUNK);
    options.compile.kv = kv;
    CompiledModel::from_gguf(files, target, &options)
}

#[test]
fn caches_take_the_bytes_of_their_type_on_every_device() {
    // 8 layers of k and v with 4 heads of 64.
    let (files, elements) = (rustdoc_29m(), 8 * 2 * 4 * 64);
    for target in [targets::host(), targets::gpu()] {
        let mut others = Vec::new();
        let q8_0 = DType::Block(BlockFormat::Q8_0);
        for (kv, per_32) in [(DType::F32, 128), (DType::F16, 64), (q8_0, 34)] {
            let model = with_caches(&files, &target, kv).unwrap();
            let fit = Fit::of(&model, &target);
            assert_eq!(fit.bytes_per_position, elements / 32 * per_32, "{kv}");
            let caches = fit.bytes_per_position * model.context;
            others.push(model.state_bytes() - caches);
            for p in &model.programs {
                check(p, &model.plan, &target.limits).unwrap();
                let of_kv = p.states.iter().filter(|s| s.ty.dtype == kv);
                let declared: u64 = of_kv.map(|s| s.bytes).sum();
                assert_eq!(declared, caches, "{kv}, {}", p.name);
            }
        }
        assert!(others.iter().all(|n| *n == others[0]), "nothing but the caches differs");
    }
}

#[test]
fn caches_that_a_device_or_a_model_cannot_have_are_named_before_anything_is_loaded() {
    let (bf16, gpu) = (DType::BF16, targets::gpu());
    let e = with_caches(&rustdoc_2m("f16"), &gpu, bf16).unwrap_err();
    assert_eq!(e.code, Code::Unsupported);
    assert_eq!(e.what, "the webgpu device has no caches of bf16, it has f32, f16, q8_0, q4_0");
    assert_eq!(e.hint, "take caches of f16: --kv f16, or kv: 'f16' for Engine.load");
    let q8_0 = DType::Block(BlockFormat::Q8_0);
    // Heads of 16.
    let llama = headers(&["tests/fixtures/gguf/llama.gguf".into()]);
    for target in targets() {
        let e = with_caches(&llama, &target, q8_0).unwrap_err();
        if target.name == "webgpu" {
            assert_eq!((e.code, e.at.as_str()), (Code::Unsupported, "blk.0.k"));
            assert_eq!(
                e.what,
                "the webgpu device has caches of q8_0 for heads of whole 64, and those of this model have \
                 16 elements"
            );
            assert!(e.hint.contains("f16"));
            continue;
        }
        assert_eq!((e.code, e.at.as_str()), (Code::Usage, "blk.0.k"), "{}", target.name);
        assert_eq!(
            e.what,
            "a cache of q8_0 holds heads of whole blocks of 32, and those of this model have 16 elements"
        );
        assert!(e.hint.contains("f16"));
    }
    let q4_1 = DType::Block(BlockFormat::Q4_1);
    let e = with_caches(&rustdoc_2m("f16"), &Target::reference(), q4_1).unwrap_err();
    assert_eq!(
        (e.code, e.what.as_str()),
        (Code::Usage, "caches of q4_1: they are f32, f16, q8_0 or q4_0")
    );
}

#[test]
fn fingerprints_name_the_content() {
    let files = rustdoc_2m("q4_k_m");
    let webgpu = || targets::gpu();
    let decode = |target: Target, change: &dyn Fn(&mut ModelOptions)| {
        let mut options = ModelOptions::chat(CHUNK);
        change(&mut options);
        let model = CompiledModel::from_gguf(&files, &target, &options).unwrap();
        model.programs[0].fingerprint
    };
    let first = decode(webgpu(), &|_| {});
    assert_eq!(first, decode(webgpu(), &|_| {}), "the same input gives the same fingerprint");
    assert_eq!(first, decode(webgpu(), &|o| o.chunk = 64), "decode has nothing of the chunk");
    let mut seen = vec![first];
    let mut narrow = webgpu();
    narrow.limits.binding /= 2;
    for other in [
        decode(Target::reference(), &|_| {}),
        decode(targets::host(), &|_| {}),
        decode(narrow, &|_| {}),
        decode(webgpu(), &|o| o.activations = Activations::Int8.into()),
        decode(webgpu(), &|o| o.compile.kv = DType::F16),
        decode(webgpu(), &|o| o.compile.without = vec!["glu".into()]),
        decode(webgpu(), &|o| o.context = Some(100)),
    ] {
        assert!(!seen.contains(&other), "a change shows");
        seen.push(other);
    }
    // A constant of the model: the eps of a norm.
    let model = CompiledModel::from_gguf(&files, &webgpu(), &ModelOptions::chat(CHUNK)).unwrap();
    // The decode program's options, which the preset of its family made.
    let mut options = ModelOptions::chat(CHUNK);
    options.compile = model.options[0].clone();
    let mut module = model.module;
    let find =
        |name: &str| files.tensor(name).ok().map(|(shard, t)| (*shard as u32, t.offset, t.bytes));
    let print = |module: &rlx_core::ir::hir::Module| {
        CompiledModel::from_module(module.clone(), &webgpu(), &options, find).unwrap().programs[0]
            .fingerprint
    };
    assert_eq!(print(&module), first);
    for node in &mut module.nodes {
        if let rlx_core::ir::hir::Block::RmsNorm(norm) = &mut node.block {
            norm.eps *= 2.0;
            break;
        }
    }
    assert!(!seen.contains(&print(&module)), "a constant shows");
}

/// The page compares this with what its wasm gives. It changes with the program: passes, plan,
/// names, types.
#[test]
fn the_decode_program_of_the_default_model_has_the_recorded_fingerprint() {
    let target = targets::gpu();
    let model =
        CompiledModel::from_gguf(&rustdoc_29m(), &target, &ModelOptions::chat(CHUNK)).unwrap();
    let decode = &model.programs[0];
    assert_eq!(decode.name, "decode");
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/plan/decode_fingerprint.txt");
    let now = format!("{:016x}", decode.fingerprint);
    if crate::bless::bless() {
        std::fs::write(file, format!("{now}\n")).unwrap();
    }
    assert_eq!(std::fs::read_to_string(file).unwrap().trim(), now, "BLESS=1 rewrites {file}");
}
