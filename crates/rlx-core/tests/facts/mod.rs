//! Facts about the compiler, one test each: `fact_000_03_…` is fact 3 of group 000. The table of
//! all facts, with what is true here, is docs/facts.md; `document.rs` keeps the two in step.
//!
//! 000 profiles, 001 options and devices, 002 stages, 003 precision, 004 the compiler's results.
#![cfg(all(feature = "profile", feature = "reference", feature = "parse"))]

mod compiler;
mod document;
mod options;
mod profiles;
mod stages;

use rlx_core::compile::{CompileResult, Executable};
use rlx_core::ir::mir::{Graph, ParamKind};
use rlx_core::ir::parse::parse;
use rlx_core::types::{DType, Shape, Type};
use std::collections::BTreeMap;
use std::sync::Arc;

fn fixture(name: &str) -> Vec<u8> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures");
    std::fs::read(format!("{folder}/{name}")).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn f32s(dims: &[u64]) -> Type {
    Type::tensor(DType::F32, Shape::of(dims))
}

fn bytes(x: &[f32]) -> Vec<u8> {
    x.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn floats(x: &[u8]) -> Vec<f32> {
    x.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
}

/// Small numbers that differ from place to place.
fn numbers(n: u64, seed: u64) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((state >> 40) as f32 / (1u64 << 24) as f32) - 0.5
    };
    (0..n).map(|_| next()).collect()
}

fn graph(text: &str) -> Graph {
    parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// A pre-norm feed-forward with a residual on both sides, as a decoder layer has it: what most
/// fusions look for.
const LAYER: &str = "func @layer {
  input %x : tensor<4x64xf32>
  input %r : tensor<4x64xf32>
  weight %norm : tensor<64xf32>
  weight %gate : tensor<96x64xf32>
  weight %up : tensor<96x64xf32>
  weight %down : tensor<64x96xf32>
  %0 = zip %x, %r {f = add} -> tensor<4x64xf32> // sum
  %1 = rms_norm %0, %norm {eps = 1e-5} -> tensor<4x64xf32> // norm
  %2 = matmul %1, %gate -> tensor<4x96xf32> // gate
  %3 = matmul %1, %up -> tensor<4x96xf32> // up
  %4 = map %2 {f = silu} -> tensor<4x96xf32> // act
  %5 = zip %4, %3 {f = mul} -> tensor<4x96xf32> // product
  %6 = matmul %5, %down -> tensor<4x64xf32> // down
  %7 = zip %6, %0 {f = add} -> tensor<4x64xf32> // out
  return y = %7
}
";

/// Runs a program on the oracle with numbers made from the names of what it reads; returns its
/// first output.
fn run(result: &CompileResult) -> Vec<f32> {
    let of = |name: &str, ty: &Type| {
        assert_eq!(ty.dtype, DType::F32, "{name}");
        let seed = name.bytes().fold(7, |n: u64, b| n.wrapping_mul(31) + u64::from(b));
        bytes(&numbers(ty.shape.elements().unwrap(), seed))
    };
    // Of what loading makes, the tensors that it is made of.
    let tensors = result.lir.weights.iter().flat_map(|w| match &w.made {
        None => vec![(w.name.as_str(), &w.ty)],
        Some(recipe) => recipe.tensors(),
    });
    let params: BTreeMap<String, Vec<u8>> =
        tensors.map(|(name, ty)| (name.into(), of(name, ty))).collect();
    let inputs: Vec<(&str, Vec<u8>)> =
        result.lir.inputs.iter().map(|i| (i.name.as_str(), of(&i.name, &i.ty))).collect();
    let inputs: Vec<(&str, &[u8])> = inputs.iter().map(|(n, b)| (*n, b.as_slice())).collect();
    let program = Executable::new(result.clone(), Arc::new(params)).unwrap();
    floats(&program.run_reference(&inputs).unwrap()[0].1)
}

/// The largest difference, relative to the largest number; infinite where something is none.
fn difference(expected: &[f32], got: &[f32]) -> f64 {
    rlx_core::compare::difference(got, expected).relative()
}

/// Names of the operators of a graph, in order.
fn operators(g: &Graph) -> Vec<&str> {
    g.nodes.iter().map(|n| n.op.name()).collect()
}

fn input_count(g: &Graph) -> usize {
    g.params.iter().filter(|p| p.kind == ParamKind::Input).count()
}
