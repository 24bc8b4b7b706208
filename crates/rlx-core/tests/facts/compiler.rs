//! Group 004: the compile pipeline and its results.

use crate::facts::{LAYER, difference, f32s, graph, input_count, operators, run};
use crate::targets;
use rlx_core::Code;
use rlx_core::compile::{BindingManifest, CompilePipeline, CompileResult, target_among};
use rlx_core::ir::hir::{FfnWeights, LinearWeights, Module, Weight};
use rlx_core::ir::lir::{Phase, Program, Slice, Space};
use rlx_core::ir::mir::ParamKind;
use rlx_core::ir::verify::verify;
use rlx_core::ir::{GraphModule, Stage};
use rlx_core::ops::{Binary, Map, Unary, Zip};
use rlx_core::passes::{PassTrace, Watch};
use rlx_core::profile::{FusionPolicy, FusionTarget};
use rlx_core::target::{CompileOptions, DispatchPolicy, KernelDispatch, PrecisionPolicy, Target};
use rlx_core::types::{BATCH, Binding, SEQ};
use std::sync::Arc;

/// `x[BATCH, SEQ] w^T`, with `w` for contractions of `width`.
fn symbolic(width: u64) -> String {
    format!(
        "func @f {{
  input %x : tensor<BATCHxSEQxf32>
  weight %w : tensor<8x{width}xf32>
  %0 = matmul %x, %w -> tensor<BATCHx8xf32> // y
  return y = %0
}}
"
    )
}

fn bound(batch: u64, seq: u64) -> Binding {
    Binding::from([(BATCH.into(), batch), (SEQ.into(), seq)])
}

/// A feed-forward over rows of 64 whose number is a symbol.
fn rows() -> String {
    LAYER.replace("<4x", "<SEQx")
}

fn slices(program: &Program) -> impl Iterator<Item = &Slice> {
    program.steps.iter().flat_map(|s| s.operands.iter().chain(&s.results))
}

#[test]
fn fact_004_01_a_result_is_cloned_and_says_what_is_dynamic() {
    let result = CompilePipeline::new(targets::host()).compile_graph(graph(&rows())).unwrap();
    assert_eq!((result.has_dynamic_dims(), result.dynamic_symbols()), (true, vec!["SEQ".into()]));
    let clone: CompileResult = result.clone();
    assert!(Arc::ptr_eq(&clone.lir, &result.lir) && Arc::ptr_eq(&clone.fusion, &result.fusion));
    let fixed = CompilePipeline::new(targets::host()).compile_graph(graph(LAYER)).unwrap();
    assert_eq!((fixed.has_dynamic_dims(), fixed.dynamic_symbols()), (false, vec![]));
}

#[test]
fn fact_004_02_specialising_plans_again_and_keeps_the_report() {
    let pipeline = CompilePipeline::new(targets::host());
    let template = pipeline.compile_graph(graph(&rows())).unwrap();
    let binding = Binding::from([(SEQ.into(), 4)]);
    let four = template.specialize(&pipeline, &binding).unwrap();
    assert!(Arc::ptr_eq(&four.fusion, &template.fusion));
    let fixed = pipeline.compile_graph(graph(LAYER)).unwrap();
    assert_eq!(four.lir.arena_bytes, fixed.lir.arena_bytes);
    assert_eq!(four.lir.steps.len(), fixed.lir.steps.len());
    assert!(difference(&run(&fixed), &run(&four)) < 1e-6);
}

/// Passes that run again on their own result change no number.
#[test]
fn specialising_a_compiled_template_equals_compiling_the_bound_graph() {
    for precision in
        [PrecisionPolicy::AlwaysF32, PrecisionPolicy::AutoMixed, PrecisionPolicy::AutoMixedBf16]
    {
        let webgpu = targets::gpu().with_loops();
        for target in [Target::reference(), targets::host().with_loops(), webgpu] {
            let options = CompileOptions { precision: precision.clone(), ..Default::default() };
            let pipeline = CompilePipeline::new(target).with_options(options);
            let template = pipeline.compile_graph(graph(&rows())).unwrap();
            let late = template.specialize(&pipeline, &Binding::from([(SEQ.into(), 4)])).unwrap();
            let early = pipeline.compile_graph(graph(LAYER)).unwrap();
            let name = &pipeline.target.name;
            assert!(difference(&run(&early), &run(&late)) < 1e-6, "{name} {precision:?}");
            assert_eq!(early.lir.steps.len(), late.lir.steps.len(), "{name} {precision:?}");
        }
    }
}

#[test]
fn fact_004_03_the_default_pipeline_is_the_references() {
    let CompilePipeline { target, options, .. } = CompilePipeline::default();
    assert_eq!(target, Target::reference());
    assert_eq!(options, CompileOptions::default());
    assert_eq!((options.alignment, options.assert_clean), (64, false));
    assert_eq!((options.supported_ops, options.dispatch), (None, KernelDispatch::default()));
}

#[test]
fn fact_004_04_a_new_pipeline_follows_its_target() {
    for target in [targets::host(), Target::reference(), targets::gpu()] {
        let pipeline = CompilePipeline::new(target.clone());
        assert_eq!(pipeline.target, target);
        // What is the target's is asked of it, so that no copy goes stale.
        assert_eq!(pipeline.options.region_limits, None);
    }
}

#[test]
fn fact_004_05_builders_set_one_thing_each() {
    let dispatch = KernelDispatch { force_common: vec!["rms_norm".into()], ..Default::default() };
    let pipeline = CompilePipeline::new(targets::host())
        .with_assert_fusion_clean(true)
        .with_supported_ops(["matmul"])
        .with_kernel_dispatch(DispatchPolicy::ForceNative);
    let expected = CompileOptions {
        assert_clean: true,
        supported_ops: Some(vec!["matmul".into()]),
        dispatch: KernelDispatch { policy: DispatchPolicy::ForceNative, ..Default::default() },
        ..CompileOptions::default()
    };
    assert_eq!(pipeline.options, expected);
    let pipeline = pipeline.with_kernel_dispatch_config(dispatch.clone());
    assert_eq!(pipeline.options, CompileOptions { dispatch, ..expected });
}

fn linear(name: &str, out: u64, input: u64) -> LinearWeights {
    let weight = Weight { name: name.into(), ty: f32s(&[out, input]) };
    LinearWeights { weight, bias: None }
}

/// A SwiGLU feed-forward `[4, 768] -> 2048 -> 768`.
fn swiglu() -> Module {
    let mut m = Module::graph("ffn");
    let x = m.input("x", f32s(&[4, 768]));
    let weights = FfnWeights {
        gate: linear("gate", 2048, 768),
        up: linear("up", 2048, 768),
        down: linear("down", 768, 2048),
    };
    let y = m.swiglu_ffn(x, weights, "ffn");
    m.output("y", y);
    m
}

#[test]
fn fact_004_06_lowering_gives_verified_mir_or_an_error() {
    let pipeline = CompilePipeline::new(targets::host());
    verify(&pipeline.lower_hir(&swiglu()).unwrap()).unwrap();
    let mut m = Module::graph("misfit");
    let x = m.input("x", f32s(&[4, 64]));
    m.linear(x, linear("w", 8, 65), "head");
    assert_eq!(pipeline.lower_hir(&m).unwrap_err().at, "head");
}

#[test]
fn fact_004_07_preprocessing_lowers_control_flow_then_drops_the_dead() {
    let g = graph(
        "func @f {
  input %x : tensor<4xf32>
  input %p : tensor<bool>
  %0 = map %x {f = exp} -> tensor<4xf32> // dead
  %1 = if %p, %x -> tensor<4xf32> [ // choice
      func @then {
        input %a : tensor<4xf32>
        %0 = map %a {f = tanh} -> tensor<4xf32>
        return r = %0
      }
      func @else {
        input %a : tensor<4xf32>
        return r = %a
      }
    ]
  return y = %1
}
",
    );
    let g = CompilePipeline::new(targets::host()).preprocess_mir(g).unwrap();
    assert_eq!(operators(&g), ["map", "select"], "{g}");
}

#[test]
fn fact_004_08_without_a_claim_the_targets_own_decides() {
    let cpu = CompilePipeline::new(targets::host());
    assert_eq!(cpu.options.supported_ops, None);
    let fused = cpu.compile_graph(graph(LAYER)).unwrap();
    assert!(fused.fusion.count("glu") == 1 && fused.fusion.count("residual") == 1);
    let plain = CompilePipeline::new(Target::reference()).compile_graph(graph(LAYER)).unwrap();
    assert_eq!(plain.fusion.count("glu"), 0, "the reference gains from none");
}

#[test]
fn fact_004_09_messages_name_backends() {
    let names = ["cpu", "metal", "mlx", "wgpu", "cuda", "rocm", "tpu"];
    for name in names {
        let target = FusionTarget::from_name(name).unwrap();
        assert_eq!(target.name(), name);
        if let Err(e) = target_among(name, &targets::all()) {
            assert_eq!(e.what, format!("the backend {name} is not built in"));
        }
    }
}

#[test]
fn fact_004_10_optimising_reports_before_and_after() {
    let pipeline = CompilePipeline::new(targets::host());
    let (g, report) = pipeline.optimize_with_report(graph(LAYER)).unwrap();
    verify(&g).unwrap();
    assert_eq!(report.nodes, (graph(LAYER).nodes.len(), g.nodes.len()));
    assert!(report.nodes.1 < report.nodes.0);
    assert_eq!(pipeline.optimize(graph(LAYER)).unwrap(), g);
}

#[test]
fn fact_004_13_plans_are_aligned_as_asked() {
    let pipeline = CompilePipeline::new(targets::host());
    let g = pipeline.optimize(graph(LAYER)).unwrap();
    for alignment in [64, 256] {
        let options = CompileOptions { alignment, ..CompileOptions::default() };
        let program = pipeline.plan_lir_with_options(g.clone(), &options).unwrap();
        let mut arena = slices(&program).filter(|s| s.space == Space::Arena);
        assert!(arena.all(|s| s.offset.is_multiple_of(alignment)), "{program}");
    }
    let aligned = CompileOptions { alignment: 256, ..CompileOptions::default() };
    let by_options = pipeline.plan_lir_with_options(g.clone(), &aligned).unwrap();
    let own = pipeline.with_options(aligned).plan_lir(g).unwrap();
    assert_eq!(own, by_options);
}

#[test]
fn fact_004_14_binding_reaches_attributes_then_types_then_the_plan() {
    let pipeline = CompilePipeline::new(Target::reference());
    let text = "func @f {
  input %x : tensor<BATCHxSEQx8xf32>
  %0 = reshape %x {dims = [BATCH*SEQ, 8]} -> tensor<BATCH*SEQx8xf32> // rows
  %1 = concat %0, %0 {axis = 0} -> tensor<2*BATCH*SEQx8xf32> // twice
  %2 = map %1 {f = neg} -> tensor<2*BATCH*SEQx8xf32> // neg
  return y = %2
}
";
    let template = pipeline.compile_graph(graph(text)).unwrap();
    assert_eq!(template.dynamic_symbols(), ["BATCH", "SEQ"]);
    let fixed = template.specialize(&pipeline, &bound(2, 3)).unwrap();
    verify(fixed.graph()).unwrap();
    assert!(!fixed.has_dynamic_dims());
    assert_eq!(fixed.lir.outputs[0].slice.ty, f32s(&[12, 8]));
    let e = template.specialize(&pipeline, &Binding::from([("SEQS".into(), 3)])).unwrap_err();
    assert_eq!(e.what, "the graph has no symbol SEQS");
}

#[test]
fn fact_004_16_a_graph_is_compiled_as_mir_and_a_module_lowered_first() {
    let pipeline = CompilePipeline::new(targets::host());
    let (a, b) = (pipeline.compile_graph(graph(LAYER)), pipeline.compile_mir(graph(LAYER)));
    assert_eq!(a, b);
    let mir = pipeline.compile_mir(pipeline.lower_hir(&swiglu()).unwrap()).unwrap();
    assert_eq!(pipeline.compile_hir(&swiglu()).unwrap(), mir);
    // Every stage is text, and one compilation can be asked for all of it.
    let mut texts = Vec::new();
    let mut each = |trace: PassTrace| texts.push((trace.pass, trace.text));
    let mut watch = Watch { each: Some(&mut each), print_after: Some("glu"), ..Watch::default() };
    let done = pipeline.optimize_watched(graph(LAYER), &mut watch).unwrap();
    assert!(done.finished && texts.len() > 5);
    let of_glu: Vec<_> = texts.iter().filter(|t| t.1.is_some()).collect();
    assert_eq!(of_glu.len(), 1);
    assert!(of_glu[0].0 == "glu" && of_glu[0].1.as_ref().unwrap().starts_with("func @layer"));
    let module = GraphModule::from(swiglu());
    assert!(module.inspect().contains("swiglu_ffn"));
    assert!(GraphModule::Mir(Box::new(mir.graph().clone())).inspect().contains("func @ffn"));
    assert!(GraphModule::Lir(Box::new((*mir.lir).clone())).inspect().contains("matmul"));
}

#[test]
fn fact_004_17_a_compiled_module_is_returned_as_it_is() {
    let pipeline = CompilePipeline::new(targets::host());
    let result = pipeline.compile_graph(graph(LAYER)).unwrap();
    let lir = GraphModule::Lir(Box::new((*result.lir).clone()));
    let again = pipeline.compile_module(lir).unwrap();
    assert_eq!(again.lir, result.lir);
    assert_eq!(*again.fusion, rlx_core::passes::FusionReport::default());
}

#[test]
fn fact_004_19_a_plan_carries_views_phases_manifest_and_symbols() {
    let text = "func @f {
  input %x : tensor<2x3x8xf32>
  weight %w : tensor<4x8xf32>
  %0 = map %x {f = exp} -> tensor<2x3x8xf32> // exp
  %1 = reshape %0 {dims = [6, 8]} -> tensor<6x8xf32> // rows
  %2 = matmul %1, %w -> tensor<6x4xf32> // y
  return y = %2
}
";
    let result = CompilePipeline::new(Target::reference()).compile_graph(graph(text)).unwrap();
    let program = &result.lir;
    // A view is no step: the product reads the very bytes that the map wrote.
    assert_eq!(program.steps.len(), 2);
    let (made, read) = (&program.steps[0].results[0], &program.steps[1].operands[0]);
    assert_eq!((made.space, made.offset, made.bytes), (read.space, read.offset, read.bytes));
    assert!(program.steps.iter().all(|s| s.phase == Phase::Steady));
    assert_eq!(program.values_of(Phase::Prologue).len(), 2, "the parameters");
    assert_eq!(program.alignment, 64);
    let manifest = BindingManifest::of(program);
    let row = &manifest.inputs[0];
    assert_eq!((row.name.as_str(), row.elements, row.bytes), ("x", 48, 192));
    assert_eq!((manifest.weights[0].name.as_str(), manifest.weight_bytes), ("w", 128));
    assert_eq!((manifest.outputs[0].name.as_str(), manifest.outputs[0].is_view), ("y", false));
    assert!(result.dynamic_symbols().is_empty());
}

#[test]
fn fact_004_20_a_linear_layer_with_bias_is_one_fused_step() {
    let mut m = Module::graph("linear");
    let x = m.input("x", f32s(&[2, 128]));
    let bias = Some(Weight { name: "b".into(), ty: f32s(&[128]) });
    let y = m.linear(x, LinearWeights { bias, ..linear("w", 128, 128) }, "linear");
    m.output("y", y);
    let result = CompilePipeline::new(targets::host()).compile_hir(&m).unwrap();
    assert!(result.graph().nodes.len() <= 5);
    assert_eq!(result.lir.steps.len(), 1, "{}", result.lir);
    assert!(result.lir.arena_bytes > 0);
    assert!(result.lir.unshared_bytes - result.lir.arena_bytes <= result.lir.unshared_bytes);
}

#[test]
fn fact_004_21_direct_and_fusable_swiglu_compile_to_one_program() {
    let compile = |policy| {
        let options = CompileOptions { fusion_policy: Some(policy), ..CompileOptions::default() };
        CompilePipeline::new(targets::host()).with_options(options).compile_hir(&swiglu()).unwrap()
    };
    let (direct, fusable) = (compile(FusionPolicy::Direct), compile(FusionPolicy::Fusable));
    assert!(direct.fusion.missed.is_empty() && fusable.fusion.missed.is_empty());
    assert_eq!((direct.fusion.count("glu"), fusable.fusion.count("glu")), (0, 1));
    assert_eq!(operators(direct.graph()), operators(fusable.graph()));
    assert_eq!(direct.lir.steps.len(), 2);
}

#[test]
fn fact_004_22_a_defined_module_compiles() {
    let module = GraphModule::define("f", |m| {
        let x = m.input("x", f32s(&[4, 8]));
        let y = m.op(Map { f: Unary::Silu }, &[x], "silu");
        m.op(Zip { f: Binary::Mul }, &[y, x], "mul")
    });
    assert_eq!(module.stage(), Stage::Hir);
    let result = CompilePipeline::new(targets::host()).compile_module(module).unwrap();
    assert!(result.lir.arena_bytes > 0);
}

#[test]
fn fact_004_24_a_plan_has_phases_inputs_and_a_fingerprint_that_repeats() {
    let compile = || CompilePipeline::new(targets::host()).compile_graph(graph(LAYER)).unwrap();
    let (a, b) = (compile(), compile());
    assert_eq!(a.lir.fingerprint, b.lir.fingerprint);
    assert_ne!(a.lir.fingerprint, 0);
    assert_eq!(input_count(a.graph()), 2);
    assert_eq!(a.lir.inputs.len(), 2);
    // Inputs are no steps: they are in place before the first, which is steady.
    assert!(slices(&a.lir).any(|s| s.space == Space::Input));
    assert_eq!(a.lir.steps[0].phase, Phase::Steady);
    let prologue = a.lir.values_of(Phase::Prologue);
    let mut params = a.graph().params.iter().filter(|p| p.kind == ParamKind::Input);
    assert!(params.all(|p| prologue.contains(&p.value)));
    assert_eq!(a.lir.alignment, 64);
    let mut arena = slices(&a.lir).filter(|s| s.space == Space::Arena);
    assert!(arena.all(|s| s.offset.is_multiple_of(64)));
    // Options are part of what is hashed.
    let other = CompileOptions { alignment: 256, ..CompileOptions::default() };
    let other = CompilePipeline::new(targets::host())
        .with_options(other)
        .compile_graph(graph(LAYER))
        .unwrap();
    assert_ne!(a.lir.fingerprint, other.lir.fingerprint);
}

#[test]
fn fact_004_25_a_binding_that_contradicts_a_weight_is_an_error_and_one_that_fits_a_plan() {
    let pipeline = CompilePipeline::new(targets::host());
    let compile = |width| pipeline.compile_graph(graph(&symbolic(width))).unwrap();
    let template = compile(4);
    assert!(template.has_dynamic_dims());
    assert_eq!(template.dynamic_symbols(), ["BATCH", "SEQ"]);
    let e = template.specialize(&pipeline, &bound(2, 16)).unwrap_err();
    assert_eq!((e.code, e.at.as_str()), (Code::BadGraph, "y"));
    assert!(e.what.contains("tensor<8x4xf32>") && e.what.contains("tensor<2x16xf32>"), "{e}");
    let fixed = compile(16).specialize(&pipeline, &bound(2, 16)).unwrap();
    assert!(!fixed.has_dynamic_dims() && fixed.lir.arena_bytes > 0);
}

#[test]
fn fact_004_18_the_planners_result_is_the_program() {
    let pipeline = CompilePipeline::new(targets::host());
    let result = pipeline.compile_graph(graph(LAYER)).unwrap();
    let again = pipeline.plan_lir(result.graph().clone()).unwrap();
    let places = |p: &Program| -> Vec<(Space, u32, u64, u64)> {
        slices(p).map(|s| (s.space, s.index, s.offset, s.bytes)).collect()
    };
    assert_eq!(places(&again), places(&result.lir));
    assert_eq!(
        (again.arena_bytes, again.steps.len()),
        (result.lir.arena_bytes, result.lir.steps.len())
    );
    // Offsets and sizes are within the arena they were planned for.
    let mut arena = slices(&again).filter(|s| s.space == Space::Arena);
    assert!(arena.all(|s| s.offset + s.bytes <= again.arena_bytes));
}
