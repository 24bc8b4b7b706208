//! Models of real shapes at WebGPU's default limits, planned from headers alone: what is larger than a
//! binding is read in parts, every plan passes its check, and every step has a kernel that binds no
//! more than eight buffers.

use rlx_core::Code;
use rlx_core::gguf::{HeaderReader, ModelFiles};
use rlx_core::ir::lir::Program;
use rlx_core::plan::check::check;
use rlx_core::runtime::memory::Fit;
use rlx_core::runtime::model::{CompiledModel, ModelOptions};
use rlx_core::target::Activations;
use rlx_core::types::{BlockFormat, DType};
use rlx_native::devices::{OpenOptions, find};
use rlx_native::load::{LoadOptions, load};
use rlx_native::network::CheckpointFiles;
use rlx_native::tools::mix::Quant;
use rlx_native::tools::synth::{Shape, header};
use rlx_webgpu::Tuning;
use rlx_webgpu::gpu::Wgsl;
use rlx_webgpu::kernels::{Context, RowsControl, kernel};

const DEFAULT: rlx_core::target::Limits = rlx_webgpu::DEFAULT_LIMITS;

fn files(shape: &str, quant: &str) -> ModelFiles {
    let quant = Quant::parse(quant, false).unwrap();
    let writer = header(Shape::find(shape).unwrap(), quant).unwrap();
    let mut reader = HeaderReader::new(shape, Some(writer.file_bytes()));
    reader.push(writer.header()).unwrap();
    ModelFiles::new(vec![reader.into_header().unwrap()]).unwrap()
}

/// As a page compiles it.
fn compiled(files: &ModelFiles, activations: Activations) -> CompiledModel {
    let mut options = ModelOptions::chat(512);
    options.compile.kv = DType::F16;
    options.activations = activations.into();
    CompiledModel::from_gguf(files, &rlx_webgpu::target(DEFAULT), &options).unwrap()
}

/// Names of the steps over parts, with how many parts each has.
fn parts(program: &Program) -> Vec<(String, usize)> {
    let mut out: Vec<(String, usize)> = Vec::new();
    for step in program.steps.iter().filter(|s| s.part.is_some()) {
        match out.last_mut().filter(|last| last.0 == step.label) {
            Some(last) => last.1 += 1,
            None => out.push((step.label.clone(), 1)),
        }
    }
    out
}

fn every_step_has_a_kernel(what: &str, model: &CompiledModel) {
    let subgroups =
        Wgsl { packed_dot: true, subgroup: Some(32), enable_subgroups: true, f16: true };
    for (p, wgsl) in model.programs.iter().flat_map(|p| [(p, subgroups), (p, Wgsl::default())]) {
        check(p, &model.plan, &DEFAULT).unwrap_or_else(|e| panic!("{what}, {}: {e}", p.name));
        let state = model.states.iter().position(|s| s.name == rlx_core::lower::CTL).unwrap();
        let rows = p.inputs.first().map(|i| i.bytes / 4);
        let rows_control = rows.map(|rows| RowsControl { state: state as u32, rows });
        for step in &p.steps {
            let tuning = Tuning::usual(wgsl);
            let cx = Context { plan: &model.plan, rows_control, wgsl, tuning };
            let made = kernel(step, &cx).unwrap_or_else(|e| panic!("{what}, {}: {e}", p.name));
            let bound = made.map_or(0, |k| k.memory.len());
            let most = DEFAULT.storage_buffers as usize;
            assert!(bound <= most, "{what}, {}: {} binds {bound}", p.name, step.label);
        }
    }
}

/// 8 heads of 128 elements: 32,768 positions are 128 MiB of f32, just what WebGPU promises to bind.
#[test]
fn caches_of_32768_positions_of_the_8b_are_one_binding_each_at_default_limits() {
    let files = files("llama-3.1-8b", "q4_k_m");
    let elements = 8 * 128 * 32_768;
    for (kv, bytes) in [
        (DType::F32, 4 * elements),
        (DType::F16, 2 * elements),
        (DType::Block(BlockFormat::Q8_0), elements / 32 * 34),
        (DType::Block(BlockFormat::Q4_0), elements / 32 * 18),
    ] {
        let mut options = ModelOptions::chat(512);
        options.compile.kv = kv;
        options.context = Some(32_768);
        let target = rlx_webgpu::target(DEFAULT);
        let model = CompiledModel::from_gguf(&files, &target, &options).unwrap();
        let caches: Vec<_> = model.states.iter().filter(|s| s.ty.dtype == kv).collect();
        assert!(caches.len() >= 64, "{kv}: {} caches", caches.len());
        assert!(caches.iter().any(|s| s.bytes == bytes), "{kv}: {}", caches[0].bytes);
        assert!(caches.iter().all(|s| s.bytes <= DEFAULT.binding), "{kv}");
        every_step_has_a_kernel(&format!("32,768 positions of {kv}"), &model);
    }
}

#[test]
fn presets_compile_at_default_limits() {
    for (shape, quant, embedding, head, ffn) in [
        ("llama-3.1-8b", "q4_k_m", 3, 4, 1),
        ("llama-3.1-8b", "q8_0", 5, 5, 1),
        ("llama-3.1-8b", "f16", 8, 8, 1),
        // Only here the feed-forward matrices are above the limit.
        ("llama-3.1-8b", "f32", 16, 16, 2),
        ("llama-3.2-1b", "q8_0", 3, 3, 1),
        ("llama-3.2-1b", "q4_k_m", 2, 2, 1),
    ] {
        let files = files(shape, quant);
        for activations in [Activations::F32, Activations::Int8] {
            let what = format!("{shape} {quant} {}", activations.name());
            let model = compiled(&files, activations);
            let most = DEFAULT.binding;
            assert!(model.plan.buffers.iter().all(|b| b.bytes <= most), "{what}");
            assert!(model.states.iter().all(|s| s.bytes <= most), "{what}");
            assert!(model.arena_bytes() <= most, "{what}");
            let decode = parts(&model.programs[0]);
            let of = |name: &str| decode.iter().find(|p| p.0.contains(name)).map_or(1, |p| p.1);
            assert_eq!(of("token_embd"), embedding, "{what}: {decode:?}");
            assert_eq!(of("ffn"), ffn, "{what}: {decode:?}");
            assert_eq!(of("lm_head"), head, "{what}: {decode:?}");
            let (have, file) = (model.plan.bytes(), files.tensor_bytes());
            assert!(have as f64 <= 1.02 * file as f64, "{what}: {have} bytes of {file}");
            every_step_has_a_kernel(&what, &model);
        }
    }
}

#[test]
fn a_context_whose_caches_no_binding_holds_names_the_largest_that_one_does() {
    let files = files("llama-3.1-8b", "q4_k_m");
    let at = |context| {
        let mut options = ModelOptions::chat(512);
        options.compile.kv = DType::F16;
        options.context = Some(context);
        let target = rlx_webgpu::target(DEFAULT);
        Fit::of(&CompiledModel::from_gguf(&files, &target, &options).unwrap(), &target)
    };
    // Eight heads of 128 f16 a position: 2 kB of each cache.
    assert_eq!(at(65_536).bound(), Ok(()));
    let e = at(131_072).bound().unwrap_err();
    assert_eq!(e.code, Code::OutOfMemory);
    assert_eq!(e.hint, "load with a context of 65536 tokens or less (--context, contextLength)");
    assert!(e.what.contains("weights 4"), "{e}");
}

#[test]
fn a_model_that_memory_does_not_hold_is_refused_before_it_is_put_anywhere() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/fixtures/rustdoc-2m/rustdoc-2m-q8_0.gguf"
    );
    let source = CheckpointFiles::open(path.as_ref()).unwrap();
    let row = find("cpu").unwrap();
    let device = (row.open)(&OpenOptions { threads: Some(1), ..OpenOptions::default() }).unwrap();
    let options = |memory| LoadOptions { memory: Some(memory), ..LoadOptions::default() };
    let mut told = 0;
    let refused = |memory, told: &mut u64| {
        let e = load(&source, row, device.clone(), &options(memory), &mut |_, _| *told += 1);
        e.err().expect("it does not fit")
    };
    let e = refused(4_000_000, &mut told);
    assert_eq!(e.code, Code::OutOfMemory);
    assert!(e.what.ends_with("; this machine has 4.0 MB"), "{e}");
    let n: u64 = e.hint.split(' ').find_map(|word| word.parse().ok()).expect("a context");
    assert_eq!(refused(1_000_000, &mut told).hint, "use a smaller model");
    assert_eq!((told, device.counters().live_bytes), (0, 0));
    let fits = LoadOptions { context: Some(n), ..options(4_000_000) };
    load(&source, row, device.clone(), &fits, &mut |_, _| told += 1).unwrap();
    assert!(told > 0);
}
