//! Group 002: devices, targets and the stages of a compilation.

use crate::facts::{LAYER, difference, f32s, graph, operators, run};
use crate::targets;
use rlx_core::Code;
use rlx_core::compile::{CompilePipeline, target_among};
use rlx_core::ir::GraphModule;
use rlx_core::ir::hir::{LinearWeights, Module, Weight};
use rlx_core::ir::lir::Space;
use rlx_core::profile::{CompileProfile, FusionTarget};
use rlx_core::target::{CompileOptions, DispatchPolicy, KernelDispatch, RegionLimits, Target};
use rlx_core::types::{Binding, SEQ};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// A chain of elementwise operators that no matmul takes.
const CHAIN: &str = "func @chain {
  input %x : tensor<SEQx8xf32>
  %0 = map %x {f = exp} -> tensor<SEQx8xf32> // a
  %1 = map %0 {f = tanh} -> tensor<SEQx8xf32> // b
  %2 = zip %1, %x {f = mul} -> tensor<SEQx8xf32> // c
  %3 = map %2 {f = sigmoid} -> tensor<SEQx8xf32> // d
  return y = %3
}
";

fn seq(n: u64) -> CompileOptions {
    CompileOptions::dynamic(Binding::from([(SEQ.into(), n)]))
}

#[test]
fn fact_002_01_device_strings_have_a_target_or_are_an_error() {
    let rows = [
        ("cpu", FusionTarget::Cpu),
        ("metal", FusionTarget::Metal),
        ("mps", FusionTarget::Metal),
        ("mlx", FusionTarget::Mlx),
        ("cuda", FusionTarget::Cuda),
        ("rocm", FusionTarget::Rocm),
        ("hip", FusionTarget::Rocm),
        ("tpu", FusionTarget::Tpu),
        ("gpu", FusionTarget::Wgpu),
        ("wgpu", FusionTarget::Wgpu),
        ("vulkan", FusionTarget::Wgpu),
        ("webgpu", FusionTarget::Wgpu),
    ];
    for (device, target) in rows {
        assert_eq!(FusionTarget::of_device(device), Ok(target), "{device}");
    }
    let e = FusionTarget::of_device("coreml").unwrap_err();
    assert_eq!((e.code, e.what.as_str()), (Code::Usage, "unknown device `coreml`"));
    for (device, _) in rows {
        assert!(e.hint.contains(device), "{}", e.hint);
    }
}

#[test]
fn fact_002_02_an_explicit_target_wins_over_the_devices() {
    let on = |device, fusion_target| {
        let options = CompileOptions { fusion_target, ..CompileOptions::default() };
        CompilePipeline::for_device(device, options, &targets::all()).map(|p| p.target)
    };
    assert_eq!(on("cpu", FusionTarget::Auto), Ok(targets::host()));
    assert_eq!(on("cpu", FusionTarget::Wgpu), Ok(targets::gpu()));
    assert_eq!(target_among("webgpu", &targets::all()), Ok(targets::gpu()));
    assert_eq!(on("webgpu", FusionTarget::Cpu), Ok(targets::host()));
    // The device's own description stays where the backend is the same.
    let limited = on("webgpu binding=4096", FusionTarget::Wgpu).unwrap();
    assert_eq!(limited.limits.binding, 4096);
    assert_eq!(on("reference", FusionTarget::Cpu), Ok(Target::reference()));
    assert_eq!(on("cpu", FusionTarget::Tpu).unwrap_err().code, Code::DeviceUnavailable);
}

#[test]
fn fact_002_03_regions_stay_fused_on_the_cpu_too() {
    let options = CompileOptions::from_profile(
        &CompileProfile::default(),
        "reference",
        KernelDispatch::default(),
    );
    let options = CompileOptions { binding: seq(3).binding, ..options.unwrap() };
    assert_eq!((options.fusion_target, options.unfuse_regions), (FusionTarget::Cpu, false));
    let fused = CompilePipeline::for_device("reference", options.clone(), &targets::all()).unwrap();
    let fused = fused.compile_graph(graph(CHAIN)).unwrap();
    assert_eq!(operators(fused.graph()), ["elementwise_region"]);
    let options = CompileOptions { unfuse_regions: true, ..options };
    let plain = CompilePipeline::for_device("reference", options, &targets::all()).unwrap();
    let plain = plain.compile_graph(graph(CHAIN)).unwrap();
    assert_eq!(plain.lir.steps.len(), 4);
    assert!(difference(&run(&plain), &run(&fused)) < 1e-6);
}

#[test]
fn fact_002_04_no_option_comes_from_the_environment() {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    let (mut files, mut wrong) = (0, Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            if path.extension().is_none_or(|e| e != "rs") || path.ends_with("testing.rs") {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]\nmod tests").next().unwrap();
            files += 1;
            if code.contains("env::var") || code.contains("option_env!") {
                wrong.push(path);
            }
        }
    }
    assert!(files > 100, "the sources are there");
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn fact_002_05_regions_have_the_targets_limits_unless_the_options_say() {
    let nodes = |region_limits| {
        let options = CompileOptions { region_limits, ..seq(3) };
        let pipeline = CompilePipeline::new(Target::reference()).with_options(options);
        pipeline.compile_graph(graph(CHAIN)).unwrap().lir.steps.len()
    };
    assert_eq!(nodes(None), 1, "the reference has no limit");
    assert_eq!(nodes(Some(RegionLimits { steps: 2, inputs: 4 })), 2);
    assert_eq!(nodes(Some(RegionLimits { steps: 1, inputs: 4 })), 4);
}

#[test]
fn fact_002_06_a_pipeline_has_the_options_alignment_cleanness_and_dispatch() {
    let options = CompileOptions {
        alignment: 256,
        assert_clean: true,
        dispatch: KernelDispatch { policy: DispatchPolicy::ForceCommon, ..Default::default() },
        ..CompileOptions::default()
    };
    let pipeline = CompilePipeline::for_device("cpu", options.clone(), &targets::all()).unwrap();
    assert_eq!(pipeline.options, options);
}

#[test]
fn fact_002_07_the_options_claim_comes_before_the_targets() {
    let cpu = CompilePipeline::new(targets::host()).with_options(seq(2));
    assert!(cpu.compile_graph(graph(CHAIN)).is_ok(), "the target's own claim");
    let e = cpu.clone().with_supported_ops(["matmul"]).compile_graph(graph(CHAIN)).unwrap_err();
    assert_eq!(e.code, Code::Unsupported);
    let e = e.to_string();
    assert!(e.contains("map") && e.contains("zip"), "all that is missing: {e}");
}

#[test]
fn fact_002_08_options_with_a_claim_are_a_copy() {
    let options = CompileOptions::default();
    let claiming = options.with_supported_ops(["matmul", "map"]);
    assert_eq!(options, CompileOptions::default());
    assert_eq!(claiming.supported_ops, Some(vec!["matmul".into(), "map".into()]));
    assert_eq!(CompileOptions { supported_ops: None, ..claiming }, options);
}

#[test]
fn fact_002_09_a_graph_is_specialised_only_where_a_binding_is_set() {
    let open = CompilePipeline::new(targets::host()).compile_graph(graph(CHAIN)).unwrap();
    assert_eq!(open.dynamic_symbols(), ["SEQ"]);
    assert!(open.has_dynamic_dims() && open.lir.steps.is_empty());
    let bound = CompilePipeline::new(targets::host())
        .with_options(seq(5))
        .compile_graph(graph(CHAIN))
        .unwrap();
    assert!(!bound.has_dynamic_dims() && !bound.lir.steps.is_empty());
    assert_eq!(bound.lir.inputs[0].bytes, 5 * 8 * 4);
}

#[test]
fn fact_002_10_an_explicit_claim_decides_what_is_decomposed() {
    let text = LAYER;
    let plain = CompilePipeline::new(Target::reference());
    let native = plain.compile_graph(graph(text)).unwrap();
    assert!(operators(native.graph()).contains(&"rms_norm"));
    let without = rlx_core::ops::Op::NAMES.iter().copied().filter(|n| *n != "rms_norm");
    let common = plain.with_supported_ops(without).compile_graph(graph(text)).unwrap();
    assert!(!operators(common.graph()).contains(&"rms_norm"), "{}", common.graph());
    assert!(difference(&run(&native), &run(&common)) < 1e-5);
}

fn linear(width: u64) -> Module {
    let mut m = Module::graph("linear");
    let x = m.input("x", f32s(&[4, 64]));
    let weight = Weight { name: "w".into(), ty: f32s(&[8, width]) };
    let y = m.linear(x, LinearWeights { weight, bias: None }, "head");
    m.output("y", y);
    m
}

#[test]
fn fact_002_11_a_module_compiles_from_any_stage_or_is_an_error() {
    let pipeline = CompilePipeline::new(targets::host());
    let e = pipeline.compile_hir(&linear(65)).unwrap_err();
    assert_eq!((e.code, e.at.as_str()), (Code::BadGraph, "head"));
    assert_eq!(pipeline.compile_module(linear(65).into()).unwrap_err(), e);
    let hir = pipeline.compile_module(linear(64).into()).unwrap();
    let mir = GraphModule::Mir(Box::new(pipeline.lower_hir(&linear(64)).unwrap()));
    let mir = pipeline.compile_module(mir).unwrap();
    assert_eq!(hir.lir.fingerprint, mir.lir.fingerprint);
    let lir = pipeline.compile_module(GraphModule::Lir(Box::new((*mir.lir).clone()))).unwrap();
    assert_eq!(lir.lir, mir.lir);
}

#[test]
fn fact_002_12_who_asks_is_told_what_fused_and_nobody_else() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let sink = told.clone();
    let pipeline = CompilePipeline::new(targets::host())
        .on_fusion_report(Arc::new(move |r| sink.lock().unwrap().push(r.clone())));
    let result = pipeline.compile_graph(graph(LAYER)).unwrap();
    assert_eq!(*told.lock().unwrap(), [(*result.fusion).clone()]);
    assert!(!CompileOptions::default().verbose);
}

#[test]
fn fact_002_13_a_programs_graph_can_be_planned_again() {
    let pipeline = CompilePipeline::new(targets::host());
    let result = pipeline.compile_graph(graph(LAYER)).unwrap();
    let again = pipeline.plan_lir(result.graph().clone()).unwrap();
    assert_eq!(again, *result.lir);
    assert!(again.steps.iter().flat_map(|s| &s.results).any(|s| s.space == Space::Arena));
}
