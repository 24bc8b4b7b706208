//! Legalisation, kernel dispatch and the reports, as a caller sees them. Tests that stand for facts
//! are named by them.
#![cfg(all(feature = "reference", feature = "parse"))]

use crate::targets;
use rlx_core::Code;
use rlx_core::error::Result;
use rlx_core::ir::mir::{Graph, ParamKind};
use rlx_core::ir::verify::verify;
use rlx_core::ops::{
    Attr, Attrs, Binary, Custom, CustomOperator, Emit, Map, MatMul, RmsNorm, Unary, Zip,
};
use rlx_core::passes::{
    PassTrace, Route, Watch, dispatch_report, optimise, optimise_watched, pass_names,
};
use rlx_core::safetensors::json::Json;
use rlx_core::target::{CompileOptions, DispatchPolicy, KernelDispatch, Path, Target};
use rlx_core::types::{DType, Shape, Type, ValueId};
use std::sync::Arc;

/// `2 x`, by two sums that are `x + x`: a user's operator with parts.
#[derive(Debug)]
struct Twice {
    /// How many of its own kind it stands for.
    depth: i64,
    parts: bool,
}

impl CustomOperator for Twice {
    fn name(&self) -> &str {
        "twice"
    }

    fn attrs(&self) -> Attrs {
        Attrs::none().with("depth", Attr::Int(self.depth))
    }

    fn infer(&self, operands: &[&Type]) -> Result<Vec<Type>> {
        Ok(vec![operands[0].clone()])
    }

    fn run(&self, operands: &[(&Type, &[u8])]) -> Result<Vec<Vec<u8>>> {
        let twice = |b: &[u8; 4]| (2.0 * f32::from_le_bytes(*b)).to_le_bytes();
        Ok(vec![operands[0].1.as_chunks::<4>().0.iter().flat_map(twice).collect()])
    }

    fn decompose(&self, e: &mut dyn Emit, operands: &[ValueId]) -> Result<Option<Vec<ValueId>>> {
        let x = operands[0];
        if !self.parts {
            return Ok(None);
        }
        Ok(Some(match self.depth {
            0 => vec![e.one(Zip { f: Binary::Add }, &[x, x])?],
            n => {
                let inner = Twice { depth: n.min(40) - 1, parts: true };
                let inner = if n == 99 { Twice { depth: 99, parts: true } } else { inner };
                vec![e.one(Custom(Arc::new(inner)), &[x])?]
            }
        }))
    }
}

fn f32s(dims: &[u64]) -> Type {
    Type::tensor(DType::F32, Shape::of(dims))
}

/// `silu(rms_norm(x) w)`.
fn graph() -> Graph {
    let mut g = Graph::new("f");
    let x = g.param(ParamKind::Input, "x", f32s(&[2, 8]));
    let n = g.param(ParamKind::Weight, "n", f32s(&[8]));
    let w = g.param(ParamKind::Weight, "w", f32s(&[4, 8]));
    let x = g.push1(RmsNorm { eps: 1e-5 }, &[x, n], "norm").unwrap();
    let y = g.push1(MatMul::plain(), &[x, w], "proj").unwrap();
    let y = g.push1(Map { f: Unary::Silu }, &[y], "act").unwrap();
    g.output("y", y);
    g
}

fn custom(depth: i64, parts: bool) -> Graph {
    let mut g = Graph::new("f");
    let x = g.param(ParamKind::Input, "x", f32s(&[2, 8]));
    let y = g.push1(Custom(Arc::new(Twice { depth, parts })), &[x], "blk.0.double").unwrap();
    let y = g.push1(Map { f: Unary::Exp }, &[y], "act").unwrap();
    g.output("y", y);
    g
}

fn plain() -> CompileOptions {
    CompileOptions { skip_fusion: true, ..CompileOptions::default() }
}

fn names(ops: &[&str]) -> Option<Vec<String>> {
    Some(ops.iter().map(|s| s.to_string()).collect())
}

#[test]
fn fact_004_11_without_a_claim_or_a_force_nothing_changes() {
    for g in [graph(), custom(0, true)] {
        // The reference claims everything; an empty list of names is no claim either.
        let empty = CompileOptions { supported_ops: names(&[]), ..plain() };
        for (target, options) in [(Target::reference(), plain()), (targets::host(), empty)] {
            let (after, report) = optimise(g.clone(), &target, &options).unwrap();
            assert_eq!(after, g);
            assert_eq!(report.count("legalise"), 0);
        }
    }
}

#[test]
fn fact_004_11_without_a_claim_forced_kinds_are_lowered_and_no_others() {
    let dispatch = KernelDispatch { force_common: vec!["twice".into()], ..Default::default() };
    let options = CompileOptions { dispatch, ..plain() };
    let (after, _) = optimise(custom(0, true), &Target::reference(), &options).unwrap();
    let ops: Vec<&str> = after.nodes.iter().map(|n| n.op.name()).collect();
    assert_eq!(ops, ["zip", "map"]);
    assert_eq!(after.nodes[0].label, "blk.0.double/zip");
}

#[test]
fn fact_004_12_with_a_claim_every_kind_is_rewritten_or_named() {
    let options = CompileOptions { supported_ops: names(&["zip", "map"]), ..plain() };
    assert!(optimise(custom(3, true), &Target::reference(), &options).is_ok());
    let options = CompileOptions { supported_ops: names(&["zip"]), ..plain() };
    let e = optimise(custom(3, false), &Target::reference(), &options).unwrap_err();
    assert_eq!(e.code, Code::Unsupported);
    for part in ["2 operators", "blk.0.double: twice", "act: map", "tensor<2x8xf32>", "nothing it"]
    {
        assert!(e.what.contains(part), "{part}: {}", e.what);
    }
}

#[test]
fn fact_004_12_a_part_that_is_missing_names_what_it_is_a_part_of() {
    let options = CompileOptions { supported_ops: names(&["map"]), ..plain() };
    let e = optimise(custom(2, true), &targets::host(), &options).unwrap_err();
    assert!(e.what.contains("it is a part of twice"), "{}", e.what);
    assert!(e.what.contains("blk.0.double/twice/twice/zip"), "{}", e.what);
}

#[test]
fn an_operator_that_is_a_part_of_itself_is_an_error() {
    let e = optimise(custom(99, true), &targets::host(), &plain()).unwrap_err();
    assert_eq!(e.code, Code::BadGraph);
    assert!(e.what.contains("16 rounds"), "{}", e.what);
}

#[test]
fn a_native_kind_wins_over_the_same_common_kind() {
    let dispatch = KernelDispatch {
        policy: DispatchPolicy::ForceCommon,
        force_common: vec!["twice".into()],
        force_native: vec!["twice".into()],
    };
    let options = CompileOptions { dispatch, ..plain() };
    let (after, _) = optimise(custom(0, true), &Target::reference(), &options).unwrap();
    assert_eq!(after.nodes[0].op.name(), "twice");
    // Native means a kernel: without one it is an error, parts or no parts.
    let e = optimise(custom(0, true), &targets::host(), &options).unwrap_err();
    assert!(e.what.contains("the options ask for a kernel"), "{}", e.what);
}

#[test]
fn force_common_decomposes_what_has_a_kernel_too() {
    let dispatch = KernelDispatch { policy: DispatchPolicy::ForceCommon, ..Default::default() };
    let options = CompileOptions { dispatch, ..plain() };
    let (after, _) = optimise(custom(2, true), &Target::reference(), &options).unwrap();
    assert!(after.nodes.iter().all(|n| n.op.name() != "twice"));
    verify(&after).unwrap();
}

#[test]
fn the_dispatch_report_says_how_each_kind_runs() {
    let report = dispatch_report(custom(1, true), &targets::host(), &plain()).unwrap();
    assert!(report.compile_ready());
    assert_eq!(report.backend, "cpu");
    assert_eq!(report.claim, Some(targets::host().kernels().len()));
    let rows: Vec<(&str, usize, Route)> =
        report.kinds.iter().map(|k| (k.kind.as_str(), k.nodes, k.route)).collect();
    assert_eq!(rows, [("twice", 1, Route::Common), ("map", 1, Route::Claimed(Path::Native))]);
    assert_eq!(report.common(), ["twice"]);
    let text = report.to_string();
    assert!(text.contains("it has no kernel"), "{text}");
    let json = Json::parse(report.json().as_bytes(), "report", 0).unwrap();
    assert_eq!(json.get("compile_ready").and_then(Json::as_bool), Some(true));
    assert_eq!(json.get("policy").and_then(Json::as_str), Some("prefer_native"));
    assert_eq!(json.get("kinds").and_then(Json::as_array).map(<[_]>::len), Some(2));
}

#[test]
fn the_dispatch_report_lists_what_does_not_run() {
    let report = dispatch_report(custom(0, false), &targets::host(), &plain()).unwrap();
    assert!(!report.compile_ready());
    assert_eq!(report.unsupported[0].node, "blk.0.double");
    assert_eq!(report.kinds.last().unwrap().route, Route::Unsupported);
    let json = Json::parse(report.json().as_bytes(), "report", 0).unwrap();
    let left = json.get("unsupported").and_then(Json::as_array).unwrap();
    assert_eq!(left[0].get("kind").and_then(Json::as_str), Some("twice"));
    // The native CPU executor runs references where it has no kernel.
    let report =
        dispatch_report(custom(0, false), &targets::host().with_loops(), &plain()).unwrap();
    assert!(report.compile_ready());
    assert_eq!(report.claim, None);
    assert_eq!(report.kinds[0].route, Route::Claimed(Path::Loops));
    // But parts that have kernels come before loops.
    let report = dispatch_report(custom(1, true), &targets::host().with_loops(), &plain()).unwrap();
    assert_eq!(report.common(), ["twice"]);
    assert!(report.to_string().contains("it has no kernel, and its parts have"), "{report}");
}

#[test]
fn a_fusion_report_counts_launches_bytes_and_time() {
    let target = targets::gpu();
    let (_, report) = optimise(graph(), &target, &CompileOptions::default()).unwrap();
    let (before, after) = report.traffic.unwrap();
    // x and its norm, the norm and its product, the product and its activation; both weights once.
    let [x, y, n, w] = [64, 32, 32, 128];
    assert_eq!((before.launches, before.bytes), (3, (x + n + x) + (x + w + y) + (y + y)));
    assert_eq!((after.launches, after.bytes), (2, (x + n + x) + (x + w + y)));
    assert!(after.time_us < before.time_us);
    assert_eq!(report.count("matmul_map"), 1);
    let text = report.to_string();
    assert!(text.contains("launches") && text.contains("0 missed"), "{text}");
    let json = Json::parse(report.json().as_bytes(), "report", 0).unwrap();
    let launches = |when| json.get("traffic")?.get(when)?.get("launches")?.as_u64();
    assert_eq!((launches("before"), launches("after")), (Some(3), Some(2)));
}

/// A product whose bias and whose bare form are both read.
fn missed() -> Graph {
    let mut g = Graph::new("f");
    let x = g.param(ParamKind::Input, "x", f32s(&[2, 8]));
    let w = g.param(ParamKind::Weight, "w", f32s(&[4, 8]));
    let b = g.param(ParamKind::Weight, "b", f32s(&[4]));
    let t = g.push1(MatMul::plain(), &[x, w], "proj").unwrap();
    let y = g.push1(Zip { f: Binary::Add }, &[t, b], "bias").unwrap();
    let y = g.push1(Zip { f: Binary::Mul }, &[y, t], "gated").unwrap();
    g.output("y", y);
    g
}

#[test]
fn fact_004_15_assert_clean_fails_with_the_number_of_misses_and_each_of_them() {
    let options = CompileOptions { assert_clean: true, ..CompileOptions::default() };
    let e = optimise(missed(), &targets::host(), &options).unwrap_err();
    assert_eq!(e.code, Code::Unsupported);
    assert!(e.what.starts_with("1 fusions were missed: matmul_bias at bias: MultiConsumer"));
    assert!(optimise(missed(), &targets::host(), &CompileOptions::default()).is_ok());
    assert!(optimise(graph(), &targets::host(), &options).is_ok());
    // No fusion is asked for, so none is missed.
    let options = CompileOptions { skip_fusion: true, ..options };
    assert!(optimise(missed(), &targets::host(), &options).is_ok());
}

#[test]
fn options_leave_passes_out() {
    let (_, report) = optimise(graph(), &targets::host(), &plain()).unwrap();
    assert_eq!(report.count("matmul_map"), 0);
    let without = CompileOptions { without: vec!["matmul_map".into()], ..Default::default() };
    let (g, report) = optimise(graph(), &targets::host(), &without).unwrap();
    assert_eq!((report.count("matmul_map"), g.nodes.len()), (0, 3));
    let mut dead = graph();
    let x = dead.params[0].value;
    dead.push1(Map { f: Unary::Exp }, &[x], "unused").unwrap();
    let keep = CompileOptions { dce: false, ..plain() };
    assert_eq!(optimise(dead.clone(), &targets::host(), &keep).unwrap().0.nodes.len(), 4);
    assert_eq!(optimise(dead, &targets::host(), &plain()).unwrap().0.nodes.len(), 3);
}

#[test]
fn an_unknown_pass_is_an_error_with_the_nearest_name() {
    let options = CompileOptions { without: vec!["segment".into()], ..Default::default() };
    let e = optimise(graph(), &targets::host(), &options).unwrap_err();
    assert_eq!((e.code, e.what.as_str()), (Code::Usage, "there is no pass segment"));
    assert!(e.hint.contains("segments"), "{}", e.hint);
    for watch in [
        Watch { stop_after: Some("legalize"), ..Watch::default() },
        Watch { print_after: Some("legalize"), ..Watch::default() },
    ] {
        let mut watch = watch;
        let e = optimise_watched(graph(), &targets::host(), &CompileOptions::default(), &mut watch)
            .unwrap_err();
        assert!(e.hint.contains("legalise"), "{}", e.hint);
    }
}

#[test]
fn a_watch_sees_every_pass_with_its_changes_time_and_text() {
    let mut seen: Vec<PassTrace> = Vec::new();
    let ticks = std::cell::Cell::new(0.0);
    let clock = || {
        ticks.set(ticks.get() + 0.5);
        ticks.get()
    };
    let mut each = |trace: PassTrace| seen.push(trace);
    let mut watch = Watch {
        each: Some(&mut each),
        clock: Some(&clock),
        print_after: Some("matmul_map"),
        stop_after: None,
    };
    let target = targets::host();
    let done = optimise_watched(graph(), &target, &CompileOptions::default(), &mut watch).unwrap();
    assert!(done.finished);
    assert!(seen.iter().all(|t| t.ms == Some(0.5)), "one tick from start to end");
    let map = seen.iter().find(|t| t.pass == "matmul_map").unwrap();
    assert_eq!((map.changes, map.nodes), (1, 2));
    assert!(map.text.as_ref().unwrap().contains("map = silu"));
    assert_eq!(seen.iter().filter(|t| t.text.is_some()).count(), 1);
    assert!(seen.iter().all(|t| pass_names().contains(&t.pass)));
}

#[test]
fn a_watch_stops_after_a_pass() {
    let mut watch = Watch { stop_after: Some("glu"), ..Watch::default() };
    let target = targets::host();
    let done = optimise_watched(graph(), &target, &CompileOptions::default(), &mut watch).unwrap();
    assert!(!done.finished);
    assert_eq!(done.graph.nodes.len(), 3, "the activation is still a step of its own");
}
