//! Random valid graphs: as written, optimised, planned and replayed they give the same bits.
//!
//! Two generators take turns: data operators with control flow, and a language model's operators
//! with states and packed weights.

use super::execute::{Data, Outcome, interpreted, planned, replayed};
use super::modules::random_module;
use super::{data_graphs, graphs, seeds};
use crate::targets;
use rlx_core::Code;
use rlx_core::ir::hir::FusionPolicy;
use rlx_core::ir::mir::{Graph, ValueId};
use rlx_core::lower::lower_module;
use rlx_core::passes::optimise;
use rlx_core::sample::Control;
use rlx_core::target::{CompileOptions, RegionLimits, Target};
use rlx_core::types::{BATCH, Binding, DType, Kind, OUT_ROWS, SEQ};

/// One target a seed: the oracle, the oracle with every fusion a device has, devices.
fn target(seed: u64) -> Target {
    let webgpu = targets::gpu();
    match seed % 4 {
        0 => targets::host(),
        1 => webgpu,
        2 => Target::reference(),
        _ => Target { fusions: webgpu.fusions, ..Target::reference() },
    }
}

/// Options of a seed: most as they come.
fn options(seed: u64) -> CompileOptions {
    let once_in = |n: u64| seed.is_multiple_of(n);
    CompileOptions {
        constant_folding: !once_in(5),
        dce: !once_in(11),
        skip_fusion: once_in(13),
        region_limits: once_in(7).then_some(RegionLimits { steps: 2, inputs: 2 }),
        alignment: if once_in(3) { 256 } else { 64 },
        ..CompileOptions::default()
    }
}

/// Makes some more results outputs: few of a random graph's nodes reach the ones it has.
fn keep_more(g: &mut Graph, rng: &mut graphs::Rng) {
    let results: Vec<ValueId> = g.nodes.iter().flat_map(|n| n.outputs.iter().copied()).collect();
    for i in 0..rng.below(8) {
        let v = results[rng.below(results.len())];
        if g.ty(v).kind == Kind::Tensor {
            g.output(&format!("kept{i}"), v);
        }
    }
}

/// What went through.
#[derive(Default, Debug)]
struct Counts {
    graphs: u64,
    nodes: usize,
    optimised_nodes: usize,
    steps: usize,
    refused: u64,
}

fn agree(g: &Graph, data: &Data, seed: u64, counts: &mut Counts) {
    let (at, options) = (format!("seed {seed}"), options(seed / 16));
    let expected = interpreted(g, data).unwrap_or_else(|e| panic!("{at}: {e}\n{g}"));
    let plain = Target::reference();
    let written = planned(g.clone(), &plain, &options, data)
        .unwrap_or_else(|e| panic!("{at}: as written: {e}\n{g}"));
    let got = replayed(&written, data).unwrap_or_else(|e| panic!("{at}: as written: {e}\n{g}"));
    assert!(got == expected, "{at}: replayed as written differs\n{}", written.program);

    let mut target = target(seed / 16);
    let (optimised, _) = match optimise(g.clone(), &target, &options) {
        // What a device has no kernel for, the oracle runs with that device's fusions.
        Err(e) if e.code == Code::Unsupported => {
            counts.refused += 1;
            target = Target { fusions: target.fusions, ..Target::reference() };
            optimise(g.clone(), &target, &options).unwrap_or_else(|e| panic!("{at}: {e}\n{g}"))
        }
        done => done.unwrap_or_else(|e| panic!("{at}: {e}\n{g}")),
    };
    let nodes = optimised.nodes.len();
    let got = interpreted(&optimised, data).unwrap_or_else(|e| panic!("{at}: {e}\n{optimised}"));
    // States that nothing reads or writes any more are not parameters of what is left.
    let same = |got: &Outcome| {
        got.0 == expected.0 && got.1.iter().all(|(name, bytes)| expected.1[name] == *bytes)
    };
    assert!(same(&got), "{at}: optimised differs\n{g}\n{optimised}");
    let planned = planned(optimised, &target, &options, data)
        .unwrap_or_else(|e| panic!("{at}: optimised: {e}\n{g}"));
    let got = replayed(&planned, data).unwrap_or_else(|e| panic!("{at}: {e}\n{g}"));
    assert!(same(&got), "{at}: replayed differs\n{g}\n{}", planned.program);
    counts.graphs += 1;
    counts.nodes += g.nodes.len();
    counts.optimised_nodes += nodes;
    counts.steps += planned.program.steps.len();
}

#[test]
fn optimised_unoptimised_and_replayed_programs_agree() {
    let mut counts = Counts::default();
    seeds("RLX_FUZZ_GRAPHS", 4_000, |seed| {
        // Graphs of a language model are larger: one in sixteen.
        let (mut g, data) = match seed % 16 {
            5 => graphs::random_graph(&mut graphs::Rng(seed * 7919 + 17)),
            _ => data_graphs::random_graph(seed),
        };
        // A language model's rows from `len` on are nobody's promise.
        if seed % 16 != 5 {
            keep_more(&mut g, &mut graphs::Rng(seed));
        }
        agree(&g, &data, seed, &mut counts);
    });
    println!("{counts:?}");
    assert!(counts.optimised_nodes < counts.nodes);
}

/// Bytes of a module's parameters: small floats, ids, a control block.
fn module_data(g: &Graph, rng: &mut graphs::Rng) -> Data {
    let mut data = Data::new();
    for p in &g.params {
        let n = g.ty(p.value).shape.elements().unwrap();
        let ctl = Control { past: 2, len: 3, capacity: 8, ..Control::default() };
        let bytes: Vec<u8> = match p.name.as_str() {
            "ctl" => ctl.to_words().iter().flat_map(|w| w.to_le_bytes()).collect(),
            _ if g.ty(p.value).dtype == DType::U32 => {
                (0..n).flat_map(|_| (rng.below(11) as u32).to_le_bytes()).collect()
            }
            _ => (0..n)
                .flat_map(|_| ((rng.below(2001) as f32 - 1000.0) / 2000.0).to_le_bytes())
                .collect(),
        };
        data.insert(p.name.clone(), bytes);
    }
    data
}

#[test]
fn random_modules_give_the_same_under_both_policies() {
    let mut counts = Counts::default();
    seeds("RLX_FUZZ_MODULES", 1_000, |seed| {
        let module = random_module(&mut graphs::Rng(seed * 7919 + 1));
        let sizes = [(BATCH, 3), (SEQ, 3), (OUT_ROWS, 3)];
        let binding: Binding = sizes.into_iter().map(|(s, n)| (s.into(), n)).collect();
        let runs = [FusionPolicy::Direct, FusionPolicy::Fusable].map(|policy| {
            let g = lower_module(&module.clone().with_policy(policy), DType::F32).unwrap();
            let g = g.specialize("bound", &binding).unwrap();
            let data = module_data(&g, &mut graphs::Rng(seed));
            agree(&g, &data, seed, &mut counts);
            interpreted(&g, &data).unwrap().0
        });
        // No block here has a form that rounds less often than its parts.
        let [direct, fusable] = runs;
        assert!(direct == fusable, "seed {seed}: the policies differ\n{module}");
    });
    println!("{counts:?}");
}
