//! Products of tensors, and matmuls of more than two axes.

use super::*;
use crate::common::device;
use rlx_core::ops::{BatchMatMul, DotGeneral, Epilogue, MatMul, Unary};

#[test]
fn batches_repeat_and_sizes_are_odd() {
    let (d, mut rng) = (device(), Rng(71));
    for transpose_b in [false, true] {
        for (a, b, m, k, n) in [
            (vec![], vec![], 1u64, 1u64, 1u64),
            (vec![3u64], vec![3u64], 5, 7, 9),
            (vec![2, 3], vec![3], 17, 33, 65),
            (vec![2, 1], vec![1, 3], 3, 16, 70),
            (vec![], vec![2], 70, 19, 6),
            (vec![2], vec![], 20, 40, 12),
            (vec![0], vec![1], 3, 4, 5),
            (vec![2], vec![2], 3, 0, 5),
        ] {
            let a = [a, vec![m, k]].concat();
            let b = [b, if transpose_b { vec![n, k] } else { vec![k, n] }].concat();
            let operands = [floats(&mut rng, &a), floats(&mut rng, &b)];
            check(&d, BatchMatMul { transpose_b }, &operands, 2e-6);
        }
    }
    for scalar in [Scalar::F16, Scalar::Bf16] {
        let operands = [some(&mut rng, scalar, &[2, 5, 9]), some(&mut rng, scalar, &[2, 9, 6])];
        check(&d, BatchMatMul::default(), &operands, 1e-2);
    }
}

#[test]
fn any_axes_are_contracted() {
    let (d, mut rng) = (device(), Rng(72));
    let dot = |lists: [&[usize]; 4]| DotGeneral {
        lhs_batch: lists[0].to_vec(),
        rhs_batch: lists[1].to_vec(),
        lhs_contract: lists[2].to_vec(),
        rhs_contract: lists[3].to_vec(),
    };
    for (op, a, b) in [
        (dot([&[], &[], &[1], &[0]]), vec![3u64, 5], vec![5u64, 7]),
        (dot([&[1], &[2], &[0, 3], &[1, 0]]), vec![5, 2, 3, 7], vec![7, 5, 2, 4]),
        (dot([&[0, 1], &[0, 1], &[2], &[2]]), vec![2, 3, 17], vec![2, 3, 17]),
        (dot([&[], &[], &[], &[]]), vec![3, 2], vec![5]),
        (dot([&[], &[], &[0, 1], &[1, 0]]), vec![4, 5], vec![5, 4]),
    ] {
        check(&d, op, &[floats(&mut rng, &a), floats(&mut rng, &b)], 3e-6);
    }
}

#[test]
fn a_matmul_takes_rows_of_any_rank_with_its_epilogue() {
    let (d, mut rng) = (device(), Rng(73));
    for lead in [vec![], vec![3u64], vec![2, 3], vec![2, 1, 35]] {
        let x = floats(&mut rng, &[lead.clone(), vec![33]].concat());
        let (w, bias) = (floats(&mut rng, &[10, 33]), floats(&mut rng, &[10]));
        let op = MatMul { bias: true, epilogue: Epilogue::Map(Unary::GeluErf), ..MatMul::plain() };
        check(&d, op, &[x.clone(), w.clone(), bias], 1e-5);
        let residual = floats(&mut rng, &[lead, vec![10]].concat());
        let op = MatMul { epilogue: Epilogue::Add, ..MatMul::plain() };
        check(&d, op, &[x, w, residual], 1e-5);
    }
}
