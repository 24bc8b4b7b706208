//! Group 001: weights by name, and compile options from profiles.

use crate::facts::{LAYER, bytes, difference, f32s, fixture, floats, graph, numbers, run};
use crate::targets;
use rlx_core::compile::{
    Executable, ModelCompilePipeline, ModelExecutionConfig, Params, compile_built_with_config,
    compile_graph_legacy, compile_graph_preset, compile_graph_with_profile, compile_hir_preset,
    compile_hir_with_profile, options_for, options_for_device, packed_device, with_packed_options,
};
use rlx_core::formats::decode_row;
use rlx_core::gguf::{HeaderReader, ModelFiles, Progress};
use rlx_core::ir::GraphModule;
use rlx_core::ir::hir::{LinearWeights, Module, Weight};
use rlx_core::ops::Class;
use rlx_core::profile::{CompileProfile, FusionTarget, Mixed, PrecisionProfile, Preset};
use rlx_core::safetensors;
use rlx_core::target::{
    CompileOptions, DispatchPolicy, KernelDispatch, Precision, PrecisionPolicy, Target,
};
use rlx_core::types::{BATCH, Binding, DType, SEQ};
use rlx_core::weights::{FileWeights, WeightLoader, WeightLoaderSource, WeightSource};
use rlx_core::{Code, Result};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;

fn model(file: &[u8], name: &str) -> ModelFiles {
    let mut reader = HeaderReader::new(name, Some(file.len() as u64));
    assert_eq!(reader.push(file).unwrap(), Progress::Done);
    ModelFiles::new(vec![reader.into_header().unwrap()]).unwrap()
}

#[test]
fn fact_001_01_a_loader_is_a_source_of_typed_and_packed_tensors() {
    let name = "rustdoc-2m/rustdoc-2m-q4_k_m.gguf";
    let file = fixture(name);
    let model = model(&file, name);
    let loader = FileWeights::gguf(&model, vec![&file]);
    assert_eq!((loader.format_id(), loader.arch_hint()), ("gguf", Some("llama")));
    let tensors = loader.len();
    let mut source = WeightLoaderSource(loader);
    let packed = model.tensors.iter().find(|t| t.1.1.dtype.is_block()).unwrap();
    let info = &packed.1.1;
    assert!(source.has(packed.0));
    // Packed data passes as it stands in the file; what is packed is not transposed.
    let e = source.take(packed.0, true).unwrap_err();
    assert!(e.what.ends_with("cannot be transposed"), "{e}");
    let w = source.take(packed.0, false).unwrap();
    assert_eq!((w.dtype, &w.dims), (info.dtype, &info.dims));
    assert_eq!(*w.bytes, file[info.offset as usize..][..info.bytes as usize]);
    // Taken is gone.
    assert!(!source.has(packed.0));
    assert_eq!(source.0.len(), tensors - 1);
    let e = source.take("blk.0.attn_norm.wieght", false).unwrap_err();
    assert_eq!(e.what, "tensor blk.0.attn_norm.wieght is missing");
    assert!(e.hint.starts_with("the nearest names: blk.0.attn_norm.weight"), "{}", e.hint);
    assert_eq!(source.0.take_packed("output_norm.weight").unwrap(), None, "f32 is left");
    assert!(source.has("output_norm.weight"));
    // Bytes that are still on their way are an error of their own.
    let mut early = FileWeights::gguf(&model, vec![&file[..64]]);
    assert_eq!(early.take("output_norm.weight").unwrap_err().code, Code::Io);
    assert_eq!(early.len(), tensors);
}

#[test]
fn fact_001_01_a_transposed_take_exchanges_the_last_two_axes() {
    let file = fixture("llama32/model.safetensors");
    let mut reader = safetensors::HeaderReader::new("model", Some(file.len() as u64));
    assert!(reader.push(&file).unwrap());
    let header = reader.into_header().unwrap();
    let name = "model.layers.0.self_attn.k_proj.weight";
    let load = || WeightLoaderSource(FileWeights::safetensors(&header, &file));
    let (plain, turned) = (load().take(name, false).unwrap(), load().take(name, true).unwrap());
    assert_eq!(plain.dims.iter().rev().collect::<Vec<_>>(), turned.dims.iter().collect::<Vec<_>>());
    assert_eq!(turned.dtype, plain.dtype, "no copy in f32");
    assert_eq!(turned.transposed().unwrap().bytes, plain.bytes);
}

#[test]
fn fact_001_04_a_profile_copies_its_switches_into_the_options() {
    for set in [false, true] {
        let mut p = CompileProfile::default();
        p.passes.dce = set;
        p.passes.constant_folding = set;
        p.passes.verbose = set;
        p.fusion.assert_clean = set;
        let mut o = CompileOptions::default();
        p.apply(&mut o);
        assert_eq!([o.dce, o.constant_folding, o.verbose, o.assert_clean], [set; 4]);
    }
}

fn from(profile: &CompileProfile, device: &str) -> CompileOptions {
    CompileOptions::from_profile(profile, device, KernelDispatch::default()).unwrap()
}

#[test]
fn fact_001_05_only_the_compiled_backends_hints_are_read() {
    let mut p = CompileProfile::default();
    p.backend.of_mut(FusionTarget::Metal).unwrap().skip_fusion = true;
    p.backend.of_mut(FusionTarget::Wgpu).unwrap().unfuse_regions = true;
    let flags = |o: CompileOptions| (o.skip_fusion, o.unfuse_regions);
    assert_eq!(flags(from(&p, "metal")), (true, false));
    assert_eq!(flags(from(&p, "webgpu")), (false, true));
    assert_eq!(flags(from(&p, "cpu")), (false, false));
    p.fusion.target = FusionTarget::Metal;
    assert_eq!(flags(from(&p, "cpu")), (true, false), "the profile's target is compiled for");
    let mut all = CompileProfile::default();
    all.fusion.skip = true;
    for target in FusionTarget::ALL {
        assert!(from(&all, target.name()).skip_fusion);
    }
    // What a profile does not say stays.
    let mut o = CompileOptions { alignment: 256, kv: DType::F16, ..CompileOptions::default() };
    p.apply(&mut o);
    assert_eq!((o.alignment, o.kv), (256, DType::F16));
}

#[test]
fn fact_001_06_auto_leaves_the_target_unset() {
    let mut o = CompileOptions::default();
    CompileProfile::default().apply(&mut o);
    assert_eq!(o.fusion_target, FusionTarget::Auto);
    for target in FusionTarget::ALL {
        let mut p = CompileProfile::default();
        p.fusion.target = target;
        let mut o = CompileOptions::default();
        p.apply(&mut o);
        assert_eq!(o.fusion_target, target);
    }
}

fn policy(compute: Precision, mixed: Mixed) -> PrecisionPolicy {
    let precision = PrecisionProfile { compute, mixed };
    from(&CompileProfile { precision, ..CompileProfile::default() }, "cpu").precision
}

#[test]
fn fact_001_07_what_is_asked_to_be_bf16_is_bf16() {
    assert_eq!(policy(Precision::F32, Mixed::None), PrecisionPolicy::AlwaysF32);
    assert_eq!(policy(Precision::F16, Mixed::None), PrecisionPolicy::AlwaysF16);
    let bf16 = policy(Precision::Bf16, Mixed::None);
    for class in [Class::Compute, Class::Reduction, Class::Elementwise, Class::Movement] {
        assert_eq!(bf16.of(class), Precision::Bf16);
    }
    assert_eq!(bf16.of(Class::Boundary), Precision::F32);
}

#[test]
fn fact_001_08_mixed_auto_is_auto_mixed_of_the_compute_type() {
    assert_eq!(policy(Precision::F32, Mixed::Auto), PrecisionPolicy::AutoMixed);
    assert_eq!(policy(Precision::F16, Mixed::Auto), PrecisionPolicy::AutoMixed);
    assert_eq!(policy(Precision::Bf16, Mixed::Auto), PrecisionPolicy::AutoMixedBf16);
}

#[test]
fn fact_001_09_dynamic_options_are_the_default_with_a_binding() {
    let binding = Binding::from([(SEQ.into(), 3)]);
    let expected = CompileOptions { binding: binding.clone(), ..CompileOptions::default() };
    assert_eq!(CompileOptions::dynamic(binding), expected);
}

#[test]
fn fact_001_10_options_have_the_dispatch_and_the_devices_backend() {
    let dispatch = KernelDispatch { policy: DispatchPolicy::ForceCommon, ..Default::default() };
    let mut p = CompileProfile::llama32_decode();
    let o = CompileOptions::from_profile(&p, "vulkan", dispatch.clone()).unwrap();
    assert_eq!((o.fusion_target, &o.dispatch), (FusionTarget::Wgpu, &dispatch));
    assert_eq!(o.fusion_policy, Some(p.fusion_policy()));
    p.fusion.target = FusionTarget::Cuda;
    let o = CompileOptions::from_profile(&p, "vulkan", dispatch).unwrap();
    assert_eq!(o.fusion_target, FusionTarget::Cuda, "the profile's own stays");
    let e = CompileOptions::from_profile(&p, "abacus", KernelDispatch::default()).unwrap_err();
    assert_eq!(e.what, "unknown device `abacus`");
}

#[test]
fn fact_001_11_the_usual_dispatch_is_the_default() {
    assert_eq!(from(&CompileProfile::default(), "cpu").dispatch, KernelDispatch::default());
    assert_eq!(KernelDispatch::default().policy, DispatchPolicy::PreferNative);
}

#[test]
fn fact_001_12_packed_options_keep_the_profile_and_its_fusions() {
    let mut profile = CompileProfile::qwen3_prefill();
    profile.passes.verbose = true;
    let before = profile.clone();
    let o = CompileOptions::packed(&profile, "webgpu").unwrap();
    assert_eq!(profile, before);
    assert!(!o.skip_fusion && o.verbose);
    assert_eq!(o, from(&profile, "webgpu"));
}

#[test]
fn fact_001_13_packed_options_of_a_device_are_llama32_prefills() {
    let o = CompileOptions::packed(&CompileProfile::default(), "cpu").unwrap();
    assert_eq!(o, from(&CompileProfile::llama32_prefill(), "cpu"));
}

/// `down(silu(gate(x)) * up(x)) + x` with weights of one type, from recorded blocks of that type.
fn packed_layer(dtype: DType) -> String {
    format!(
        "func @layer {{
  input %x : tensor<3x256xf32>
  weight %gate : tensor<8x256x{dtype}>
  weight %up : tensor<8x256x{dtype}>
  %0 = matmul %x, %gate -> tensor<3x8xf32> // gate
  %1 = matmul %x, %up -> tensor<3x8xf32> // up
  %2 = map %0 {{f = silu}} -> tensor<3x8xf32> // act
  %3 = zip %2, %1 {{f = mul}} -> tensor<3x8xf32> // product
  return y = %3
}}
"
    )
}

#[test]
fn fact_001_14_packed_and_fused_equals_dequantised_and_plain() {
    let file = crate::gunzip::gunzip("ggml_quants.safetensors");
    let mut reader = safetensors::HeaderReader::new("ggml_quants", Some(file.len() as u64));
    assert!(reader.push(&file).unwrap());
    let header = reader.into_header().unwrap();
    let x = bytes(&numbers(3 * 256, 5));
    for format in Target::every_format() {
        let dtype = DType::Block(format);
        let recorded = &header.tensors[&format!("{}.bytes", dtype.name().to_uppercase())];
        let blocks = &file[recorded.offset as usize..][..recorded.bytes as usize];
        // Blocks whose scales are ordinary numbers: the record has infinities and NaN too.
        let mut usable = Vec::new();
        for block in blocks.chunks_exact(format.bytes()) {
            let mut out = vec![0.0f32; format.elements()];
            decode_row(dtype, block, &mut out).unwrap();
            if out.iter().all(|v| v.is_finite() && v.abs() < 1e3) {
                usable.extend_from_slice(block);
            }
        }
        let wanted = 8 * 256 / format.elements() * format.bytes();
        let packed = |skip: usize| -> Vec<u8> {
            usable.iter().cycle().skip(skip * format.bytes()).take(wanted).copied().collect()
        };
        let (gate, up) = (packed(0), packed(3));
        let plain = |w: &[u8]| {
            let mut out = vec![0.0f32; 8 * 256];
            decode_row(dtype, w, &mut out).unwrap();
            bytes(&out)
        };
        let dense = [("gate".into(), plain(&gate)), ("up".into(), plain(&up))];
        let weights = [("gate".into(), gate), ("up".into(), up)];
        let run = |target: &Target, text: &str, weights: [(String, Vec<u8>); 2], fused: bool| {
            let mut profile = CompileProfile::llama32_prefill();
            profile.fusion.skip = !fused;
            let result = compile_graph_with_profile(target, graph(text), &profile).unwrap();
            assert_eq!(result.lir.steps.len() == 1, fused, "{} {}", target.name, result.lir);
            let program = Executable::new(result, Arc::new(weights.into())).unwrap();
            floats(&program.run_reference(&[("x", &x)]).unwrap()[0].1)
        };
        let want = run(&targets::host(), &packed_layer(DType::F32), dense, false);
        for target in [targets::host(), targets::gpu()] {
            let got = run(&target, &packed_layer(dtype), weights.clone(), true);
            // The oracle computes in f64, so not even the last bit may differ.
            assert_eq!(difference(&want, &got), 0.0, "{dtype} for {}", target.name);
        }
    }
}

#[test]
fn fact_001_15_the_packed_guard_is_a_value() {
    let profile = CompileProfile::default();
    let seen = with_packed_options("metal", &profile, |o| o.clone()).unwrap();
    assert_eq!(seen, CompileOptions::packed(&profile, "metal").unwrap());
    // It returns what the closure returns, and a closure that fails leaves nothing behind.
    let answer: Result<u32> = with_packed_options("mlx", &profile, |_| 7);
    assert_eq!(answer, Ok(7));
    let failed =
        std::panic::catch_unwind(|| with_packed_options("cpu", &profile, |_| panic!("stop")));
    assert!(failed.is_err());
    let again = with_packed_options("metal", &profile, |o| o.clone()).unwrap();
    assert_eq!(again, seen);
    assert!(with_packed_options("abacus", &profile, |_| ()).is_err());
}

#[test]
fn fact_001_16_when_to_compile_is_part_of_the_key() {
    use rlx_core::compile::CompilationMode as Mode;
    let key = |mode| {
        let config = ModelExecutionConfig::prefill(1, 8).with_device("mlx");
        config.with_compilation_mode(mode).cache_key()
    };
    let keys = [Mode::Eager, Mode::Lazy, Mode::Aot].map(key);
    assert!(keys[0] != keys[1] && keys[1] != keys[2] && keys[0] != keys[2]);
}

#[test]
fn fact_001_17_a_packed_model_runs_where_it_is_asked_to() {
    for device in ["cpu", "metal", "mlx", "gpu", "cuda", "rocm", "vulkan", "webgpu", "tpu"] {
        assert_eq!(packed_device(device), Ok(device));
    }
    assert!(packed_device("abacus").is_err());
    // A device that cannot read a format says so when it compiles, and names the tensor.
    let text = "func @f {
  input %x : tensor<1x256xf32>
  weight %w : tensor<4x256xq8_k>
  %0 = matmul %x, %w -> tensor<1x4xf32> // y
  return y = %0
}
";
    let e = compile_graph_preset(&targets::gpu(), graph(text), Preset::Llama32Prefill);
    let e = e.unwrap_err();
    assert_eq!(e.code, Code::Unsupported);
    assert!(e.to_string().contains("w is q8_k"), "{e}");
}

#[test]
fn fact_001_19_sam_presets_are_used_by_name() {
    for (preset, skip) in
        [(Preset::SamEncoder, false), (Preset::Sam3, false), (Preset::Sam2MemoryAttention, true)]
    {
        let o = from(&preset.profile(), "cpu");
        assert_eq!(
            (o.skip_fusion, o.fusion_target),
            (skip, FusionTarget::Cpu),
            "{}",
            preset.name()
        );
    }
}

#[test]
fn fact_001_20_a_graph_compiles_for_a_device_by_a_profile() {
    let (mut profile, gpu) = (CompileProfile::default(), targets::gpu());
    let fused = compile_graph_with_profile(&gpu, graph(LAYER), &profile).unwrap();
    profile.fusion.skip = true;
    let plain = compile_graph_with_profile(&gpu, graph(LAYER), &profile).unwrap();
    assert!(fused.lir.steps.len() < plain.lir.steps.len());
    assert!(difference(&run(&plain), &run(&fused)) < 1e-5);
    // A profile may ask for a backend, and then for no other target than one of it.
    profile.fusion.target = FusionTarget::Wgpu;
    assert!(compile_graph_with_profile(&gpu, graph(LAYER), &profile).is_ok());
    profile.fusion.target = FusionTarget::Mlx;
    let e = compile_graph_with_profile(&gpu, graph(LAYER), &profile).unwrap_err();
    assert_eq!(e.code, Code::DeviceUnavailable);
}

/// A preset, by name, compiles the layer to these operators, written down from what its profile promises:
/// a family's fusions, or none where it skips them.
fn compiles_by_name(presets: &[Preset], expected: &[&str]) {
    for preset in presets {
        let by_name = compile_graph_preset(&targets::host(), graph(LAYER), *preset).unwrap();
        let got: Vec<&str> = by_name.lir.steps.iter().map(|s| s.op.name()).collect();
        assert_eq!(got, expected, "{}", preset.name());
        // The numbers are those of the graph as it was written.
        let plain = compile_graph_legacy(&Target::reference(), graph(LAYER)).unwrap();
        assert!(difference(&run(&plain), &run(&by_name)) < 1e-5, "{}", preset.name());
    }
}

/// The layer with every fusion that the CPU has.
const FUSED: [&str; 4] = ["zip", "rms_norm", "matmul", "matmul"];
/// The layer as it was written.
const WRITTEN: [&str; 8] = ["zip", "rms_norm", "matmul", "matmul", "map", "zip", "matmul", "zip"];

#[test]
fn fact_001_21_encoders_compile_by_their_preset() {
    compiles_by_name(&[Preset::SamEncoder, Preset::Encoder], &FUSED);
    compiles_by_name(&[Preset::Sam2MemoryAttention], &WRITTEN);
}

#[test]
fn fact_001_22_language_models_compile_by_their_preset() {
    use Preset::*;
    compiles_by_name(&[Qwen3Prefill, Qwen3Decode, Qwen35Prefill, Qwen35Decode], &FUSED);
    compiles_by_name(&[GemmaPrefill, GemmaDecode, Llama32Prefill, Llama32Decode], &FUSED);
    compiles_by_name(&[Llada2Diffusion], &WRITTEN);
}

#[test]
fn fact_001_23_the_legacy_way_has_default_options() {
    let legacy = compile_graph_legacy(&targets::host(), graph(LAYER)).unwrap();
    let pipeline = rlx_core::compile::CompilePipeline::new(targets::host());
    assert_eq!(pipeline.options, CompileOptions::default());
    let default = pipeline.compile_graph(graph(LAYER)).unwrap();
    assert_eq!(legacy.lir.fingerprint, default.lir.fingerprint);
}

/// A linear layer whose weight does not fit its input.
fn misfit() -> Module {
    let mut m = Module::graph("misfit");
    let x = m.input("x", f32s(&[4, 64]));
    let weight = Weight { name: "w".into(), ty: f32s(&[8, 65]) };
    let y = m.linear(x, LinearWeights { weight, bias: None }, "head");
    m.output("y", y);
    m
}

#[test]
fn fact_001_24_modules_that_cannot_be_lowered_are_errors() {
    let host = targets::host();
    let e = compile_hir_with_profile(&host, &misfit(), &CompileProfile::default()).unwrap_err();
    assert_eq!((e.code, e.at.as_str()), (Code::BadGraph, "head"));
    for preset in [Preset::SamEncoder, Preset::Sam3] {
        assert_eq!(compile_hir_preset(&host, &misfit(), preset).unwrap_err(), e);
    }
}

#[test]
fn fact_001_25_graphs_that_cannot_be_compiled_are_errors() {
    let mut g = graph(LAYER);
    g.nodes.reverse();
    let e = compile_graph_legacy(&targets::host(), g).unwrap_err();
    assert_eq!(e.code, Code::BadGraph);
}

#[test]
fn fact_001_26_a_configs_options_are_its_presets_on_its_own_device() {
    let dispatch = KernelDispatch { policy: DispatchPolicy::ForceCommon, ..Default::default() };
    let config = ModelExecutionConfig::decode(2, 30, 1)
        .with_preset(Preset::Qwen35Decode)
        .with_device("webgpu")
        .with_kernel_dispatch(dispatch.clone());
    let expected = CompileOptions {
        binding: Binding::from([(BATCH.into(), 2), (SEQ.into(), 1)]),
        ..CompileOptions::from_profile(&CompileProfile::qwen35_decode(), "webgpu", dispatch)
            .unwrap()
    };
    assert_eq!(options_for(&config), Ok(expected));
}

#[test]
fn fact_001_27_a_configs_options_on_another_device() {
    let config = ModelExecutionConfig::encoder(1, 16).with_device("webgpu");
    assert_eq!(options_for(&config).unwrap().fusion_target, FusionTarget::Wgpu);
    let here = options_for_device(&config, "hip").unwrap();
    assert_eq!(here.fusion_target, FusionTarget::Rocm);
    assert_eq!(here, options_for(&config.with_device("rocm")).unwrap());
}

#[test]
fn fact_001_28_a_built_model_is_compiled_once_and_its_weights_are_shared() {
    let builds = Cell::new(0);
    let build = || -> Result<GraphModule> {
        builds.set(builds.get() + 1);
        let text = LAYER.replace("<4x", "<SEQx");
        Ok(GraphModule::Mir(Box::new(graph(&text))))
    };
    let weight = |n: u64, seed| bytes(&numbers(n, seed));
    let params: Params = Arc::new(BTreeMap::from([
        ("norm".into(), weight(64, 1)),
        ("gate".into(), weight(96 * 64, 2)),
        ("up".into(), weight(96 * 64, 3)),
        ("down".into(), weight(64 * 96, 4)),
    ]));
    let mut cache = ModelCompilePipeline::new(targets::gpu());
    let mut compile = |seq: u64| {
        let config = ModelExecutionConfig::prefill(1, seq);
        compile_built_with_config(&mut cache, 1, &config, build, &params).unwrap()
    };
    let (two, five, again) = (compile(2), compile(5), compile(2));
    assert_eq!(builds.get(), 1);
    assert!(Arc::ptr_eq(&two.result().lir, &again.result().lir));
    assert!(Arc::ptr_eq(two.params(), five.params()), "one copy of the weights");
    // A clone is the same program, not a second compilation.
    let clone = five.clone();
    assert!(Arc::ptr_eq(&clone.result().lir, &five.result().lir));
    let (x, r) = (numbers(5 * 64, 8), numbers(5 * 64, 9));
    let run = |program: &Executable, rows: usize| {
        let (x, r) = (bytes(&x[..rows * 64]), bytes(&r[..rows * 64]));
        floats(&program.run_reference(&[("x", &x), ("r", &r)]).unwrap()[0].1)
    };
    assert_eq!(run(&five, 5), run(&clone, 5));
    // Rows do not meet each other in this graph: two rows alone are two rows of five.
    assert!(difference(&run(&two, 2), &run(&five, 5)[..2 * 64]) < 1e-6);
    // A weight that is not there is named, with what may have been meant.
    let mut fewer = (*params).clone();
    let gate = fewer.remove("gate").unwrap();
    fewer.insert("gaet".into(), gate);
    let e = Executable::new(two.result().clone(), Arc::new(fewer)).unwrap_err();
    assert_eq!(e.what, "weight gate is missing");
    assert_eq!(e.hint, "the nearest names: gaet");
}

#[test]
fn fact_001_29_targets_of_profiles_are_those_of_fusion() {
    assert_eq!(FusionTarget::Auto.explicit(), None);
    let explicit: Vec<FusionTarget> =
        FusionTarget::ALL.into_iter().filter_map(FusionTarget::explicit).collect();
    assert_eq!(explicit, FusionTarget::ALL[1..]);
}
