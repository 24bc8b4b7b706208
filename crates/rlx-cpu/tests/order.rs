//! Elements in order, running sums and sums at indices, at every SIMD level, with one worker and with three:
//! the reference's bytes.
#![cfg(feature = "graphs")]

use crate::common;
use common::*;
use rlx_core::ops::*;
use rlx_core::target::Path;
use rlx_core::types::{DType, Scalar, Shape, Type};
use rlx_cpu::target;

const FLOATS: [DType; 3] = [DType::F32, DType::F16, DType::BF16];
const INTEGERS: [Scalar; 6] =
    [Scalar::I64, Scalar::I32, Scalar::I16, Scalar::I8, Scalar::U32, Scalar::U8];

const SHAPES: [(&[u64], usize); 9] = [
    (&[7], 0),
    (&[5, 9], 1),
    (&[5, 9], 0),
    (&[2, 33, 5], 1),
    (&[3, 4, 70], 2),
    (&[1, 500], 1),
    (&[0, 4], 1),
    (&[4, 0], 0),
    (&[3, 0], 1),
];

#[track_caller]
fn check_bytes(op: impl Into<Op>, operands: &[Value], what: &str) {
    let op = op.into();
    let types: Vec<&Type> = operands.iter().map(|v| &v.ty).collect();
    assert_eq!(target().path(&op, &types), Ok(Path::Native), "{op:?} {what}");
    let expected = oracle(&op, operands);
    let results = op.infer(&types).unwrap();
    for device in devices() {
        let got = run_op(&device, &op, operands);
        for ((got, expected), ty) in got.iter().zip(&expected).zip(&results) {
            if !ty.dtype.is_float() {
                assert_eq!(got, expected, "{op:?} {what}");
                continue;
            }
            // Every NaN is one: its sign and its payload say nothing.
            let bits =
                |b: &[u8]| floats_of(ty.dtype, b).into_iter().map(to_bits).collect::<Vec<_>>();
            assert_eq!(bits(got), bits(expected), "{op:?} {what}");
        }
    }
}

fn to_bits(x: f32) -> u32 {
    if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() }
}

/// Few different numbers, zeros of both signs, infinities and NaN among them.
fn ties(random: &mut Random, dtype: DType, dims: &[u64]) -> Value {
    let all = [1.0, -0.0, 0.0, 2.5, f32::NAN, -1.0, f32::INFINITY, f32::NEG_INFINITY, 2.5];
    let n = dims.iter().product::<u64>() as usize;
    let x: Vec<f32> = (0..n).map(|_| all[(random.bits() % 9) as usize]).collect();
    floats_as(dtype, dims, &x)
}

#[test]
fn equal_elements_keep_their_order_along_any_axis() {
    let mut random = Random(71);
    for (dims, axis) in SHAPES {
        for descending in [false, true] {
            let op = Sort { axis, descending };
            for dtype in FLOATS {
                check_bytes(op.clone(), &[ties(&mut random, dtype, dims)], dtype.name());
                check_bytes(op.clone(), &[random.floats_as(dtype, dims)], dtype.name());
            }
            for scalar in INTEGERS {
                check_bytes(op.clone(), &[random.integers(scalar, dims)], scalar.name());
            }
        }
    }
}

#[test]
fn the_largest_few_come_first() {
    let mut random = Random(72);
    for (dims, k) in [
        (&[7u64][..], 3),
        (&[5, 9], 9),
        (&[5, 9], 1),
        (&[3, 4, 70], 20),
        (&[2, 6], 0),
        (&[0, 4], 2),
    ] {
        for dtype in FLOATS {
            check_bytes(TopK { k }, &[ties(&mut random, dtype, dims)], dtype.name());
        }
        for scalar in INTEGERS {
            check_bytes(TopK { k }, &[random.integers(scalar, dims)], scalar.name());
        }
    }
}

#[test]
fn sums_run_along_any_axis() {
    let mut random = Random(73);
    for (dims, axis) in SHAPES {
        for exclusive in [false, true] {
            let op = CumSum { axis, exclusive };
            for dtype in FLOATS {
                check_bytes(op.clone(), &[random.floats_as(dtype, dims)], dtype.name());
            }
            for scalar in INTEGERS {
                check_bytes(op.clone(), &[random.integers(scalar, dims)], scalar.name());
            }
        }
    }
}

#[test]
fn updates_are_added_where_ids_say() {
    let mut random = Random(74);
    // Within, twice, from the end, and outside on both sides.
    let all = [0i64, 2, -1, 1, 1, -3, 900, -900, 1, 0];
    for (dims, axis) in SHAPES {
        for n in [0u64, 1, 10] {
            let mut of_updates = dims.to_vec();
            of_updates[axis] = n;
            for of_ids in [Scalar::U32, Scalar::I32, Scalar::I64] {
                let bytes = all[..n as usize].iter().flat_map(|id| match of_ids {
                    Scalar::I64 => id.to_le_bytes().to_vec(),
                    Scalar::I32 => (*id as i32).to_le_bytes().to_vec(),
                    _ => (id.unsigned_abs() as u32).to_le_bytes().to_vec(),
                });
                let ty = Type::tensor(DType::Scalar(of_ids), Shape::of(&[n]));
                let ids = Value::new(ty, bytes.collect());
                for dtype in FLOATS {
                    let (x, u) =
                        (random.floats_as(dtype, dims), random.floats_as(dtype, &of_updates));
                    check_bytes(ScatterAdd { axis }, &[x, ids.clone(), u], dtype.name());
                }
                for scalar in INTEGERS {
                    let (x, u) =
                        (random.integers(scalar, dims), random.integers(scalar, &of_updates));
                    check_bytes(ScatterAdd { axis }, &[x, ids.clone(), u], scalar.name());
                }
            }
        }
    }
}
