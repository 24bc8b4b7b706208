//! Random graphs: optimised = unoptimised = replayed, in memory close to the least.

use super::execute::largest_live_slots;
use super::graphs::{Rng, random_graph};
use crate::targets;
use rlx_core::ir::lir::{Program, StateDecl};
use rlx_core::ir::mir::{Graph, ParamKind};
use rlx_core::ir::parse::parse;
use rlx_core::ir::verify::verify;
use rlx_core::passes::optimise;
use rlx_core::plan::check::check;
use rlx_core::plan::replay::{ReplayMemory, replay};
use rlx_core::plan::{Origin, WeightPlan, plan};
use rlx_core::reference::interpret;
use rlx_core::reference::make::make;
use rlx_core::target::{Activations, CompileOptions, Target};
use std::collections::BTreeMap;

type Data = BTreeMap<String, Vec<u8>>;

fn targets() -> [Target; 3] {
    [Target::reference(), targets::host(), targets::gpu()]
}

fn states(g: &Graph) -> Vec<StateDecl> {
    let states = g.params.iter().filter(|p| p.kind == ParamKind::State);
    states
        .map(|p| {
            let ty = g.ty(p.value).clone();
            StateDecl { name: p.name.clone(), bytes: ty.bytes().unwrap(), ty }
        })
        .collect()
}

/// Outputs and final states of a graph, every value in memory of its own.
fn interpreted(g: &Graph, data: &Data) -> (Vec<Vec<u8>>, Data) {
    let params: Vec<&[u8]> = g.params.iter().map(|p| data[&p.name].as_slice()).collect();
    let run = interpret(g, &params).unwrap();
    let states = g.params.iter().zip(run.params).filter(|(p, _)| p.kind == ParamKind::State);
    (run.outputs, states.map(|(p, bytes)| (p.name.clone(), bytes)).collect())
}

/// Outputs and final states of a program, by its addresses.
fn replayed(program: &Program, weights: &WeightPlan, data: &Data) -> (Vec<Vec<u8>>, Data) {
    let bytes: Vec<Vec<u8>> = weights
        .entries
        .iter()
        .map(|e| match &e.origin {
            Origin::File { .. } => data[&e.name].clone(),
            Origin::Made(recipe) => make(recipe, &|name| Some(data[name].as_slice())).unwrap(),
            other => panic!("{other:?} of {}", e.name),
        })
        .collect();
    let bytes: Vec<&[u8]> = bytes.iter().map(Vec::as_slice).collect();
    let mut memory = ReplayMemory::of(program);
    for (i, input) in program.inputs.iter().enumerate() {
        memory.inputs[i] = data[&input.name].clone();
    }
    for (i, state) in program.states.iter().enumerate() {
        memory.states[i] = data[&state.name].clone();
    }
    let outputs = replay(program, &bytes, &mut memory).unwrap();
    let names = program.states.iter().map(|s| s.name.clone());
    (outputs, names.zip(memory.states).collect())
}

#[test]
fn optimised_and_replayed_graphs_give_the_bits_of_the_graph_as_written() {
    let mut fused = BTreeMap::new();
    let mut worst = 1.0f64;
    for seed in 0..200u64 {
        let (g, data) = random_graph(&mut Rng(seed * 7919 + 17));
        assert!((12..=66).contains(&g.nodes.len()), "seed {seed}: {} nodes", g.nodes.len());
        verify(&g).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{g}"));
        let expected = interpreted(&g, &data);
        for out in &expected.0 {
            let finite = |b: &[u8; 4]| f32::from_le_bytes(*b).is_finite();
            assert!(
                out.as_chunks::<4>().0.iter().all(finite),
                "seed {seed}: NaN would hide poison"
            );
        }
        for target in targets() {
            for activations in [Activations::F32, Activations::Int8] {
                let at = format!("seed {seed}, {}, {}", target.name, activations.name());
                let options = CompileOptions { activations, ..CompileOptions::default() };
                let (optimised, report) = optimise(g.clone(), &target, &options)
                    .unwrap_or_else(|e| panic!("{at}: {e}\n{g}"));
                for (pass, n) in report.fused {
                    *fused.entry(pass).or_insert(0) += n;
                }
                let text = optimised.to_string();
                let again = parse(&text).unwrap_or_else(|e| panic!("{at}: {e}\n{text}"));
                assert_eq!(again.to_string(), text, "{at}");
                let before = interpreted(&optimised, &data);
                if activations == Activations::F32 {
                    assert!(before == expected, "{at}: optimised differs\n{g}\n{optimised}");
                }
                let all = states(&g);
                let mut program = plan(optimised, &all, &target, &options).unwrap();
                let mut offset = 0;
                let weights = WeightPlan::new(&[&program], &target.limits, |name| {
                    let bytes = data[name].len() as u64;
                    offset += bytes;
                    Some((0, offset - bytes, bytes))
                })
                .unwrap();
                weights.bind(&mut program).unwrap();
                check(&program, &weights, &target.limits)
                    .unwrap_or_else(|e| panic!("{at}: {e}\n{}", program.graph));
                let (outputs, states) = replayed(&program, &weights, &data);
                assert!(outputs == before.0, "{at}: replayed outputs differ\n{}", program.graph);
                for (name, bytes) in &before.1 {
                    assert!(states[name] == *bytes, "{at}: state {name} differs");
                }
                let least = largest_live_slots(&program);
                let share = program.arena_bytes as f64 / least.max(1) as f64;
                assert!(
                    share <= 1.10,
                    "{at}: arena of {} bytes, {least} live",
                    program.arena_bytes
                );
                assert!(program.largest_live_bytes <= program.arena_bytes);
                assert!(program.arena_bytes <= program.unshared_bytes.next_multiple_of(64) * 16);
                worst = worst.max(share);
            }
        }
    }
    println!("fused: {fused:?}; the worst arena is {worst:.3} of the least");
    // What these graphs are made for; casts and constants are none of it.
    for pass in [
        "dce",
        "glu",
        "matmul_map",
        "segments",
        "residual",
        "norm_prologue",
        "rope_kv_write",
        "legalise",
    ] {
        assert!(fused[pass] > 0, "no random graph has anything for {pass}");
    }
}

#[test]
fn random_graphs_read_back_from_their_text() {
    for seed in 0..300u64 {
        let (g, _) = random_graph(&mut Rng(seed * 104_729 + 3));
        let text = g.to_string();
        let again = parse(&text).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{text}"));
        assert_eq!(again.to_string(), text, "seed {seed}");
    }
}
