//! Random graphs: optimised, planned and replayed, they give the bits of the graph as written.

use super::{bytes, f32s, params, planned};
use crate::targets;
use rlx_core::ir::mir::{Graph, ParamKind, ValueId};
use rlx_core::ops::{Binary, Map, MatMul, Reshape, RmsNorm, Unary, Zip};
use rlx_core::passes::optimise;
use rlx_core::plan::check::check;
use rlx_core::plan::replay::{ReplayMemory, replay};
use rlx_core::reference::interpret;
use rlx_core::target::{CompileOptions, Target};
use rlx_core::types::Shape;

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        ((self.0 >> 33) as usize) % n
    }

    fn floats(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.below(2001) as f32 / 1000.0 - 1.0).collect()
    }
}

/// 4 to 23 nodes over `[2, 16]` values, 1 to 3 outputs.
fn random_graph(r: &mut Random) -> Graph {
    let mut g = Graph::new("random");
    let mut values: Vec<ValueId> = vec![g.param(ParamKind::Input, "x", f32s(&[2, 16]))];
    let norms: Vec<ValueId> =
        (0..2).map(|i| g.param(ParamKind::Weight, &format!("norm{i}"), f32s(&[16]))).collect();
    let weights: Vec<ValueId> =
        (0..3).map(|i| g.param(ParamKind::Weight, &format!("w{i}"), f32s(&[16, 16]))).collect();
    for i in 0..4 + r.below(20) {
        // Late values more often, so that chains form.
        let late = values.len().saturating_sub(1 + r.below(3).min(values.len() - 1));
        let x = if r.below(4) > 0 { values[late] } else { values[r.below(values.len())] };
        let label = format!("n{i}");
        let y = match r.below(6) {
            0 => {
                let f = [Unary::Silu, Unary::Gelu, Unary::Neg, Unary::Tanh][r.below(4)];
                g.push1(Map { f }, &[x], &label)
            }
            1 => {
                let f = Binary::ALL[r.below(4)].0;
                let b = values[r.below(values.len())];
                g.push1(Zip { f }, &[x, b], &label)
            }
            2 => g.push1(Zip { f: Binary::Mul }, &[x, norms[r.below(2)]], &label),
            3 => g.push1(RmsNorm { eps: 1e-5 }, &[x, norms[r.below(2)]], &label),
            4 => {
                let flat = g.push1(Reshape { dims: Shape::of(&[32]) }, &[x], &label).unwrap();
                g.push1(Reshape { dims: Shape::of(&[2, 16]) }, &[flat], &label)
            }
            _ => g.push1(MatMul::plain(), &[x, weights[r.below(3)]], &label),
        };
        values.push(y.unwrap());
    }
    for i in 0..1 + r.below(3) {
        let v = if i == 0 { values[values.len() - 1] } else { values[r.below(values.len())] };
        g.output(&format!("y{i}"), v);
    }
    g
}

#[test]
fn optimised_planned_and_replayed_graphs_give_the_bits_of_the_graph_as_written() {
    let mut fewer = 0;
    for seed in 0..400 {
        let mut r = Random(seed * 7919 + 1);
        let g = random_graph(&mut r);
        let data: Vec<(String, Vec<u8>)> = g
            .params
            .iter()
            .map(|p| {
                let n = g.ty(p.value).shape.elements().unwrap() as usize;
                (p.name.clone(), bytes(&r.floats(n)))
            })
            .collect();
        let get = |name: &str| data.iter().find(|d| d.0 == name).unwrap().1.as_slice();
        let all: Vec<&[u8]> = g.params.iter().map(|p| get(&p.name)).collect();
        let expected = interpret(&g, &all).unwrap().outputs;
        for target in [Target::reference(), targets::host(), targets::gpu()] {
            let (optimised, _) = optimise(g.clone(), &target, &CompileOptions::default()).unwrap();
            let (program, plan) = planned(optimised);
            check(&program, &plan, &target.limits).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
            fewer += usize::from(program.steps.len() < g.nodes.len());
            let weights: Vec<&[u8]> = program.weights.iter().map(|w| get(&w.name)).collect();
            let mut memory = ReplayMemory::of(&program);
            for (name, _) in params(&program.graph, ParamKind::Input) {
                let at = program.input(name).unwrap();
                memory.inputs[at] = get(name).to_vec();
            }
            let got = replay(&program, &weights, &mut memory).unwrap();
            assert_eq!(got, expected, "seed {seed} for {}", target.name);
        }
    }
    assert!(fewer > 0, "the graphs have something to fuse");
}
