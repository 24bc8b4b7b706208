//! A kernel of each kind by naga's MSL, against the reference.

use crate::common::*;
use rlx_core::ops::{Binary, GroupedMatMul, Map, MatMul, Op, Predict, RmsNorm, Unary, Zip};
use rlx_core::sample::SampleParams;
use rlx_core::types::{BlockFormat, DType, Shape, Type};
use std::sync::Arc;

#[track_caller]
fn agrees(d: &Arc<TestDevice>, op: impl Into<Op>, operands: &[Operand], tolerance: f64) {
    let op = op.into();
    let got = run_op(d, op.clone(), operands);
    for (got, want) in got.iter().zip(truth(&op, operands)) {
        let want: Vec<f64> = floats(&want).iter().map(|&x| x.into()).collect();
        assert_close(op.name(), &floats(got), &want, tolerance);
    }
}

#[test]
fn numbers_norms_and_products_of_one_row_are_the_references() {
    let (d, mut rng) = (device(), Rng(51));
    let x = input(&[3, 64], &rng.floats(192));
    agrees(&d, Map { f: Unary::Silu }, std::slice::from_ref(&x), 2e-6);
    let y = input(&[3, 64], &rng.floats(192));
    agrees(&d, Zip { f: Binary::Mul }, &[x.clone(), y], 2e-6);
    let w = weight(DType::F32, &[64], f32_bytes(&rng.floats(64)));
    agrees(&d, RmsNorm { eps: 1e-5 }, &[x, w], 2e-6);
    for dtype in [DType::F16, DType::Block(BlockFormat::Q6K)] {
        let (n, k) = (12u64, 512u64);
        let w = random_weights(&mut rng, dtype, n as usize, k as usize);
        let operands = [input(&[1, k], &rng.floats(k as usize)), weight(dtype, &[n, k], w)];
        agrees(&d, MatMul::plain(), &operands, 4e-6);
    }
}

/// Integers: the core's own bits, and a workgroup's memory that nobody has cleared.
#[test]
fn tokens_are_predicted_as_the_core_does() {
    let (d, mut rng) = (device(), Rng(52));
    let params = SampleParams { temperature: 0.9, seed: 7, ..SampleParams::default() };
    let words = |xs: &[u32]| state(DType::U32, &[xs.len() as u64], u32_bytes(xs));
    let filling = rlx_core::sample::canvas::Filling {
        steps: Some(4),
        threshold: 0.6,
        editing: None,
        post: 0,
    };
    let canvas = filling.canvas(60, 80, &[3, 4], 8);
    let operands =
        [input(&[8, 61], &rng.floats(8 * 61)), words(&params.to_words()), words(&canvas)];
    assert_eq!(run_op(&d, Predict, &operands), truth(&Op::from(Predict), &operands));
}

/// Rows are counted in a workgroup's memory that nobody has cleared: a count that does not begin at 0 never ends.
#[test]
fn many_rows_find_their_experts() {
    let (d, mut rng) = (device(), Rng(53));
    let (m, top_k, experts, k, n) = (70u64, 2u64, 3u64, 64u64, 9u64);
    let chosen: Vec<u32> = (0..m * top_k).map(|_| (rng.next() % experts) as u32).collect();
    let ids = Operand { ty: Type::tensor(DType::U32, Shape::of(&[m, top_k])), ..ids(&chosen) };
    let [gate, up] = [0; 2].map(|_| {
        let bank = random_weights(&mut rng, DType::F16, (experts * n) as usize, k as usize);
        weight(DType::F16, &[experts, n, k], bank)
    });
    let operands = [input(&[m, k], &rng.floats((m * k) as usize)), gate, up, ids];
    agrees(&d, GroupedMatMul::glu(Unary::Silu), &operands, 4e-6);
}
