//! Kernels of encoders and of vision under the emulator's checks, with warps of 64 lanes, and types beside those that
//! all GPU executors have.

use crate::common::*;
use crate::graphs::{check, claimed, floats, some, tensor};
use rlx_core::ops::{
    BatchMatMul, Conv, ConvTranspose, GatedDeltaNet, GroupNorm, Interpolate, Interpolation,
    LayerNorm, Mask, MatMul, Op, Pool, PoolKind, Reduce, Reduction, Sdpa, Softmax, Window,
};
use rlx_core::types::Scalar;
use rlx_cuda::driver::emulator::Watch;
use std::sync::Arc;

/// Kernels whose threads exchange numbers: their ends, and blocks of threads without a run.
fn kernels_that_share(d: &Arc<TestDevice>) {
    let mut rng = Rng(41);
    let on = |op: Op, operands: &[Operand]| check(d, op, operands, 6e-6);
    for (dims, axis) in [([2u64, 1500], 1), ([100, 3], 0)] {
        let op = Reduce { f: Reduction::Sum, axes: vec![axis], keep: false };
        on(op.into(), &[some(&mut rng, Scalar::F32, &dims)]);
    }
    on(Softmax { axis: 1 }.into(), &[floats(&mut rng, &[2, 65, 3])]);
    for n in [90, 1601] {
        let operands = [floats(&mut rng, &[3, n]), floats(&mut rng, &[n]), floats(&mut rng, &[n])];
        on(LayerNorm { eps: 1e-5, bias: true }.into(), &operands);
    }
    let operands = [floats(&mut rng, &[2, 70, 33]), floats(&mut rng, &[33, 66])];
    on(BatchMatMul::default().into(), &operands);
    for (head, queries) in [(16, 70), (6, 3)] {
        let op = Sdpa { mask: Mask::Causal, ..Sdpa::new(2, head) };
        let of = |rng: &mut Rng, s| floats(rng, &[1, s, 2, head as u64]);
        let operands = [of(&mut rng, queries), of(&mut rng, 71), of(&mut rng, 71)];
        on(op.into(), &operands);
    }
    let mut of = |s| some(&mut rng, Scalar::Bf16, &[1, s, 2, 32]);
    run_op(d, Sdpa::new(2, 32), &[of(70), of(71), of(71)]);
    let window = || Window::new(2).pad(&[1, 1], &[1, 1]);
    let op = Conv { window: window(), groups: 1, bias: false };
    on(op.clone().into(), &[floats(&mut rng, &[2, 3, 9, 8]), floats(&mut rng, &[6, 3, 3, 3])]);
    on(op.into(), &[floats(&mut rng, &[1, 8, 33, 32]), floats(&mut rng, &[64, 8, 3, 3])]);
    let weights = floats(&mut rng, &[12, 64]);
    on(MatMul::plain().into(), &[floats(&mut rng, &[130, 64]), weights]);
    let op = GatedDeltaNet { state_size: 9, ..GatedDeltaNet::default() };
    let mut of = |dims: &[u64]| floats(&mut rng, dims);
    let operands = [of(&[4, 1, 9]), of(&[4, 1, 9]), of(&[4, 2, 33]), of(&[4, 2, 9]), of(&[4, 2])];
    on(op.into(), &operands);
}

#[test]
fn networks_kernels_have_no_races() {
    kernels_that_share(&emulated(32, Watch::Races));
}

#[test]
fn networks_kernels_run_with_warps_of_64() {
    kernels_that_share(&emulated(64, Watch::Nothing));
}

#[test]
fn networks_kernels_stay_within_their_memory() {
    let d = emulated(32, Watch::Addresses);
    kernels_that_share(&d);
    let mut rng = Rng(42);
    let on = |op: Op, operands: &[Operand]| check(&d, op, operands, 6e-6);
    let window = || Window::new(2).stride(&[2, 1]).pad(&[1, 0], &[0, 1]);
    let x = floats(&mut rng, &[2, 4, 5, 7]);
    let each = Conv { window: window(), groups: 4, bias: false };
    on(each.into(), &[x.clone(), floats(&mut rng, &[4, 1, 3, 2])]);
    let back = ConvTranspose { window: window(), extra: vec![1, 0], groups: 2, bias: false };
    on(back.into(), &[x.clone(), floats(&mut rng, &[4, 3, 3, 2])]);
    let op =
        Pool { kind: PoolKind::Max, kernel: vec![2, 3], window: window(), count_padding: false };
    on(op.into(), std::slice::from_ref(&x));
    let mode = Interpolation::Cubic;
    let op = Interpolate { size: vec![9, 3], mode, align_corners: false, antialias: true };
    on(op.into(), std::slice::from_ref(&x));
    let operands =
        [floats(&mut rng, &[1, 2, 96, 97]), floats(&mut rng, &[2]), floats(&mut rng, &[2])];
    on(GroupNorm { groups: 1, eps: 1e-5 }.into(), &operands);
}

#[test]
fn reductions_take_numbers_of_64_bits_and_halves() {
    let (d, mut rng) = (plain_device(), Rng(43));
    let large = tensor(Scalar::I64, &[2, 3], &[3e12, -5e12, 7.0, -1.0, 2e15, 4.0]);
    let odd = tensor(Scalar::F64, &[2, 3], &[1e-9, 3.0, 1e9, -2e-9, 0.25, -7.0]);
    for f in Reduction::ALL.map(|row| row.0) {
        let op = |axis: usize| Reduce { f, axes: vec![axis], keep: false };
        if f != Reduction::Mean {
            check(&d, op(1), std::slice::from_ref(&large), 0.0);
        }
        check(&d, op(0), std::slice::from_ref(&odd), 1e-15);
        if f != Reduction::Prod {
            check(&d, op(0), &[some(&mut rng, Scalar::F16, &[40, 3])], 1e-3);
            check(&d, op(1), &[some(&mut rng, Scalar::Bf16, &[2, 300])], 8e-3);
        }
    }
    // Norms of halves, with weights of their type or of f32.
    for weights in [Scalar::F32, Scalar::Bf16] {
        let of = |rng: &mut Rng, ty, dims: &[u64]| some(rng, ty, dims);
        let x = of(&mut rng, Scalar::Bf16, &[3, 72]);
        let operands = [x, of(&mut rng, weights, &[72]), of(&mut rng, weights, &[72])];
        check(&d, LayerNorm { eps: 1e-5, bias: true }, &operands, 8e-3);
    }
    check(&d, Softmax { axis: 1 }, &[some(&mut rng, Scalar::F16, &[3, 70])], 1e-3);
}

#[test]
fn what_networks_kernels_do_not_take_is_refused_by_name() {
    let mut rng = Rng(44);
    let mut why = |op: Op, ty: Scalar| claimed(&op, &[some(&mut rng, ty, &[1, 2, 3])]).unwrap_err();
    let sum = Reduce { f: Reduction::Sum, axes: vec![1], keep: false };
    assert_eq!(why(sum.into(), Scalar::Bool), "its kernel takes no bool as operand 0");
    assert_eq!(
        why(Softmax { axis: 1 }.into(), Scalar::F64),
        "its kernel takes no f64 as operand 0"
    );
    let window = Window::new(1).pad(&[1 << 31], &[0]);
    let op = Pool { kind: PoolKind::Max, kernel: vec![2], window, count_padding: false };
    let room = "its kernel has no room for 2147483651 places of an axis";
    assert_eq!(why(op.into(), Scalar::F32), room);
    let wide = Sdpa { v_head_dim: 8193, ..Sdpa::new(1, 2) };
    let of = |rng: &mut Rng, n| floats(rng, &[1, 1, 1, n]);
    let operands = [of(&mut rng, 2), of(&mut rng, 2), of(&mut rng, 8193)];
    let why = claimed(&wide.into(), &operands).unwrap_err();
    assert_eq!(why, "its kernel takes values up to 8192 wide, not 8193");
}
