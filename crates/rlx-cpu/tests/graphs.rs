//! Block graphs of the presets' families (`tests/fixtures/graphs`), lowered under both policies, executed on
//! the device and compared with the reference's interpreter; and which of their steps have no kernel.
#![cfg(all(feature = "graphs", feature = "reference"))]

use crate::common;
use common::*;
use rlx_core::ir::hir::{FusionPolicy, Module};
use rlx_core::ir::mir::{Graph, ParamKind};
use rlx_core::ir::parse::parse_hir;
use rlx_core::lower::{ProgramSpec, lower, lower_module};
use rlx_core::ops::Class;
use rlx_core::passes::optimise;
use rlx_core::reference::interpret;
use rlx_core::runtime::device::Device;
use rlx_core::sample::Control;
use rlx_core::target::{CompileOptions, Path, Precision, PrecisionPolicy};
use rlx_core::types::{BATCH, Binding, DType, SEQ, Type};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

fn fixtures() -> Vec<(String, Module)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/graphs");
    let mut out: Vec<(String, Module)> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "hir"))
        .map(|path| {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            let text = std::fs::read_to_string(&path).unwrap();
            let module = parse_hir(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
            (name, module)
        })
        .collect();
    out.sort_by(|a, b| a.0.cmp(&b.0));
    out
}

/// The graphs of a module, symbols bound.
fn lowered(m: &Module) -> Vec<Graph> {
    if m.is_language_model() {
        let specs = [ProgramSpec::decode().with_logits(), ProgramSpec::verify(5, true)];
        return specs.iter().map(|spec| lower(m, spec, DType::F32).unwrap()).collect();
    }
    let g = lower_module(m, DType::F32).unwrap();
    let sizes = [(BATCH, 2), (SEQ, 5), ("T", 13)];
    let binding: Binding = sizes.into_iter().map(|(s, n)| (s.into(), n)).collect();
    vec![g.specialize(&m.name, &binding).unwrap()]
}

/// Every parameter: small floats by name, few ids, a control block in the middle.
fn params(g: &Graph) -> Vec<Value> {
    let value = |p: &rlx_core::ir::mir::Param| {
        let ty = g.ty(p.value).clone();
        let n = ty.shape.elements().unwrap() as usize;
        let mut random =
            Random(p.name.bytes().fold(17u64, |h, b| h.wrapping_mul(31).wrapping_add(b.into())));
        let words = |x: Vec<u32>| x.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>();
        let bytes = match (p.kind, ty.dtype) {
            _ if p.name == "ctl" => {
                let len = if g.name == "verify" { 5 } else { 1 };
                words(
                    Control { past: 6, len, capacity: 24, ..Control::default() }.to_words().into(),
                )
            }
            (ParamKind::State, DType::U32) => words(vec![0; n]),
            (_, DType::U32) => words((0..n).map(|_| (random.bits() % 2) as u32).collect()),
            _ => {
                // Norms and masks are positive: an eighth to one.
                let positive = p.name.contains("norm") || p.name == "mask";
                let x = random.floats(n).into_iter();
                let x = x.map(|x| if positive { 0.125 + 0.875 * x.abs() } else { x });
                x.flat_map(|x| x.to_le_bytes()).collect()
            }
        };
        let value = Value::new(ty, bytes);
        if p.kind == ParamKind::Weight { value.weight() } else { value }
    };
    g.params.iter().map(value).collect()
}

/// Names of operators of a graph that the device runs on the oracle's loops.
fn loops(device: &Arc<dyn Device>, g: &Graph, out: &mut BTreeSet<String>) {
    for node in &g.nodes {
        let types: Vec<&Type> = node.inputs.iter().map(|&v| g.ty(v)).collect();
        if device.target().path(&node.op, &types) == Ok(Path::Loops) {
            out.insert(node.op.name().into());
        }
    }
}

/// Runs a graph as the device's compiler has it. Operators on the oracle's loops are noted.
fn executed(
    device: &Arc<dyn Device>,
    g: &Graph,
    values: &[Value],
    options: &CompileOptions,
    what: &str,
    on_loops: &mut BTreeSet<String>,
) -> Vec<Vec<u8>> {
    let (optimised, _) =
        optimise(g.clone(), device.target(), options).unwrap_or_else(|e| panic!("{what}: {e}"));
    loops(device, &optimised, on_loops);
    // Passes may drop parameters and make others of them; their names stay.
    let named = |name: &str| {
        let at = g.params.iter().position(|p| p.name == name);
        values[at.unwrap_or_else(|| panic!("{what}: no {name}"))].clone()
    };
    let given: Vec<Value> = optimised.params.iter().map(|p| named(&p.name)).collect();
    outputs(device, &optimised, &given).unwrap_or_else(|e| panic!("{what}: {e}\n{optimised}"))
}

#[test]
fn block_graphs_execute_as_the_reference_interprets_them() {
    let mut without = BTreeMap::new();
    for (name, module) in fixtures() {
        let mut on_loops = BTreeSet::new();
        for policy in [FusionPolicy::Fusable, FusionPolicy::Direct] {
            for g in lowered(&module.clone().with_policy(policy)) {
                let at = format!("{name}, {}, {}", g.name, policy.name());
                let values = params(&g);
                let bytes: Vec<&[u8]> = values.iter().map(|v| v.bytes.as_slice()).collect();
                let expected =
                    interpret(&g, &bytes).unwrap_or_else(|e| panic!("{at}: {e}")).outputs;
                for device in devices() {
                    let what = format!("{at}, {}", device.info().adapter);
                    let options = CompileOptions::default();
                    let got = executed(&device, &g, &values, &options, &what, &mut on_loops);
                    for ((got, expected), o) in got.iter().zip(&expected).zip(&g.outputs) {
                        let what = format!("{what}, {}", o.name);
                        match g.ty(o.value).dtype {
                            DType::F32 => {
                                assert_close(&to_f32s(got), &to_f32s(expected), 2e-5, &what);
                            }
                            _ => assert_eq!(got, expected, "{what}"),
                        }
                    }
                }
            }
        }
        let on_loops: Vec<String> = on_loops.into_iter().collect();
        if !on_loops.is_empty() {
            without.insert(name, on_loops.join(" "));
        }
    }
    // What is here is slow: one thread, in f64.
    let known = [("qwen35", "gated_delta_net")];
    let known = known.map(|(name, operators)| (name.to_owned(), operators.to_owned()));
    assert_eq!(without, BTreeMap::from(known));
}

/// Halves between the operators, f32 within, by kernels and not by loops: results are the f32 graph's within some
/// of their roundoff, 2^-11 for f16 and 2^-8 for bf16, of two layers.
#[test]
fn every_precision_policy_runs() {
    let custom = [(Class::Compute, Precision::Bf16), (Class::Reduction, Precision::F16)];
    for (precision, tolerance) in [
        (PrecisionPolicy::AlwaysF32, 2e-5),
        (PrecisionPolicy::AlwaysF16, 1e-2),
        (PrecisionPolicy::AutoMixedConservative, 1e-2),
        (PrecisionPolicy::AutoMixed, 1e-2),
        (PrecisionPolicy::AutoMixedBf16, 6e-2),
        (PrecisionPolicy::Custom(custom.into()), 6e-2),
    ] {
        let options = CompileOptions { precision, ..CompileOptions::default() };
        for (name, module) in fixtures() {
            if !["bert", "nomic_bert", "sam_vit", "dit"].contains(&name.as_str()) {
                continue;
            }
            for g in lowered(&module.with_policy(FusionPolicy::Direct)) {
                let values = params(&g);
                let bytes: Vec<&[u8]> = values.iter().map(|v| v.bytes.as_slice()).collect();
                let expected = interpret(&g, &bytes).unwrap().outputs;
                for device in devices() {
                    let at = device.info().adapter;
                    let what = format!("{name}, {:?}, {at}", options.precision);
                    let mut on_loops = BTreeSet::new();
                    let got = executed(&device, &g, &values, &options, &what, &mut on_loops);
                    assert_eq!(on_loops, BTreeSet::new(), "{what}");
                    for (got, expected) in got.iter().zip(&expected) {
                        assert_close(&to_f32s(got), &to_f32s(expected), tolerance, &what);
                    }
                }
            }
        }
    }
}
