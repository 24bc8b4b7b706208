//! Copies in another order, at every SIMD level, with one worker and with three: the reference's bytes.
#![cfg(feature = "graphs")]

use crate::common;
use common::*;
use rlx_core::ops::*;
use rlx_core::target::Path;
use rlx_core::types::{BlockFormat, DType, Kind, Scalar, Shape, Type};
use rlx_cpu::target;

const SIZES: [Scalar; 4] = [Scalar::U8, Scalar::F16, Scalar::F32, Scalar::I64];

#[track_caller]
fn check_bytes(op: impl Into<Op>, operands: &[Value], what: &str) {
    let op = op.into();
    let types: Vec<&Type> = operands.iter().map(|v| &v.ty).collect();
    let expected = oracle(&op, operands);
    match target().path(&op, &types) {
        Ok(Path::Native) => {}
        // Nothing runs where the bytes are the operand's.
        Ok(Path::View) => return,
        other => panic!("{op:?} {what}: {other:?}"),
    }
    for device in devices() {
        assert_eq!(run_op(&device, &op, operands), expected, "{op:?} {what}");
    }
}

#[test]
fn axes_in_every_order() {
    let mut random = Random(51);
    let cases: [(&[u64], &[usize]); 12] = [
        (&[5, 7], &[1, 0]),
        (&[130, 70], &[1, 0]),
        (&[2, 3, 4], &[2, 0, 1]),
        (&[2, 3, 4], &[0, 2, 1]),
        (&[2, 9, 5, 8], &[0, 2, 1, 3]),
        (&[3, 40, 33], &[0, 2, 1]),
        (&[2, 3, 4, 5, 6], &[4, 3, 2, 1, 0]),
        (&[2, 1, 4, 1, 3], &[4, 1, 2, 3, 0]),
        (&[0, 3], &[1, 0]),
        (&[1, 1], &[1, 0]),
        (&[2, 2, 2, 2], &[3, 1, 2, 0]),
        (&[17, 3, 65], &[2, 1, 0]),
    ];
    for scalar in SIZES {
        for (dims, perm) in cases {
            let x = random.integers(scalar, dims);
            check_bytes(Transpose { perm: perm.to_vec() }, &[x], scalar.name());
        }
    }
}

#[test]
fn slices_forwards_backwards_and_in_steps() {
    let mut random = Random(52);
    for scalar in SIZES {
        for (dims, axis, start, len, step) in [
            (&[7u64, 5][..], 1, 1, 3, 1),
            (&[7, 5], 0, 6, 3, -2),
            (&[7, 5], 1, 4, 5, -1),
            (&[2, 9, 4], 1, 0, 5, 2),
            (&[2, 9, 4], 1, 3, 0, 1),
            (&[100], 0, 1, 33, 3),
            (&[3, 4, 5], 2, 0, 1, 1),
        ] {
            let x = random.integers(scalar, dims);
            let op = Slice { axis, start: (start as u64).into(), len: (len as u64).into(), step };
            check_bytes(op, &[x], scalar.name());
        }
    }
    let packed = random.packed(DType::Block(BlockFormat::Q8_0), [9, 64]);
    let op = Slice { axis: 0, start: 8u64.into(), len: 4u64.into(), step: -2 };
    check_bytes(op, &[packed], "packed rows");
}

#[test]
fn axes_reversed_and_turned_round() {
    let mut random = Random(53);
    for scalar in SIZES {
        for dims in [&[7][..], &[3, 5], &[2, 1, 9], &[4, 0], &[6, 50]] {
            let axes: Vec<usize> = (0..dims.len()).collect();
            let x = [random.integers(scalar, dims)];
            check_bytes(Reverse { axes: axes.clone() }, &x, "all");
            check_bytes(Reverse { axes: vec![dims.len() - 1] }, &x, "last");
            for shift in [0, 1, -2, 100, i64::MIN] {
                let op = Roll { shifts: vec![shift; dims.len()], axes: axes.clone() };
                check_bytes(op, &x, "all");
                check_bytes(Roll { shifts: vec![shift], axes: vec![0] }, &x, "first");
            }
        }
    }
}

#[test]
fn elements_around_a_tensor() {
    let mut random = Random(54);
    for scalar in [Scalar::F32, Scalar::F16, Scalar::Bf16, Scalar::I32, Scalar::U8, Scalar::I64] {
        for mode in [
            PadMode::Constant(0.0),
            PadMode::Constant(-2.7),
            PadMode::Reflect,
            PadMode::Replicate,
            PadMode::Circular,
        ] {
            for (dims, low, high) in [
                (&[4u64][..], &[3u64][..], &[2u64][..]),
                (&[3, 5], &[1, 0], &[2, 4]),
                (&[2, 3, 4], &[0, 2, 1], &[0, 0, 3]),
                (&[2, 2, 30], &[0, 0, 0], &[0, 0, 0]),
            ] {
                let x = random.integers(scalar, dims);
                let op = Pad { low: low.to_vec(), high: high.to_vec(), mode };
                check_bytes(op, &[x], scalar.name());
            }
        }
    }
    let empty = random.integers(Scalar::F32, &[0, 2]);
    let op = Pad { low: vec![1, 0], high: vec![1, 1], mode: PadMode::Constant(1.0) };
    check_bytes(op, &[empty], "nothing inside");
}

#[test]
fn tensors_one_after_another() {
    let mut random = Random(55);
    for scalar in SIZES {
        for (axis, all) in [
            (0, vec![vec![2u64, 3], vec![1, 3], vec![0, 3], vec![5, 3]]),
            (1, vec![vec![2, 3], vec![2, 1], vec![2, 40]]),
            (1, vec![vec![2, 3, 5], vec![2, 0, 5], vec![2, 4, 5]]),
            (0, (0..15).map(|i| vec![i]).collect()),
        ] {
            let operands: Vec<Value> = all.iter().map(|d| random.integers(scalar, d)).collect();
            check_bytes(Concat { axis }, &operands, scalar.name());
        }
    }
}

#[test]
fn indices_of_any_axis_and_type() {
    let mut random = Random(56);
    let ids = |scalar: Scalar, dims: &[u64]| {
        // Within, from the end, and outside on both sides.
        let all = [0i64, 2, -1, 1, -3, 900, -900, 1];
        let n = dims.iter().product::<u64>() as usize;
        let bytes = (0..n).flat_map(|i| {
            let id = all[i % all.len()];
            match scalar {
                Scalar::I64 => id.to_le_bytes().to_vec(),
                Scalar::I32 => (id as i32).to_le_bytes().to_vec(),
                _ => (id.unsigned_abs() as u32).to_le_bytes().to_vec(),
            }
        });
        Value::new(Type::tensor(DType::Scalar(scalar), Shape::of(dims)), bytes.collect())
    };
    for of_ids in [Scalar::U32, Scalar::I32, Scalar::I64] {
        for scalar in SIZES {
            for (dims, axis, shape) in [
                (&[3u64, 4, 5][..], 1, &[2u64, 3][..]),
                (&[3, 5], 1, &[8]),
                (&[4], 0, &[]),
                (&[3, 2, 2], 0, &[0]),
                (&[2, 3, 1], 2, &[3]),
            ] {
                let x = random.integers(scalar, dims);
                check_bytes(Gather { axis }, &[x, ids(of_ids, shape)], scalar.name());
            }
            for (dims, axis, of) in [
                (&[3u64, 4][..], 0, &[6u64, 4][..]),
                (&[3, 4], 1, &[3, 9]),
                (&[2, 3, 5], 1, &[2, 1, 5]),
                (&[7], 0, &[0]),
            ] {
                let x = random.integers(scalar, dims);
                check_bytes(GatherElements { axis }, &[x, ids(of_ids, of)], scalar.name());
            }
        }
        // Rows of an embedding by a matrix of ids.
        let table = f32s(&[7, 40], &random.floats(280)).weight();
        check_bytes(Gather { axis: 0 }, &[table, ids(of_ids, &[2, 5])], "embedding");
    }
    for dtype in weight_types() {
        let table = random.packed(dtype, [7, 256]);
        check_bytes(Gather { axis: 0 }, &[table, ids(Scalar::U32, &[2, 3])], dtype.name());
    }
}

#[test]
fn indices_along_an_axis() {
    for scalar in
        [Scalar::F32, Scalar::F16, Scalar::Bf16, Scalar::I64, Scalar::U32, Scalar::U8, Scalar::I8]
    {
        for (dims, axis) in [(&[5u64][..], 0), (&[2, 3], 0), (&[2, 700, 1], 1), (&[0, 2], 1)] {
            let op = Iota { dtype: DType::Scalar(scalar), dims: Shape::of(dims), axis };
            check_bytes(op, &[], scalar.name());
        }
    }
}

#[test]
fn random_numbers_are_the_references() {
    for key in [[0; 4], [7, 9, u32::MAX, 3], [1, 2, u32::MAX - 4, u32::MAX]] {
        for dims in [&[1u64][..], &[5, 13], &[], &[0, 4], &[3, 700]] {
            let key = u32s(&[4], &key);
            check_bytes(
                RandomUniform { dims: Shape::of(dims) },
                std::slice::from_ref(&key),
                "uniform",
            );
            check_bytes(RandomNormal { dims: Shape::of(dims) }, &[key], "normal");
        }
    }
}

#[test]
fn slices_of_a_state_are_overwritten() {
    let mut random = Random(57);
    for scalar in SIZES {
        for (dims, new, axis, at) in [
            (&[4u64, 6][..], &[4u64, 2][..], 1, 3u32),
            (&[4, 6], &[2, 6], 0, 900),
            (&[2, 5, 3], &[2, 5, 3], 1, 1),
            (&[2, 5, 3], &[2, 0, 3], 1, 1),
            (&[3, 200], &[3, 100], 1, 7),
        ] {
            let x = random.integers(scalar, new);
            let mut state = random.integers(scalar, dims);
            state.ty.kind = Kind::State;
            check_bytes(StateWrite { axis }, &[state, x, u32s(&[1], &[at])], scalar.name());
        }
    }
}
