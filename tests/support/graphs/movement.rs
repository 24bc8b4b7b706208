//! Operators that move elements: results are the reference's bits.

use super::*;
use crate::common::{device, state};
use rlx_core::ops::{
    Concat, Expand, Gather, GatherElements, Im2Col, Iota, Pad, PadMode, Reverse, Roll, ScatterAdd,
    Slice, Sort, StateWrite, TopK, Transpose, Window,
};

/// Types of every size, whose numbers tests can compare.
const SIZES: [Scalar; 4] = [Scalar::F32, Scalar::F16, Scalar::I8, Scalar::I64];

#[test]
fn axes_change_places_directions_and_sizes() {
    let (d, mut rng) = (device(), Rng(51));
    for scalar in SIZES {
        for perm in [vec![2, 0, 1], vec![1, 0, 2], vec![0, 2, 1], vec![2, 1, 0]] {
            check(&d, Transpose { perm }, &[some(&mut rng, scalar, &[3, 5, 7])], 0.0);
        }
        for axes in [vec![0], vec![1], vec![0, 2], vec![]] {
            check(&d, Reverse { axes }, &[some(&mut rng, scalar, &[3, 4, 5])], 0.0);
        }
        for (from, to) in [(&[3, 1, 5][..], &[2, 3, 4, 5][..]), (&[], &[7]), (&[1, 7], &[6, 7])] {
            check(&d, Expand { dims: Shape::of(to) }, &[some(&mut rng, scalar, from)], 0.0);
        }
        for (axis, start, len, step) in
            [(0, 0, 2, 2), (1, 3, 2, -2), (2, 0, 3, 2), (2, 6, 7, -1), (1, 2, 0, 1)]
        {
            let op = Slice { axis, start: u64::into(start), len: u64::into(len), step };
            check(&d, op, &[some(&mut rng, scalar, &[3, 5, 7])], 0.0);
        }
        for shifts in [vec![2, -1], vec![-7, 100], vec![0, 3]] {
            check(
                &d,
                Roll { shifts, axes: vec![0, 2] },
                &[some(&mut rng, scalar, &[3, 2, 5])],
                0.0,
            );
        }
    }
    check(&d, Transpose { perm: vec![1, 0] }, &[some(&mut rng, Scalar::F32, &[0, 3])], 0.0);
    let perm = vec![4, 1, 3, 0, 2];
    check(&d, Transpose { perm }, &[some(&mut rng, Scalar::Bool, &[2, 3, 2, 3, 2])], 0.0);
}

/// Rows of whole words, of halves of words, and of an odd number of bytes.
#[test]
fn tensors_join_along_any_axis() {
    let (d, mut rng) = (device(), Rng(52));
    for scalar in SIZES {
        for axis in 0..3 {
            let mut operands = Vec::new();
            for n in [1, 3, 0, 2] {
                let mut dims = [2, 3, 5];
                dims[axis] = n;
                operands.push(some(&mut rng, scalar, &dims));
            }
            check(&d, Concat { axis }, &operands, 0.0);
        }
    }
}

#[test]
fn edges_are_padded_in_every_mode() {
    let (d, mut rng) = (device(), Rng(53));
    for mode in [
        PadMode::Constant(0.0),
        PadMode::Constant(-1.5),
        PadMode::Reflect,
        PadMode::Replicate,
        PadMode::Circular,
    ] {
        for scalar in [Scalar::F32, Scalar::F16, Scalar::Bool] {
            for (low, high) in [(vec![1, 0, 2], vec![2, 0, 3]), (vec![0, 1, 0], vec![0, 0, 1])] {
                let operands = [some(&mut rng, scalar, &[3, 2, 5])];
                check(&d, Pad { low, high, mode }, &operands, 0.0);
            }
        }
    }
    let infinite = PadMode::Constant(f32::NEG_INFINITY);
    let op = Pad { low: vec![1, 1], high: vec![0, 1], mode: infinite };
    check(&d, op.clone(), &[some(&mut rng, Scalar::F32, &[2, 3])], 0.0);
    check(&d, op, &[some(&mut rng, Scalar::F32, &[0, 3])], 0.0);
    let op = Pad { low: vec![3], high: vec![2], mode: PadMode::Constant(0.0) };
    check(&d, op, &[some(&mut rng, Scalar::I64, &[3])], 0.0);
}

#[test]
fn windows_become_columns() {
    let (d, mut rng) = (device(), Rng(57));
    for scalar in [Scalar::F32, Scalar::F16, Scalar::F64] {
        let image = some(&mut rng, scalar, &[2, 3, 5, 7]);
        for (kernel, window) in [
            ([3, 3], Window::new(2).pad(&[1, 1], &[1, 1])),
            ([2, 3], Window::new(2).stride(&[2, 3]).pad(&[0, 2], &[1, 0])),
            ([2, 2], Window::new(2).dilation(&[3, 1])),
            ([1, 1], Window::new(2)),
        ] {
            let op = Im2Col { kernel: kernel.to_vec(), window };
            check(&d, op, core::slice::from_ref(&image), 0.0);
        }
        let window = Window::new(1).pad(&[3], &[0]);
        check(&d, Im2Col { kernel: vec![4], window }, &[some(&mut rng, scalar, &[1, 2, 9])], 0.0);
        let window = Window::new(3).stride(&[1, 2, 1]);
        let volume = some(&mut rng, scalar, &[1, 2, 3, 4, 5]);
        check(&d, Im2Col { kernel: vec![2, 2, 2], window }, &[volume], 0.0);
    }
}

#[test]
fn indices_of_every_type_count_from_either_end() {
    let (d, mut rng) = (device(), Rng(54));
    let outside = [0.0, 4.0, -1.0, -5.0, -6.0, 5.0, 1e6, 2.0, -1e6];
    for ids in [Scalar::U32, Scalar::I32, Scalar::I64] {
        let ids = |dims: &[u64]| tensor(ids, dims, &outside[..elements(dims)]);
        for scalar in SIZES {
            for axis in 0..3 {
                let mut dims = [2, 3, 4];
                dims[axis] = 5;
                let x = some(&mut rng, scalar, &dims);
                check(&d, Gather { axis }, &[x.clone(), ids(&[9])], 0.0);
                check(&d, Gather { axis }, &[x.clone(), ids(&[3, 1, 2])], 0.0);
                check(&d, Gather { axis }, &[x, ids(&[])], 0.0);
            }
        }
        check(
            &d,
            GatherElements { axis: 1 },
            &[some(&mut rng, Scalar::F32, &[3, 5]), ids(&[3, 3])],
            0.0,
        );
        check(
            &d,
            GatherElements { axis: 0 },
            &[some(&mut rng, Scalar::I8, &[5, 3]), ids(&[2, 3])],
            0.0,
        );
        check(&d, GatherElements { axis: 0 }, &[some(&mut rng, Scalar::I64, &[5]), ids(&[4])], 0.0);
        for scalar in [Scalar::F32, Scalar::F16, Scalar::I32, Scalar::U8] {
            let operands =
                [some(&mut rng, scalar, &[2, 5, 3]), ids(&[9]), some(&mut rng, scalar, &[2, 9, 3])];
            check(&d, ScatterAdd { axis: 1 }, &operands, 1e-3);
        }
        // Rows of a table of halves become f32, whatever the indices' shape.
        for table in [Scalar::F32, Scalar::F16, Scalar::Bf16] {
            check(&d, Gather { axis: 0 }, &[some(&mut rng, table, &[5, 7]), ids(&[3, 3])], 0.0);
        }
    }
    let none = tensor(Scalar::U32, &[0], &[]);
    check(&d, Gather { axis: 0 }, &[some(&mut rng, Scalar::F32, &[5, 7]), none], 0.0);
}

#[test]
fn axes_are_counted() {
    let d = device();
    for scalar in SCALARS.into_iter().filter(|s| *s != Scalar::Bool) {
        for axis in 0..3 {
            let op = Iota { dtype: DType::Scalar(scalar), dims: Shape::of(&[3, 5, 7]), axis };
            check(&d, op, &[], 0.0);
        }
    }
    check(&d, Iota { dtype: DType::F32, dims: Shape::of(&[0]), axis: 0 }, &[], 0.0);
}

#[test]
fn elements_stand_in_order_with_ties_to_the_first() {
    let (d, mut rng) = (device(), Rng(55));
    let odd = [3.0, f64::NAN, -0.0, 0.0, f64::INFINITY, 3.0, f64::NEG_INFINITY, f64::NAN, 1.0];
    for descending in [false, true] {
        check(&d, Sort { axis: 0, descending }, &[tensor(Scalar::F32, &[9], &odd)], 0.0);
        for axis in 0..2 {
            for scalar in [Scalar::F32, Scalar::I32, Scalar::U32] {
                let operands = [some(&mut rng, scalar, &[67, 3])];
                check(&d, Sort { axis, descending }, &operands, 0.0);
            }
        }
    }
    for scalar in [Scalar::F32, Scalar::F16, Scalar::I8, Scalar::U32] {
        for k in [1, 3, 65] {
            check(&d, TopK { k }, &[some(&mut rng, scalar, &[3, 65])], 0.0);
        }
    }
    check(&d, TopK { k: 4 }, &[tensor(Scalar::F32, &[9], &odd)], 0.0);
}

#[test]
fn states_take_slices_where_they_fit() {
    let (d, mut rng) = (device(), Rng(56));
    for (scalar, x) in [
        (Scalar::F32, Scalar::F32),
        (Scalar::F16, Scalar::F32),
        (Scalar::F32, Scalar::F16),
        (Scalar::I8, Scalar::I8),
        (Scalar::I64, Scalar::I64),
    ] {
        for at in [0.0, 1.0, 3.0, 9.0] {
            for (axis, dims) in [(1, [2u64, 2, 4]), (0, [1, 5, 4])] {
                let old = some(&mut rng, scalar, &[2, 5, 4]);
                let operands = [
                    state(DType::Scalar(scalar), &[2, 5, 4], old.bytes),
                    some(&mut rng, x, &dims),
                    tensor(Scalar::U32, &[1], &[at]),
                ];
                check(&d, StateWrite { axis }, &operands, 0.0);
            }
        }
    }
}
