//! The reference executor: plans checked and replayed, the device's contract, recorded models.
#![cfg(feature = "reference")]

mod data;
mod device;
mod model;
mod plan;
mod random;

use rlx_core::ir::lir::{Program, StateDecl};
use rlx_core::ir::mir::{Graph, ParamKind, ValueId};
use rlx_core::plan::{Buffer, Entry, Origin, WeightPlan};
use rlx_core::target::{CompileOptions, Target};
use rlx_core::types::{DType, Shape, Type};

fn f32s(dims: &[u64]) -> Type {
    Type::tensor(DType::F32, Shape::of(dims))
}

fn bytes(x: &[f32]) -> Vec<u8> {
    x.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn floats(x: &[u8]) -> Vec<f32> {
    x.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
}

/// Plans a graph for the reference target; its states are the graph's own.
fn planned(g: Graph) -> (Program, WeightPlan) {
    let states: Vec<StateDecl> = params(&g, ParamKind::State)
        .map(|(name, v)| {
            let ty = g.ty(v).clone();
            StateDecl { name: name.into(), bytes: ty.bytes().unwrap(), ty }
        })
        .collect();
    let program =
        rlx_core::plan::plan(g, &states, &Target::reference(), &CompileOptions::default()).unwrap();
    let mut weights = WeightPlan::default();
    for w in &program.weights {
        let bytes = w.ty.bytes().unwrap();
        weights.entries.push(Entry {
            name: w.name.clone(),
            ty: w.ty.clone(),
            origin: Origin::File { shard: 0, offset: 0 },
            buffer: weights.buffers.len() as u32,
            offset: 0,
            bytes,
        });
        weights.buffers.push(Buffer { bytes });
    }
    (program, weights)
}

fn params(g: &Graph, kind: ParamKind) -> impl Iterator<Item = (&str, ValueId)> {
    g.params.iter().filter(move |p| p.kind == kind).map(|p| (p.name.as_str(), p.value))
}
