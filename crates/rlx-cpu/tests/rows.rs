//! Norms, softmax, reductions and what finds extremes, at every SIMD level, with one worker and with three,
//! against the reference: odd and empty sizes, numbers that are not finite, every type.
#![cfg(feature = "graphs")]

use crate::common;
use common::*;
use rlx_core::ops::*;
use rlx_core::types::{DType, Scalar, Shape, Type};

const ROWS: [&[u64]; 8] =
    [&[1, 1], &[7], &[3, 33], &[2, 5, 64], &[1, 4, 2, 100], &[0, 6], &[5, 1023], &[64, 8]];

#[test]
fn norms_of_rows_are_the_references() {
    let mut random = Random(31);
    for dtype in FLOATS {
        for dims in ROWS {
            let d = dims.last().copied().unwrap();
            for of in [dtype, DType::F32] {
                let x = small(&mut random, dtype, dims);
                let residual = small(&mut random, dtype, dims);
                let [scale, shift, bias] = [0; 3].map(|_| small(&mut random, of, &[d]));
                let what = format!("{dtype} {dims:?} by {of}");
                let eps = 1e-5;
                check_types(RmsNorm { eps }, &[x.clone(), scale.clone()], 2e-6, &what);
                let op = LayerNorm { eps, bias: false };
                check_types(op, &[x.clone(), scale.clone()], 2e-6, &what);
                let op = LayerNorm { eps, bias: true };
                check_types(op, &[x.clone(), scale.clone(), shift.clone()], 2e-6, &what);
                for has_bias in [false, true] {
                    let mut operands = vec![x.clone(), residual.clone()];
                    operands.extend(has_bias.then(|| bias.clone()));
                    operands.push(scale.clone());
                    let op = ResidualRmsNorm { eps, bias: has_bias };
                    check_types(op, &operands, 2e-6, &what);
                    let op = ResidualLayerNorm { eps, bias: has_bias, shift: false };
                    check_types(op, &operands, 2e-6, &what);
                    operands.push(shift.clone());
                    let op = ResidualLayerNorm { eps, bias: has_bias, shift: true };
                    check_types(op, &operands, 2e-6, &what);
                }
            }
        }
    }
}

#[test]
fn a_mean_far_from_zero_takes_nothing_from_the_norm() {
    let mut random = Random(32);
    let x: Vec<f32> = random.floats(4 * 300).iter().map(|x| 1000.0 + x).collect();
    let x = f32s(&[4, 300], &x);
    let scale = f32s(&[300], &[1.0; 300]);
    check_types(LayerNorm { eps: 1e-5, bias: false }, &[x.clone(), scale], 1e-6, "far");
    let x = Value { ty: Type { shape: Shape::of(&[1, 12, 100]), ..x.ty }, ..x };
    let (scale, bias) = (f32s(&[12], &[1.5; 12]), f32s(&[12], &[0.5; 12]));
    check_types(GroupNorm { groups: 3, eps: 1e-5 }, &[x, scale, bias], 1e-6, "far");
}

#[test]
fn groups_of_channels_are_the_references() {
    let mut random = Random(33);
    for dtype in FLOATS {
        for (dims, groups) in [
            (&[2, 6, 5, 7][..], 3),
            (&[1, 4], 2),
            (&[3, 5, 1], 5),
            (&[0, 4, 3], 1),
            (&[1, 8, 33], 1),
            (&[2, 2, 0], 2),
        ] {
            let x = small(&mut random, dtype, dims);
            let [scale, bias] = [0; 2].map(|_| small(&mut random, dtype, &[dims[1]]));
            let what = format!("{dtype} {dims:?}");
            check_types(GroupNorm { groups, eps: 1e-5 }, &[x, scale, bias], 4e-6, &what);
        }
    }
}

#[test]
fn softmax_of_any_axis_is_the_references() {
    let mut random = Random(34);
    for dtype in FLOATS {
        for dims in ROWS {
            for axis in 0..dims.len() {
                let what = format!("{dtype} {dims:?}");
                let x = small(&mut random, dtype, dims);
                check_types(Softmax { axis }, &[x], 2e-6, &what);
                // Some rows have numbers that are not finite.
                let x = random.floats_as(dtype, dims);
                check_types(Softmax { axis }, &[x], 2e-6, &what);
            }
        }
    }
    for x in [[f32::NEG_INFINITY; 9], [f32::INFINITY; 9], [1e30; 9], [f32::NAN; 9]] {
        check_types(Softmax { axis: 1 }, &[f32s(&[1, 9], &x)], 2e-6, "ends");
        check_types(Softmax { axis: 0 }, &[f32s(&[3, 3], &x)], 2e-6, "ends");
    }
}

/// Shapes and axes: runs, columns, both, none, all, empty ones, axes that alternate.
const REDUCED: [(&[u64], &[usize]); 14] = [
    (&[3, 33], &[1]),
    (&[3, 33], &[0]),
    (&[3, 33], &[0, 1]),
    (&[5], &[]),
    (&[], &[]),
    (&[2, 3, 4, 5], &[1, 3]),
    (&[2, 3, 4, 5], &[0, 2]),
    (&[2, 1, 4, 1], &[1, 3]),
    (&[4, 0, 3], &[1]),
    (&[0, 3], &[1]),
    (&[1, 2100], &[1]),
    (&[3, 2100], &[0]),
    (&[1300, 3], &[0]),
    (&[2, 2, 2, 2, 2, 2], &[0, 2, 4]),
];

#[test]
fn reductions_of_any_axes_are_the_references() {
    let mut random = Random(35);
    for (f, name) in Reduction::ALL {
        for (dims, axes) in REDUCED {
            for keep in [false, true] {
                let op = Reduce { f, axes: axes.to_vec(), keep };
                for dtype in FLOATS {
                    let what = format!("{name} {dtype} {dims:?}");
                    let n = dims.iter().product::<u64>() as usize;
                    // Near 1, so that products stay within the type.
                    let x: Vec<f32> = random.floats(n).iter().map(|x| 1.0 + x / 64.0).collect();
                    check_types(op.clone(), &[floats_as(dtype, dims, &x)], 1e-6, &what);
                    let x = random.floats_as(dtype, dims);
                    if f != Reduction::Prod {
                        check_types(op.clone(), &[x], 1e-6, &what);
                    }
                }
                if f == Reduction::Mean {
                    continue;
                }
                for scalar in [Scalar::I64, Scalar::I32, Scalar::U32, Scalar::I16, Scalar::U8] {
                    let what = format!("{name} {} {dims:?}", scalar.name());
                    check_types(op.clone(), &[random.integers(scalar, dims)], 0.0, &what);
                }
            }
        }
    }
}

#[test]
fn extremes_are_the_first_ones_and_never_a_nan() {
    let mut random = Random(36);
    for dims in [&[5][..], &[3, 7], &[2, 5, 3], &[1, 1], &[4, 700], &[700, 4], &[2, 3, 1, 2]] {
        for axis in 0..dims.len() {
            for keep in [false, true] {
                let mut values: Vec<Value> =
                    FLOATS.map(|dtype| random.floats_as(dtype, dims)).to_vec();
                // Few values, so that many are equal.
                let n = dims.iter().product::<u64>() as usize;
                let few: Vec<f32> = (0..n).map(|_| (random.bits() % 3) as f32).collect();
                values.push(f32s(dims, &few));
                for odd in [f32::NAN, f32::NEG_INFINITY, f32::INFINITY] {
                    values.push(f32s(dims, &vec![odd; n]));
                }
                values.extend(
                    [Scalar::I64, Scalar::U32, Scalar::I8].map(|s| random.integers(s, dims)),
                );
                for x in values {
                    let what = format!("{}", x.ty);
                    let x = core::slice::from_ref(&x);
                    check_types(ArgMax { axis, keep }, x, 0.0, &what);
                    check_types(ArgMin { axis, keep }, x, 0.0, &what);
                }
            }
        }
    }
    let x = f32s(&[1, 3], &[f32::NAN, f32::NEG_INFINITY, f32::NEG_INFINITY]);
    check_types(ArgMax { axis: 1, keep: false }, &[x], 0.0, "behind a NaN");
}

#[test]
fn elements_repeat_to_every_shape() {
    let mut random = Random(37);
    let shapes: [(&[u64], &[u64]); 7] = [
        (&[], &[3]),
        (&[1], &[4, 5]),
        (&[5], &[4, 5]),
        (&[4, 1], &[4, 500]),
        (&[2, 1, 3, 1], &[2, 4, 3, 5]),
        (&[3, 1], &[2, 3, 0]),
        (&[1, 7], &[300, 7]),
    ];
    for (from, to) in shapes {
        for scalar in [Scalar::F32, Scalar::F16, Scalar::I64, Scalar::U8, Scalar::F64, Scalar::C64]
        {
            let x = random.integers(scalar, from);
            let op = Expand { dims: Shape::of(to) };
            let expected = oracle(&op.clone().into(), core::slice::from_ref(&x));
            for device in devices() {
                let got = run_op(&device, &op.clone().into(), core::slice::from_ref(&x));
                assert_eq!(got, expected, "{from:?} to {to:?} of {}", scalar.name());
            }
        }
    }
}
