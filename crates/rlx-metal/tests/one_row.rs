//! Our own product of one row, against the reference's.

use crate::common::*;
use crate::emulator::Watch;
use rlx_core::ops::{Epilogue, MatMul, Op, Unary};
use rlx_core::types::{BlockFormat, DType};
use std::sync::Arc;

const OWN: &str = "own_matmul_vec";
/// What f32 leaves of digits, at the size of the largest result.
const OFF: f64 = 4e-6;

const BLOCKS: [BlockFormat; 8] = [
    BlockFormat::Q4_0,
    BlockFormat::Q4_1,
    BlockFormat::Q5_0,
    BlockFormat::Q5_1,
    BlockFormat::Q8_0,
    BlockFormat::Q4K,
    BlockFormat::Q5K,
    BlockFormat::Q6K,
];

/// Runs a product on our own kernel, or on WGSL's.
#[track_caller]
fn check(d: &Arc<TestDevice>, own: bool, op: MatMul, operands: &[Operand], what: &str) {
    let op = Op::from(op);
    let before = d.gpu().metal().launches(OWN);
    let got = run_op(d, op.clone(), operands);
    assert_eq!(d.gpu().metal().launches(OWN) > before, own, "{what}: whose kernel ran");
    for (got, want) in got.iter().zip(truth(&op, operands)) {
        let want: Vec<f64> = floats(&want).iter().map(|&x| x.into()).collect();
        assert_close(what, &floats(got), &want, OFF);
    }
}

fn of(rng: &mut Rng, dtype: DType, n: u64, k: u64) -> Operand {
    weight(dtype, &[n, k], random_weights(rng, dtype, n as usize, k as usize))
}

fn vector(rng: &mut Rng, n: u64) -> Operand {
    weight(DType::F32, &[n], f32_bytes(&rng.floats(n as usize)))
}

/// Weights of these types and of as many rows, multiplied at once: one kernel.
#[track_caller]
fn check_all(d: &Arc<TestDevice>, rng: &mut Rng, types: &[DType], rows: &[u64], k: u64) {
    let op = MatMul { segments: types.len(), ..MatMul::plain() };
    let mut operands = vec![input(&[1, k], &rng.floats(k as usize))];
    operands.extend(types.iter().zip(rows).map(|(dtype, n)| of(rng, *dtype, *n, k)));
    check(d, true, op, &operands, &format!("{types:?} of {k}"));
}

#[test]
fn weights_of_each_type_are_multiplied() {
    let (d, mut rng) = (device(), Rng(61));
    for formats in BLOCKS.chunks(4) {
        let types: Vec<DType> = formats.iter().map(|format| DType::Block(*format)).collect();
        // Of 1,024 elements that a SIMD group has at a time: a part, one and a part; rows that fill no threadgroup.
        check_all(&d, &mut rng, &types, &[7, 18, 1, 16], 256);
        check_all(&d, &mut rng, &types, &[3, 2, 33, 4], 1280);
    }
    // Eight blocks in a row: planes. And a row of no whole 64.
    check_all(&d, &mut rng, &[DType::Block(BlockFormat::Q6K)], &[9], 2048);
    let types = [BlockFormat::Q5_0, BlockFormat::Q8_0].map(DType::Block);
    check_all(&d, &mut rng, &types, &[9, 2], 96);
}

#[test]
fn rows_of_numbers_have_any_length() {
    let (d, mut rng) = (device(), Rng(62));
    for k in [1u64, 31, 64, 1130] {
        check_all(&d, &mut rng, &[DType::F32, DType::F16, DType::BF16], &[6, 10, 5], k);
    }
}

/// Codebooks, and types without a class of ours.
#[test]
fn other_types_are_wgsls() {
    let (d, mut rng) = (device(), Rng(63));
    for format in [BlockFormat::Q2K, BlockFormat::Iq2Xs] {
        let operands =
            [input(&[1, 256], &rng.floats(256)), of(&mut rng, DType::Block(format), 3, 256)];
        check(&d, false, MatMul::plain(), &operands, format.name());
    }
    let erf = MatMul { epilogue: Epilogue::Map(Unary::GeluErf), ..MatMul::plain() };
    let operands = [input(&[1, 64], &rng.floats(64)), of(&mut rng, DType::F16, 3, 64)];
    check(&d, false, erf, &operands, "gelu_erf");
}

#[test]
fn what_follows_a_product_is_part_of_it() {
    let (d, mut rng) = (device(), Rng(64));
    let (k, n) = (256u64, 21u64);
    let [f16, q4_k, q8_0] =
        [DType::F16, DType::Block(BlockFormat::Q4K), DType::Block(BlockFormat::Q8_0)];
    let x = input(&[1, k], &rng.floats(k as usize));
    let add = MatMul { epilogue: Epilogue::Add, ..MatMul::plain() };
    let residual = input(&[1, n], &rng.floats(n as usize));
    check(&d, true, add, &[x.clone(), of(&mut rng, q8_0, n, k), residual], "added");
    for f in [Unary::Silu, Unary::Gelu, Unary::QuickGelu, Unary::Relu, Unary::Sigmoid, Unary::Tanh]
    {
        let op = MatMul { epilogue: Epilogue::Map(f), bias: true, ..MatMul::plain() };
        let (w, bias) = (of(&mut rng, f16, n, k), vector(&mut rng, n));
        check(&d, true, op, &[x.clone(), w, bias], f.name());
    }
    // Gates of one type, and of two.
    for (a, b) in [(q4_k, q4_k), (q4_k, q8_0)] {
        let (gate, up) = (of(&mut rng, a, n, k), of(&mut rng, b, n, k));
        let glu = MatMul { segments: 2, epilogue: Epilogue::Glu(Unary::Silu), ..MatMul::plain() };
        let what = format!("gated {a} {b}");
        check(&d, true, glu.clone(), &[x.clone(), gate.clone(), up.clone()], &what);
        let normed = MatMul { norm: Some(1e-5), ..glu };
        let norm = vector(&mut rng, k);
        let mut operands = vec![x.clone(); 4];
        let at = normed.parts();
        (operands[at.weights], operands[at.weights + 1]) = (gate, up);
        operands[at.norm.unwrap()] = norm;
        check(&d, true, normed, &operands, &format!("normed, {what}"));
    }
    // Three weights of two types and different sizes, with biases and a norm.
    let op = MatMul { segments: 3, bias: true, norm: Some(1e-6), ..MatMul::plain() };
    let at = op.parts();
    let mut operands = vec![x; 8];
    for (i, (dtype, n)) in [(q4_k, 40), (q4_k, 3), (q8_0, 17)].into_iter().enumerate() {
        operands[at.weights + i] = of(&mut rng, dtype, n, k);
        operands[at.biases.unwrap() + i] = vector(&mut rng, n);
    }
    operands[at.norm.unwrap()] = vector(&mut rng, k);
    check(&d, true, op, &operands, "three weights");
}

#[test]
fn ours_stays_within_its_memory_and_has_no_races() {
    for watch in [Watch::Addresses, Watch::Races] {
        let (d, mut rng) = (watched(watch), Rng(65));
        for (dtype, k) in [(DType::F16, 66), (DType::Block(BlockFormat::Q6K), 256)] {
            let w = of(&mut rng, dtype, 3, k);
            let x = input(&[1, k], &rng.floats(k as usize));
            check(&d, true, MatMul::plain(), &[x, w], &format!("{dtype} {watch:?}"));
        }
    }
}
