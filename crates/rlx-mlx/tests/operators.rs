//! Operators of language models on MLX against `rlx_core::reference`.

use crate::common::{agrees, device, device_with, f64s, run_op, truth};
use crate::decoder::decoded;
use crate::step::*;
use rlx_core::ops::{Binary, Gather, KvWrite, Map, Op, Unary, Zip};
use rlx_core::types::DType;

#[test]
fn operands_repeat_as_rows_columns_and_numbers() {
    let mut rng = Rng(3);
    let x = input(&[3, 5, 7], &rng.floats(105));
    for (f, dims) in [
        (Binary::Add, vec![3u64, 5, 7]),
        (Binary::Sub, vec![7]),
        (Binary::Mul, vec![3, 5, 1]),
        (Binary::Max, vec![1, 1, 1]),
        (Binary::Min, vec![1, 1, 7]),
    ] {
        let n = dims.iter().product::<u64>() as usize;
        agrees(Zip { f }, &[x.clone(), input(&dims, &rng.floats(n))], 1e-7);
    }
    let positive: Vec<f32> = rng.floats(7).iter().map(|x| x.abs() + 0.5).collect();
    agrees(Zip { f: Binary::Div }, &[x.clone(), input(&[7], &positive)], 1e-6);
}

#[test]
fn rows_of_a_table_are_decoded() {
    let mut rng = Rng(11);
    for dtype in decoded() {
        let k = if dtype.is_block() { 512u64 } else { 67 };
        let table = weight(dtype, &[5, k], random_weights(&mut rng, dtype, 5, k as usize));
        // An id past the end reads the last row.
        let operands = [table, ids(&[4, 0, 2, 9, 2])];
        let op = Op::from(Gather::default());
        let (got, want) = (run_op(&device(), op.clone(), &operands), truth(&op, &operands));
        // A zero may have another sign: MLX adds a bias.
        let (got, want) = (floats(&got[0]), floats(&want[0]));
        assert!(got == want, "{dtype}: the numbers of the reference");
    }
}

/// By MLX's own compiler: two programs of one device, the first of them twice, and results that are arguments.
#[test]
fn compiled_programs_are_the_same() {
    let (d, mut rng) = (device_with(rlx_mlx::Options { cpu: true, compile: true }), Rng(31));
    for n in [5u64, 9, 5] {
        let x = input(&[2, n], &rng.floats(2 * n as usize));
        let op = Op::from(Map { f: Unary::Silu });
        let want = f64s(&truth(&op, std::slice::from_ref(&x))[0]);
        let got = run_op(&d, op, std::slice::from_ref(&x));
        assert_close("silu", &floats(&got[0]), &want, 1e-6);
        // Nothing is done: the cache comes back as it is.
        let operands =
            [cache(&mut rng, DType::F32, 2, n, 4), input(&[0, 8], &[]), control(0, 0, 0)];
        let op = Op::from(KvWrite { ring: false });
        assert_eq!(run_op(&d, op, &operands)[0], operands[0].bytes);
    }
}
