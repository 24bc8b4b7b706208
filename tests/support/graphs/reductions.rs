//! Sums, extremes, norms.

use super::*;
use crate::common::device;
use rlx_core::ops::{ArgMax, ArgMin, GroupNorm, LayerNorm, Reduce, Reduction, RmsNorm, Softmax};

#[test]
fn every_reduction_over_any_axes() {
    let (d, mut rng) = (device(), Rng(61));
    for f in Reduction::ALL.map(|row| row.0) {
        for axes in [vec![], vec![0], vec![1], vec![2], vec![0, 2], vec![1, 2], vec![0, 1, 2]] {
            let x = some(&mut rng, Scalar::F32, &[3, 5, 7]);
            // Products of a hundred numbers are large.
            check(&d, Reduce { f, axes, keep: false }, &[x], 1e-5);
        }
        // A workgroup's own runs, side by side and far apart.
        if f != Reduction::Prod {
            for (dims, axis) in [([2u64, 1500], 1), ([100, 3], 0), ([300, 1], 0)] {
                let x = some(&mut rng, Scalar::F32, &dims);
                check(&d, Reduce { f, axes: vec![axis], keep: true }, &[x], 1e-5);
            }
        }
        for scalar in [Scalar::I32, Scalar::U32, Scalar::I16, Scalar::I8, Scalar::U8] {
            if f != Reduction::Mean {
                for (dims, axis) in [([3u64, 5], 1), ([100, 3], 0)] {
                    let op = Reduce { f, axes: vec![axis], keep: false };
                    check(&d, op, &[some(&mut rng, scalar, &dims)], 0.0);
                }
            }
        }
        // Of nothing.
        for scalar in [Scalar::F32, Scalar::I8] {
            if f != Reduction::Mean || scalar == Scalar::F32 {
                let op = Reduce { f, axes: vec![0], keep: false };
                let got =
                    run(&d, &case(op.clone(), &[some(&mut rng, scalar, &[0, 3])], Buffers::One));
                let x = some(&mut rng, scalar, &[0, 3]);
                let want = reference::run(&op.into(), &[View::new(&x.ty, &x.bytes)]).unwrap();
                let ty = DType::Scalar(scalar);
                let (got, want) = (decode(ty, &got.unwrap()[0]), decode(ty, &want[0]));
                let same = |(a, b): (&f64, &f64)| a == b || (a.is_nan() && b.is_nan());
                assert!(got.iter().zip(&want).all(same), "{f:?}: {got:?}, expected {want:?}");
            }
        }
    }
    check(
        &d,
        Reduce { f: Reduction::Sum, axes: vec![0], keep: false },
        &[some(&mut rng, Scalar::F32, &[3, 0])],
        0.0,
    );
}

#[test]
fn shares_of_any_axis() {
    let (d, mut rng) = (device(), Rng(62));
    for (dims, axis) in [
        (vec![3u64, 7], 1),
        (vec![3, 300], 1),
        (vec![5, 3, 2], 0),
        (vec![2, 65, 3], 1),
        (vec![1], 0),
        (vec![0, 4], 1),
    ] {
        check(&d, Softmax { axis }, &[floats(&mut rng, &dims)], 2e-6);
    }
    let inf = f64::NEG_INFINITY;
    let x = tensor(Scalar::F32, &[2, 4], &[inf, 0.0, 1.0, inf, 1e4, -1e4, 1e4, inf]);
    check(&d, Softmax { axis: 1 }, &[x], 2e-6);
}

#[test]
fn norms_of_odd_runs() {
    let (d, mut rng) = (device(), Rng(63));
    for dims in [vec![3u64, 1], vec![2, 3, 65], vec![1, 257], vec![768], vec![0, 5]] {
        let last = [*dims.last().unwrap()];
        let x = floats(&mut rng, &dims);
        let (scale, bias) = (floats(&mut rng, &last), floats(&mut rng, &last));
        let operands = [x.clone(), scale.clone(), bias];
        check(&d, LayerNorm { eps: 1e-5, bias: true }, &operands, 3e-6);
        check(&d, LayerNorm { eps: 1e-3, bias: false }, &operands[..2], 3e-6);
        check(&d, RmsNorm { eps: 1e-5 }, &operands[..2], 3e-6);
    }
    // A mean far from 0 leaves differences as they are.
    let far: Vec<f64> = (0..100).map(|i| 1000.0 + f64::from(i % 7)).collect();
    let ones = tensor(Scalar::F32, &[100], &[1.0; 100]);
    let operands = [tensor(Scalar::F32, &[1, 100], &far), ones];
    check(&d, LayerNorm { eps: 1e-5, bias: false }, &operands, 1e-4);
    for (dims, groups) in [
        (vec![2u64, 6, 5], 3),
        (vec![1, 4, 3, 3], 1),
        (vec![2, 3, 2, 7], 3),
        (vec![3, 4], 2),
        // Runs so long that threads read them by 16 bytes, eight at a time; and as long ones whose channels are odd.
        (vec![2, 4, 66, 64], 2),
        (vec![1, 2, 96, 97], 1),
        (vec![1, 3, 59, 63], 1),
    ] {
        let c = [dims[1]];
        let operands = [floats(&mut rng, &dims), floats(&mut rng, &c), floats(&mut rng, &c)];
        check(&d, GroupNorm { groups, eps: 1e-5 }, &operands, 5e-6);
    }
}

#[test]
fn extremes_are_the_first_of_equals_and_no_nan() {
    let (d, mut rng) = (device(), Rng(64));
    for scalar in [Scalar::F32, Scalar::F16, Scalar::Bf16, Scalar::I32, Scalar::I8, Scalar::U8] {
        for (dims, axis) in
            [(vec![3u64, 67], 1), (vec![67, 3], 0), (vec![2, 5, 3], 1), (vec![300], 0)]
        {
            check(&d, ArgMax { axis, keep: false }, &[some(&mut rng, scalar, &dims)], 0.0);
            check(&d, ArgMin { axis, keep: true }, &[some(&mut rng, scalar, &dims)], 0.0);
        }
    }
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    let x = tensor(
        Scalar::F32,
        &[4, 3],
        &[nan, 1.0, 1.0, nan, nan, nan, -inf, -inf, nan, inf, 5.0, inf],
    );
    check(&d, ArgMax { axis: 1, keep: false }, core::slice::from_ref(&x), 0.0);
    check(&d, ArgMin { axis: 1, keep: false }, &[x], 0.0);
}
