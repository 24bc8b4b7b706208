//! Our own product of a prompt's rows, against the reference's.

use crate::common::*;
use crate::emulator::Watch;
use rlx_core::compare::difference;
use rlx_core::ops::{Epilogue, MatMul, Op, Unary};
use rlx_core::types::{BlockFormat, DType};
use std::sync::Arc;

const TYPES: [DType; 5] = [
    DType::F16,
    DType::Block(BlockFormat::Q4_0),
    DType::Block(BlockFormat::Q8_0),
    DType::Block(BlockFormat::Q4K),
    DType::Block(BlockFormat::Q6K),
];

/// Runs a product on our own kernel; its results are those of the reference but for roundings to f16.
#[track_caller]
fn check(d: &Arc<TestDevice>, op: MatMul, operands: &[Operand], what: &str) {
    let op = Op::from(op);
    let before = d.gpu().metal().launches("own_matmul_tile");
    let got = run_op(d, op.clone(), operands);
    assert!(d.gpu().metal().launches("own_matmul_tile") > before, "{what}: another kernel ran");
    for (got, want) in got.iter().zip(truth(&op, operands)) {
        let off = difference(&floats(got), &floats(&want)).relative();
        assert!(off <= 1e-3, "{what}: {off:e}");
    }
}

#[test]
fn weights_of_each_type_are_multiplied() {
    let (d, mut rng) = (in_halves(Watch::Nothing), Rng(41));
    for dtype in TYPES {
        let k: u64 = if dtype == DType::F16 { 70 } else { 512 };
        let n = 70;
        let w = weight(dtype, &[n, k], random_weights(&mut rng, dtype, n as usize, k as usize));
        let x = input(&[67, k], &rng.floats(67 * k as usize));
        check(&d, MatMul::plain(), &[x, w], &dtype.to_string());
    }
    // Eight blocks in a row: planes.
    let dtype = DType::Block(BlockFormat::Q6K);
    let w = weight(dtype, &[8, 2048], random_weights(&mut rng, dtype, 8, 2048));
    let x = input(&[2, 2048], &rng.floats(2 * 2048));
    check(&d, MatMul::plain(), &[x, w], "planes");
}

/// Where no kernel of ours is wanted, and where two threads at one address without a barrier would be seen.
#[test]
fn wgsls_kernel_multiplies_too_and_ours_has_no_races() {
    let mut rng = Rng(44);
    let w = weight(DType::F16, &[8, 64], random_weights(&mut rng, DType::F16, 8, 64));
    let operands = [input(&[2, 64], &rng.floats(128)), w];
    let d = translated();
    let op = Op::from(MatMul::plain());
    let off = difference(
        &floats(&run_op(&d, op.clone(), &operands)[0]),
        &floats(&truth(&op, &operands)[0]),
    );
    assert!(off.relative() <= 2e-3, "{:e}", off.relative());
    assert_eq!(d.gpu().metal().launches("own_matmul_tile"), 0);
    assert_eq!(d.gpu().metal().launches("matmul_tile_half"), 1);
    check(&in_halves(Watch::Races), MatMul::plain(), &operands, "without races");
    check(&in_halves(Watch::Addresses), MatMul::plain(), &operands, "within its memory");
}

#[test]
fn what_follows_a_product_is_part_of_it() {
    let (d, mut rng) = (in_halves(Watch::Nothing), Rng(42));
    let (m, k, n) = (65u64, 64u64, 40u64);
    let mut w =
        |dtype| weight(dtype, &[n, k], random_weights(&mut rng, dtype, n as usize, k as usize));
    let (w0, w1) = (w(DType::F16), w(DType::Block(BlockFormat::Q8_0)));
    let x = input(&[m, k], &rng.floats((m * k) as usize));
    let bias = |rng: &mut Rng| weight(DType::F32, &[n], f32_bytes(&rng.floats(n as usize)));
    let residual = input(&[m, n], &rng.floats((m * n) as usize));
    let add = MatMul { epilogue: Epilogue::Add, ..MatMul::plain() };
    check(&d, add, &[x.clone(), w0.clone(), residual], "added");
    let silu = MatMul { epilogue: Epilogue::Map(Unary::Silu), bias: true, ..MatMul::plain() };
    check(&d, silu, &[x.clone(), w0.clone(), bias(&mut rng)], "biased");
    let glu = MatMul { segments: 2, epilogue: Epilogue::Glu(Unary::Silu), ..MatMul::plain() };
    check(&d, glu, &[x.clone(), w0.clone(), w1.clone()], "gated");
    let two = MatMul { segments: 2, ..MatMul::plain() };
    check(&d, two, &[x, w0, w1], "two types");
}

#[test]
fn rows_of_any_size_keep_their_digits() {
    let (d, mut rng) = (in_halves(Watch::Nothing), Rng(43));
    let (m, k, n) = (4u64, 64u64, 8u64);
    let w = weight(DType::F16, &[n, k], random_weights(&mut rng, DType::F16, 8, k as usize));
    // Beyond the range of f16 at either end, and zero.
    for scale in [1e30f32, 1e-30, 3e5, 0.0] {
        let xs: Vec<f32> = rng.floats((m * k) as usize).iter().map(|x| x * scale).collect();
        let operands = [input(&[m, k], &xs), w.clone()];
        let op = Op::from(MatMul::plain());
        let got = floats(&run_op(&d, op.clone(), &operands)[0]);
        let want = floats(&truth(&op, &operands)[0]);
        // The largest is no measure here: numbers are compared at their own size.
        let to_one = |xs: &[f32]| {
            xs.iter().map(|x| if scale == 0.0 { *x } else { x / scale }).collect::<Vec<f32>>()
        };
        let off = difference(&to_one(&got), &to_one(&want)).relative();
        assert!(off <= 1e-3, "{scale:e}: {off:e}");
    }
}
