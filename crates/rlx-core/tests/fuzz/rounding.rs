//! Fusions that round once where what they replace rounds on the way: how far apart the two may be.
//!
//! Every other pass keeps the bits, which `pipeline` asserts of all of them. `u` is the unit roundoff
//! of the element type (2^-24 for f32, 2^-11 for f16, 2^-8 for bf16): storing x is wrong by `u |x|`.
//! The bounds are sums of such errors over the operands at hand; none is chosen.

use super::graphs::Rng;
use super::seeds;
use crate::targets;
use rlx_core::ir::mir::{Graph, ParamKind, ValueId};
use rlx_core::ops::{BatchMatMul, Binary, Constant, MatMul, Softmax, Zip};
use rlx_core::passes::optimise;
use rlx_core::reference::interpret;
use rlx_core::target::{CompileOptions, Target};
use rlx_core::types::{DType, Shape, Type};

fn unit_roundoff(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 2f64.powi(-11),
        DType::BF16 => 2f64.powi(-8),
        _ => 2f64.powi(-24),
    }
}

/// Half the step between the smallest numbers: the error of storing one of those.
fn underflow(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 2f64.powi(-25),
        _ => 2f64.powi(-134),
    }
}

fn floats(dtype: DType, bytes: &[u8]) -> Vec<f64> {
    let pairs = || bytes.as_chunks::<2>().0.iter();
    match dtype {
        DType::F16 => pairs().map(|b| half::f16::from_le_bytes(*b).to_f64()).collect(),
        DType::BF16 => pairs().map(|b| half::bf16::from_le_bytes(*b).to_f64()).collect(),
        _ => bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b).into()).collect(),
    }
}

fn noise(rng: &mut Rng, ty: &Type) -> Vec<u8> {
    let n = ty.shape.elements().unwrap();
    let mut number = || (rng.below(20_001) as f32 - 10_000.0) / 5_000.0;
    match ty.dtype {
        DType::F16 => (0..n).flat_map(|_| half::f16::from_f32(number()).to_le_bytes()).collect(),
        DType::BF16 => (0..n).flat_map(|_| half::bf16::from_f32(number()).to_le_bytes()).collect(),
        _ => (0..n).flat_map(|_| number().to_le_bytes()).collect(),
    }
}

/// The oracle with every fusion that a device has.
fn fusing() -> Target {
    Target { fusions: targets::gpu().fusions, ..Target::reference() }
}

/// Outputs of the graph with the one fusion in it, which it must have.
fn fused(g: &Graph, data: &[&[u8]], pass: &str) -> Vec<Vec<u8>> {
    let (g, report) = optimise(g.clone(), &fusing(), &CompileOptions::default()).unwrap();
    assert_eq!(report.count(pass), 1, "{g}");
    interpret(&g, data).unwrap().outputs
}

/// `y = fl(p + b)` beside `fl(fl(p) + b)`: the product is wrong by `u |p|`, either sum by `u |y|`.
#[test]
fn a_bias_in_the_matmul_is_within_the_rounding_of_the_product_and_of_both_sums() {
    let done = seeds("RLX_FUZZ_BIASES", 1_000, |seed| {
        let mut rng = Rng(seed * 7919 + 3);
        let dtype = [DType::F32, DType::F16, DType::BF16][rng.below(3)];
        let [rows, width, columns] = [5, 40, 9].map(|most| 1 + rng.below(most) as u64);
        let types = [vec![rows, width], vec![columns, width], vec![columns]]
            .map(|dims| Type::tensor(dtype, Shape::of(&dims)));
        let build = |product: bool| {
            let mut g = Graph::new("bias");
            let kinds = [ParamKind::Input, ParamKind::Weight, ParamKind::Weight];
            let [x, w, b] =
                std::array::from_fn(|i| g.param(kinds[i], ["x", "w", "b"][i], types[i].clone()));
            let p = g.push1(MatMul::plain(), &[x, w], "p").unwrap();
            let y = g.push1(Zip { f: Binary::Add }, &[p, b], "y").unwrap();
            g.output("y", if product { p } else { y });
            g
        };
        let data: Vec<Vec<u8>> = types.iter().map(|ty| noise(&mut rng, ty)).collect();
        let data: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
        let run = |g: &Graph| floats(dtype, &interpret(g, &data).unwrap().outputs[0]);
        let (products, written) = (run(&build(true)), run(&build(false)));
        let once = floats(dtype, &fused(&build(false), &data, "matmul_bias")[0]);
        let u = unit_roundoff(dtype);
        for ((p, a), b) in products.iter().zip(&written).zip(&once) {
            // What was rounded stands for what it was rounded from: 1 / (1 - u).
            let bound = u * (p.abs() + a.abs() + b.abs()) / (1.0 - u) + 3.0 * underflow(dtype);
            assert!((a - b).abs() <= bound, "seed {seed}: {a} and {b} of {dtype}, {bound} apart");
        }
    });
    assert!(done > 0);
}

/// Scores s go through a product, a scale and a mask, each rounded: wrong by `d = u (2 |t| + |m|)`
/// at most, t after the scale, m after the mask. Weights then change by a factor within `e^(2d)` and
/// are rounded, and either result, a mean of v by the weights, is rounded: `max |v| (e^(2d) - 1 + 3 u)`.
#[test]
fn attention_in_one_is_within_the_rounding_of_its_scores_and_weights() {
    let done = seeds("RLX_FUZZ_ATTENTIONS", 1_000, |seed| {
        let mut rng = Rng(seed * 104_729 + 5);
        let [b, h, s, t, e, v] = [2, 3, 5, 6, 8, 7].map(|most| 1 + rng.below(most) as u64);
        let f32s = |dims: &[u64]| Type::tensor(DType::F32, Shape::of(dims));
        let types =
            [f32s(&[b, h, s, e]), f32s(&[b, h, t, e]), f32s(&[b, h, t, v]), f32s(&[b, h, s, t])];
        let scale = (1.0 / (e as f64).sqrt()) as f32;
        let build = |scores: bool| {
            let mut g = Graph::new("attention");
            let p: [ValueId; 4] = std::array::from_fn(|i| {
                g.param(ParamKind::Input, ["q", "k", "v", "mask"][i], types[i].clone())
            });
            let by = Constant::scalar(DType::F32, scale.into()).unwrap();
            let by = g.push1(by, &[], "scale").unwrap();
            let s = g.push1(BatchMatMul { transpose_b: true }, &p[..2], "s").unwrap();
            let t = g.push1(Zip { f: Binary::Mul }, &[s, by], "t").unwrap();
            let m = g.push1(Zip { f: Binary::Add }, &[t, p[3]], "m").unwrap();
            let w = g.push1(Softmax { axis: 3 }, &[m], "w").unwrap();
            let y = g.push1(BatchMatMul { transpose_b: false }, &[w, p[2]], "y").unwrap();
            if scores {
                g.output("t", t);
                g.output("m", m);
            } else {
                g.output("y", y);
            }
            g
        };
        let data: Vec<Vec<u8>> = types.iter().map(|ty| noise(&mut rng, ty)).collect();
        let data: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
        let run = |g: &Graph| interpret(g, &data).unwrap().outputs;
        let scores = run(&build(true));
        let written = floats(DType::F32, &run(&build(false))[0]);
        let once = floats(DType::F32, &fused(&build(false), &data, "attention")[0]);
        let most = |bytes: &[u8]| {
            floats(DType::F32, bytes).iter().fold(0.0f64, |most, x| most.max(x.abs()))
        };
        let u = unit_roundoff(DType::F32);
        let d = u * (2.0 * most(&scores[0]) + most(&scores[1])) / (1.0 - u);
        let bound = most(data[2]) * ((2.0 * d).exp_m1() + 3.0 * u) * (1.0 + 4.0 * u);
        for (a, b) in written.iter().zip(&once) {
            assert!((a - b).abs() <= bound, "seed {seed}: {a} and {b}, {bound} apart");
        }
    });
    assert!(done > 0);
}
