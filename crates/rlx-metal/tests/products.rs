//! Our own products of a prompt's rows, of f32 and of f16, against the reference's.

use crate::common::*;
use crate::emulator::Watch;
use rlx_core::compare::difference;
use rlx_core::ops::{Epilogue, MatMul, Op, Unary};
use rlx_core::types::{BlockFormat, DType};
use std::sync::Arc;

const BLOCKS: [DType; 8] = [
    DType::Block(BlockFormat::Q4_0),
    DType::Block(BlockFormat::Q4_1),
    DType::Block(BlockFormat::Q5_0),
    DType::Block(BlockFormat::Q5_1),
    DType::Block(BlockFormat::Q8_0),
    DType::Block(BlockFormat::Q4K),
    DType::Block(BlockFormat::Q5K),
    DType::Block(BlockFormat::Q6K),
];

const HALVES: &str = "own_matmul_tile_half";
const FLOATS: &str = "own_matmul_tile";

/// Runs a product on our own kernel of halves; its results are those of the reference but for roundings to f16.
#[track_caller]
fn check(d: &Arc<TestDevice>, op: MatMul, operands: &[Operand], what: &str) {
    compare(d, HALVES, 1e-3, op, operands, what);
}

/// The same of floats, whose sums are in another order than the reference's.
#[track_caller]
fn check_floats(d: &Arc<TestDevice>, op: MatMul, operands: &[Operand], what: &str) {
    compare(d, FLOATS, 4e-6, op, operands, what);
}

#[track_caller]
fn compare(
    d: &Arc<TestDevice>,
    kernel: &str,
    most: f64,
    op: MatMul,
    operands: &[Operand],
    what: &str,
) {
    let op = Op::from(op);
    let before = d.gpu().metal().launches(kernel);
    let got = run_op(d, op.clone(), operands);
    assert!(d.gpu().metal().launches(kernel) > before, "{what}: another kernel ran");
    for (got, want) in got.iter().zip(truth(&op, operands)) {
        let off = difference(&floats(got), &floats(&want)).relative();
        assert!(off <= most, "{what}: {off:e}");
    }
}

#[test]
fn weights_of_each_type_are_multiplied() {
    let (halves, exact, mut rng) = (in_halves(Watch::Nothing), device(), Rng(41));
    // Several at once: one kernel. A row that is no whole 32; two blocks of 256; eight of them, which lie in planes.
    let numbers = [DType::F32, DType::F16, DType::BF16];
    let cases = [
        (&numbers[..], 67, 70, 70),
        (&BLOCKS[..4], 67, 70, 512),
        (&BLOCKS[4..], 33, 9, 512),
        (&BLOCKS[7..], 2, 8, 2048),
    ];
    for (types, m, n, k) in cases {
        let op = MatMul { segments: types.len(), ..MatMul::plain() };
        let mut operands = vec![input(&[m, k], &rng.floats((m * k) as usize))];
        for dtype in types {
            let w = random_weights(&mut rng, *dtype, n as usize, k as usize);
            operands.push(weight(*dtype, &[n, k], w));
        }
        let what = format!("{types:?} of {k}");
        check(&halves, op.clone(), &operands, &what);
        check_floats(&exact, op, &operands, &what);
    }
}

#[test]
fn products_of_floats_have_norms_gates_and_what_follows() {
    let (d, mut rng) = (device(), Rng(45));
    let (m, k, n) = (37u64, 256u64, 40u64);
    let [q4_k, q8_0] = [BlockFormat::Q4K, BlockFormat::Q8_0].map(DType::Block);
    let mut w =
        |dtype| weight(dtype, &[n, k], random_weights(&mut rng, dtype, n as usize, k as usize));
    let (w0, w1) = (w(q4_k), w(q8_0));
    let x = input(&[m, k], &rng.floats((m * k) as usize));
    let mut vector = |n: u64| weight(DType::F32, &[n], f32_bytes(&rng.floats(n as usize)));
    let (bias, norm) = (vector(n), vector(k));
    let residual = input(&[m, n], &rng.floats((m * n) as usize));
    let add = MatMul { epilogue: Epilogue::Add, ..MatMul::plain() };
    check_floats(&d, add, &[x.clone(), w0.clone(), residual], "added");
    let gelu = MatMul { epilogue: Epilogue::Map(Unary::Gelu), bias: true, ..MatMul::plain() };
    check_floats(&d, gelu, &[x.clone(), w0.clone(), bias], "biased");
    let glu = MatMul { segments: 2, epilogue: Epilogue::Glu(Unary::Silu), ..MatMul::plain() };
    check_floats(&d, glu.clone(), &[x.clone(), w0.clone(), w1.clone()], "gated");
    let normed = MatMul { norm: Some(1e-5), ..glu };
    assert_eq!(normed.parts().norm, Some(1));
    check_floats(&d, normed, &[x.clone(), norm.clone(), w0.clone(), w1.clone()], "normed");
    let two = MatMul { segments: 2, norm: Some(1e-5), ..MatMul::plain() };
    check_floats(&d, two, &[x, norm, w0, w1], "two types");
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
    assert_eq!(d.gpu().metal().launches("own_matmul_tile_half"), 0);
    assert_eq!(d.gpu().metal().launches("matmul_tile_half"), 1);
    check(&in_halves(Watch::Races), MatMul::plain(), &operands, "without races");
    check(&in_halves(Watch::Addresses), MatMul::plain(), &operands, "within its memory");
    let dtype = DType::Block(BlockFormat::Q5_0);
    let w = weight(dtype, &[8, 64], random_weights(&mut rng, dtype, 8, 64));
    for watch in [Watch::Races, Watch::Addresses] {
        let operands = [operands[0].clone(), w.clone()];
        check_floats(&watched(watch), MatMul::plain(), &operands, "floats");
    }
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
