//! How long planning takes: `cargo run --release -p rlx-core --example plan_speed [nodes] [runs]`.
//!
//! A graph of results of 4 bytes to 16 KiB, each read by 1 to 4 of the 12 nodes behind it; prints the
//! time of the whole plan (liveness, arena, steps, fingerprint) and the arena beside its least.

use rlx_core::ir::mir::{Graph, ParamKind, ValueId};
use rlx_core::ops::{Attrs, Custom, CustomOperator};
use rlx_core::plan::plan;
use rlx_core::target::{CompileOptions, Target};
use rlx_core::types::{DType, Shape, Type};
use rlx_core::{Error, Result};
use std::sync::Arc;
use std::time::Instant;

/// Any operands, one result of so many words; planned, never run.
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

fn graph(nodes: usize, seed: u64) -> Result<Graph> {
    let mut state = seed;
    let mut below = |n: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % n
    };
    let mut g = Graph::new("speed");
    let x = g.param(ParamKind::Input, "x", Type::tensor(DType::F32, Shape::of(&[4])));
    let mut reads: Vec<Vec<ValueId>> = vec![vec![x]; nodes];
    for i in 0..nodes {
        let op = Custom(Arc::new(Words(1 + below(4096))));
        let v = g.push1(op, &reads[i], &format!("n{i}"))?;
        for _ in 0..1 + below(4) {
            match reads.get_mut(i + 1 + below(12) as usize) {
                Some(reader) => reader.push(v),
                None => g.output(&format!("y{i}_{}", g.outputs.len()), v),
            }
        }
    }
    Ok(g)
}

fn main() -> Result<()> {
    let mut numbers = std::env::args().skip(1).map(|a| a.parse::<usize>().unwrap_or(0));
    let (nodes, runs) = (numbers.next().unwrap_or(10_000), numbers.next().unwrap_or(10));
    let (target, options) = (Target::reference(), CompileOptions::default());
    let mut times = Vec::new();
    for run in 0..runs.max(1) {
        let g = graph(nodes, run as u64)?;
        let start = Instant::now();
        let program = plan(g, &[], &target, &options)?;
        let ms = start.elapsed().as_secs_f64() * 1e3;
        let share = program.arena_bytes as f64 / program.largest_live_bytes.max(1) as f64;
        println!("seed {run}: {nodes} nodes in {ms:.1} ms, arena {share:.3} of the live bytes");
        times.push(ms);
    }
    times.sort_by(f64::total_cmp);
    println!("median {:.1} ms", times[times.len() / 2]);
    Ok(())
}
