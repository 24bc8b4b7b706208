//! The arena on graphs of any shape: 1,000 random ones close to the least, 10,000 nodes in no time.

use super::execute::largest_live_slots;
use super::graphs::Rng;
use rlx_core::ir::lir::Program;
use rlx_core::ir::mir::{Graph, ParamKind, ValueId};
use rlx_core::ops::{Attrs, Custom, CustomOperator};
use rlx_core::plan::check::check;
use rlx_core::plan::{WeightPlan, plan};
use rlx_core::target::{CompileOptions, Target};
use rlx_core::types::{DType, Shape, Type};
use rlx_core::{Error, Result};
use std::sync::Arc;

/// Any operands, one result of so many words. It is planned, never run.
#[derive(Debug)]
struct Words(u64);

impl CustomOperator for Words {
    fn name(&self) -> &str {
        "words"
    }

    fn attrs(&self) -> Attrs {
        Attrs::none().int("n", self.0)
    }

    fn infer(&self, _: &[&Type]) -> Result<Vec<Type>> {
        Ok(vec![Type::tensor(DType::F32, Shape::of(&[self.0]))])
    }

    fn run(&self, _: &[(&Type, &[u8])]) -> Result<Vec<Vec<u8>>> {
        Err(Error::internal("only planned"))
    }
}

/// A graph of `nodes` results of 4 bytes to 16 KiB, each read by 1 to 4 of the 12 nodes behind it.
pub fn graph(nodes: usize, rng: &mut Rng) -> Graph {
    let mut g = Graph::new("random");
    let x = g.param(ParamKind::Input, "x", Type::tensor(DType::F32, Shape::of(&[4])));
    let mut reads: Vec<Vec<ValueId>> = vec![vec![x]; nodes];
    let span = 1 + rng.below(12);
    for i in 0..nodes {
        let op = Custom(Arc::new(Words(1 + rng.below(4096) as u64)));
        let v = g.push1(op, &reads[i], &format!("n{i}")).unwrap();
        for _ in 0..1 + rng.below(4) {
            match reads.get_mut(i + 1 + rng.below(span)) {
                Some(reader) => reader.push(v),
                None => g.output(&format!("y{i}_{}", g.outputs.len()), v),
            }
        }
    }
    g
}

fn planned(g: Graph) -> Program {
    let target = Target::reference();
    let program = plan(g, &[], &target, &CompileOptions::default()).unwrap();
    check(&program, &WeightPlan::default(), &target.limits).unwrap();
    program
}

#[test]
fn arenas_of_a_thousand_random_graphs_are_within_a_tenth_of_the_live_slots() {
    let (mut worst, mut sum) = ((1.0, 0), 0.0);
    for seed in 0..1000u64 {
        let mut rng = Rng(seed * 7919 + 17);
        let nodes = 12 + rng.below(189);
        let program = planned(graph(nodes, &mut rng));
        let least = largest_live_slots(&program);
        let share = program.arena_bytes as f64 / least as f64;
        sum += share;
        if share > worst.0 {
            worst = (share, seed);
        }
        assert!(share <= 1.10, "seed {seed}, {nodes} nodes: {} of {least}", program.arena_bytes);
    }
    println!("seeds 0..1000: worst {:.3} at seed {}, mean {:.4}", worst.0, worst.1, sum / 1000.0);
}

#[test]
fn ten_thousand_nodes_are_planned_close_to_the_live_slots_too() {
    let program = planned(graph(10_000, &mut Rng(1)));
    let share = program.arena_bytes as f64 / largest_live_slots(&program) as f64;
    println!("10,000 nodes: {share:.3}");
    assert!(share <= 1.10, "{share}");
}

#[test]
fn the_same_graph_has_the_same_arena() {
    let planned = || planned(graph(150, &mut Rng(9)));
    assert_eq!(planned(), planned());
}
