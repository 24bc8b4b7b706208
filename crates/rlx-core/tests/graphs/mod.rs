//! Block graphs of the presets' families (`tests/fixtures/graphs`): lowered under both policies,
//! optimised for every target, planned, replayed. What comes out is what the graph as written gives.
#![cfg(all(feature = "reference", feature = "parse", feature = "vision"))]

use crate::common::execute;
use crate::targets;

use execute::{Data, Outcome, interpreted, largest_live_slots, planned, replayed};
use rlx_core::Code;
use rlx_core::ir::hir::{FusionPolicy, Module};
use rlx_core::ir::mir::{Graph, ParamKind};
use rlx_core::ir::parse::{parse, parse_hir, parse_lir};
use rlx_core::ir::verify::verify;
use rlx_core::lower::{ProgramSpec, lower, lower_module};
use rlx_core::passes::optimise;
use rlx_core::sample::Control;
use rlx_core::target::{CompileOptions, Target};
use rlx_core::types::{BATCH, Binding, DType, SEQ};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Ids that every table of the fixtures has.
const IDS: u64 = 2;

fn fixtures() -> Vec<(String, String)> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/graphs"));
    let mut out: Vec<(String, String)> = std::fs::read_dir(&folder)
        .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "hir"))
        .map(|path| {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            (name, std::fs::read_to_string(path).unwrap())
        })
        .collect();
    out.sort();
    out
}

/// The graphs of a module, symbols bound.
fn lowered(m: &Module) -> Vec<Graph> {
    if m.is_language_model() {
        let specs = [
            ProgramSpec::decode().with_logits(),
            ProgramSpec::prefill(4),
            ProgramSpec::prefill_last(3).with_logits(),
            ProgramSpec::verify(5, true),
        ];
        return specs.iter().map(|spec| lower(m, spec, DType::F32).unwrap()).collect();
    }
    let g = lower_module(m, DType::F32).unwrap_or_else(|e| panic!("{}: {e}", m.name));
    let sizes = [(BATCH, 2), (SEQ, 5), ("T", 13)];
    let binding: Binding = sizes.into_iter().map(|(s, n)| (s.into(), n)).collect();
    vec![g.specialize(&m.name, &binding).unwrap_or_else(|e| panic!("{}: {e}", m.name))]
}

/// Bytes of every parameter: small floats by name, few ids, a control block in the middle.
fn data(g: &Graph) -> Data {
    let mut out = Data::new();
    for p in &g.params {
        let ty = g.ty(p.value);
        let mut seed = p.name.bytes().fold(17u64, |h, b| h.wrapping_mul(31).wrapping_add(b.into()));
        let mut next = || {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            seed >> 33
        };
        let n = ty.shape.elements().unwrap();
        let bytes: Vec<u8> = match p.name.as_str() {
            "ctl" => {
                // Chunks have a row more than they need; all of a check's are read back.
                let len = match g.name.as_str() {
                    "decode_logits" => 1,
                    "verify" => 5,
                    _ => 2,
                };
                let ctl = Control { past: 6, len, capacity: 24, ..Control::default() };
                ctl.to_words().iter().flat_map(|w| w.to_le_bytes()).collect()
            }
            _ if p.kind == ParamKind::State && ty.dtype == DType::U32 => vec![0; 4 * n as usize],
            _ if ty.dtype == DType::U32 => {
                (0..n).flat_map(|_| ((next() % IDS) as u32).to_le_bytes()).collect()
            }
            _ => {
                assert_eq!(ty.dtype, DType::F32, "{}", p.name);
                // Norms and masks are positive: an eighth to one.
                let low = if p.name.contains("norm") || p.name == "mask" { 0.125 } else { -1.0 };
                let float = |x: u64| low + (1.0 - low) * (x % 4096) as f32 / 4096.0;
                (0..n).flat_map(|_| float(next()).to_le_bytes()).collect()
            }
        };
        out.insert(p.name.clone(), bytes);
    }
    out
}

/// The oracle, the oracle with every fusion a device has, and devices.
fn targets() -> [Target; 4] {
    let webgpu = targets::gpu();
    let mut fused = Target::reference();
    fused.fusions = webgpu.fusions;
    [Target::reference(), fused, targets::host(), webgpu]
}

/// Fusions whose operator rounds once where its parts round twice or more.
const ROUND_ONCE: [&str; 2] = ["matmul_bias", "attention"];

/// Fails where two runs differ by more than a few roundings, outputs and states.
fn near(a: &Outcome, b: &Outcome, at: &str) {
    let [a, b] = [a, b].map(|(outputs, states)| {
        let bytes = outputs.iter().chain(states.values()).flat_map(|x| x.as_chunks::<4>().0);
        bytes.map(|b| f32::from_le_bytes(*b)).collect::<Vec<f32>>()
    });
    assert_eq!(a.len(), b.len(), "{at}");
    for (i, (a, b)) in a.iter().zip(&b).enumerate() {
        let same = a.to_bits() == b.to_bits() || (a - b).abs() <= 1e-5 * a.abs().max(1.0);
        assert!(same, "{at}: element {i} is {a} and {b}");
    }
}

#[test]
fn every_family_is_there() {
    let names: Vec<String> = fixtures().into_iter().map(|f| f.0).collect();
    assert_eq!(
        names,
        [
            "bert",
            "dit",
            "gemma",
            "hiera",
            "llama",
            "moe",
            "nomic_bert",
            "qwen3",
            "qwen35",
            "sam2_memory",
            "sam_vit",
            "vae_decoder"
        ]
    );
}

#[test]
fn every_module_and_its_graphs_read_back_from_their_text() {
    for (name, text) in fixtures() {
        let m = parse_hir(&text).unwrap_or_else(|e| panic!("{name}.hir: {e}"));
        assert_eq!(m.name, name);
        let lines = text.split_inclusive('\n').filter(|l| !l.starts_with('#'));
        assert_eq!(m.to_string(), lines.collect::<String>(), "{name}.hir is as printing writes it");
        assert_eq!(parse_hir(&m.to_string()).unwrap(), m);
        for g in lowered(&m) {
            assert_eq!(parse(&g.to_string()).unwrap(), g.renumbered());
        }
    }
}

#[test]
fn optimised_blocks_give_the_graphs_bits_or_round_less_and_replay_gives_theirs() {
    let (mut fused, mut ran, mut worst) = (BTreeMap::new(), BTreeSet::new(), 1.0f64);
    for (name, text) in fixtures() {
        let module = parse_hir(&text).unwrap();
        let written: Vec<Graph> = lowered(&module.clone().with_policy(FusionPolicy::Fusable));
        for policy in [FusionPolicy::Fusable, FusionPolicy::Direct] {
            let graphs = lowered(&module.clone().with_policy(policy));
            for (g, written) in graphs.iter().zip(&written) {
                let data = data(g);
                let at = format!("{name}, {}, {}", g.name, policy.name());
                verify(g).unwrap_or_else(|e| panic!("{at}: {e}"));
                let expected = interpreted(g, &data).unwrap_or_else(|e| panic!("{at}: {e}"));
                for (bytes, o) in expected.0.iter().zip(&g.outputs) {
                    let floats = bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b));
                    let ok = floats.clone().any(|x| x != 0.0) && floats.clone().all(f32::is_finite);
                    assert!(
                        g.ty(o.value).dtype != DType::F32 || ok,
                        "{at}: {} says nothing",
                        o.name
                    );
                }
                // A fused operator may round once where its parts round twice.
                near(&expected, &interpreted(written, &data).unwrap(), &at);
                for target in targets() {
                    let at = format!("{at}, {}", target.name);
                    let options = CompileOptions::default();
                    let (optimised, report) = match optimise(g.clone(), &target, &options) {
                        Ok(done) => done,
                        // A device that has no kernel says so; the oracle runs everything.
                        Err(e) if e.code == Code::Unsupported && target.name != "reference" => {
                            continue;
                        }
                        Err(e) => panic!("{at}: {e}"),
                    };
                    ran.insert((name.clone(), target.name.clone()));
                    for (pass, n) in &report.fused {
                        *fused.entry(*pass).or_insert(0) += n;
                    }
                    assert_eq!(report.missed, [], "{at}");
                    let got = interpreted(&optimised, &data).unwrap();
                    if ROUND_ONCE.iter().any(|pass| report.count(pass) > 0) {
                        near(&got, &expected, &at);
                    } else {
                        assert!(got == expected, "{at}: optimised differs\n{g}\n{optimised}");
                    }
                    let planned = planned(optimised, &target, &options, &data)
                        .unwrap_or_else(|e| panic!("{at}: {e}"));
                    let again = replayed(&planned, &data).unwrap_or_else(|e| panic!("{at}: {e}"));
                    assert!(again == got, "{at}: replayed differs\n{}", planned.program);
                    let p = &planned.program;
                    // Tensors this small are counted in the slots they take.
                    let least = largest_live_slots(p);
                    let share = p.arena_bytes as f64 / least.max(1) as f64;
                    worst = worst.max(share);
                    assert!(share <= 1.05, "{at}: arena of {} bytes, {least} live", p.arena_bytes);
                    let text = format!("{p:#}");
                    let again = parse_lir(&text).unwrap_or_else(|e| panic!("{at}: {e}\n{text}"));
                    assert!(again == *p, "{at}: reads back as another program\n{text}");
                }
            }
        }
    }
    println!("fused: {fused:?}; the worst arena is {worst:.3} of the least");
    for device in ["cpu", "webgpu"] {
        let families: Vec<&str> =
            ran.iter().filter(|r| r.1 == device).map(|r| r.0.as_str()).collect();
        println!("{device} runs {families:?}");
        assert!(families.contains(&"llama"), "{device} runs {families:?}");
    }
}

/// A module whose text says nothing of types still finds the block that does not fit.
#[test]
fn a_weight_of_another_size_is_told_with_the_block_and_both_shapes() {
    let (_, text) = fixtures().into_iter().find(|f| f.0 == "moe").unwrap();
    let text = text.replace("%moe0_up.weight : tensor<6x11x14", "%moe0_up.weight : tensor<6x11x13");
    let e = lower_module(&parse_hir(&text).unwrap(), DType::F32).unwrap_err();
    assert_eq!(e.at, "moe0_gate_up", "{e}");
    assert!(e.what.contains("6x11x13xf32") && e.what.contains("9x14xf32"), "{e}");
}
