//! The elementwise engine at every SIMD level, with one worker and with three: every function, type and way
//! to repeat, against the reference.
#![cfg(feature = "graphs")]

use crate::common;
use common::*;
use rlx_core::ops::*;
use rlx_core::target::Path;
use rlx_core::types::{DType, Scalar, Type};
use rlx_cpu::target;

const INTEGERS: [Scalar; 6] =
    [Scalar::I64, Scalar::I32, Scalar::I16, Scalar::I8, Scalar::U32, Scalar::U8];

/// Shapes that broadcast: the same, a number, rows, columns, both ways, none at all, axes in the middle.
const SHAPES: [(&[u64], &[u64]); 12] = [
    (&[3, 7], &[3, 7]),
    (&[2, 3, 5], &[1]),
    (&[], &[4, 3]),
    (&[5, 33], &[33]),
    (&[9, 5], &[9, 1]),
    (&[2, 1, 3, 1], &[1, 4, 1, 5]),
    (&[2, 0, 3], &[1, 1, 3]),
    (&[1, 1300], &[2, 1300]),
    (&[2, 3, 4, 5], &[2, 1, 1, 5]),
    (&[700, 3], &[700, 1]),
    (&[1, 1], &[1]),
    (&[6, 1, 130], &[1, 2, 1]),
];

fn run_everywhere(op: &Op, operands: &[Value], what: &str, same: impl Fn(&[u8], &[u8]) -> bool) {
    let types: Vec<&Type> = operands.iter().map(|v| &v.ty).collect();
    assert_eq!(target().path(op, &types), Ok(Path::Native), "{what}");
    let expected = oracle(op, operands).remove(0);
    for device in devices() {
        let got = run_op(&device, op, operands).remove(0);
        assert_eq!(got.len(), expected.len(), "{what}");
        assert!(
            same(&got, &expected),
            "{op:?} {what}, {}: {got:?}, expected {expected:?}",
            device.info().adapter
        );
    }
}

fn equal(a: &[u8], b: &[u8]) -> bool {
    a == b
}

/// NaN is NaN, whatever its bits; zeros may differ in sign where `max` and `min` choose.
fn equal_floats(dtype: DType) -> impl Fn(&[u8], &[u8]) -> bool {
    move |a, b| {
        let (a, b) = (floats_of(dtype, a), floats_of(dtype, b));
        a.iter().zip(&b).all(|(a, b)| a == b || (a.is_nan() && b.is_nan()))
    }
}

#[test]
fn functions_of_two_floats_repeat_either_side() {
    let mut random = Random(1);
    for dtype in FLOATS {
        for (a, b) in SHAPES {
            let operands = [random.floats_as(dtype, a), random.floats_as(dtype, b)];
            for (f, name) in Binary::ALL.into_iter().filter(|f| f.0 != Binary::Pow) {
                let what = format!("{name} of {dtype} {a:?} {b:?}");
                run_everywhere(&Zip { f }.into(), &operands, &what, equal_floats(dtype));
            }
            for (f, name) in Comparison::ALL {
                let what = format!("{name} of {dtype} {a:?} {b:?}");
                run_everywhere(&Compare { f }.into(), &operands, &what, equal);
            }
        }
    }
}

#[test]
fn integers_wrap_as_the_references() {
    let mut random = Random(2);
    for scalar in INTEGERS {
        let dtype = DType::Scalar(scalar);
        for (a, b) in SHAPES {
            let mut operands = [random.integers(scalar, a), random.integers(scalar, b)];
            for (f, name) in Binary::ALL.into_iter().filter(|f| f.0 != Binary::Pow) {
                if matches!(f, Binary::Div | Binary::Mod) {
                    // Nobody may read what is divided by 0.
                    operands[1].bytes.chunks_exact_mut(scalar.bytes()).for_each(|x| x[0] |= 1);
                }
                let what = format!("{name} of {dtype} {a:?} {b:?}");
                run_everywhere(&Zip { f }.into(), &operands, &what, equal);
            }
            for (f, name) in Comparison::ALL {
                let what = format!("{name} of {dtype} {a:?} {b:?}");
                run_everywhere(&Compare { f }.into(), &operands, &what, equal);
            }
        }
    }
}

#[test]
fn select_takes_every_type_and_three_shapes() {
    let mut random = Random(3);
    let conds: [&[u64]; 4] = [&[1], &[2, 1, 5], &[3, 1], &[2, 3, 5]];
    for cond in conds {
        let mut c = random.integers(Scalar::Bool, cond);
        c.bytes.iter_mut().for_each(|b| *b &= 1);
        for dtype in FLOATS {
            let (a, b) = (random.floats_as(dtype, &[2, 3, 5]), random.floats_as(dtype, &[5]));
            run_everywhere(&Select.into(), &[c.clone(), a, b], dtype.name(), equal);
        }
        for scalar in INTEGERS {
            let (a, b) = (random.integers(scalar, &[3, 1]), random.integers(scalar, &[2, 1, 5]));
            run_everywhere(&Select.into(), &[c.clone(), a, b], scalar.name(), equal);
        }
    }
}

#[test]
fn casts_between_all_types_saturate_wrap_and_round_as_the_references() {
    let mut random = Random(4);
    let ends =
        [0.0, -0.0, 0.5, -0.5, 255.5, -1.5, 65504.0, 65519.9, 65520.0, 3e9, -3e9, 1e20, -1e20];
    let more = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 16_777_217.0, 1e-8, 1.000_976_6];
    let xs: Vec<f32> = ends.into_iter().chain(more).chain(random.floats(1200)).collect();
    let n = xs.len() as u64;
    let mut sources: Vec<Value> = FLOATS.map(|dtype| floats_as(dtype, &[n], &xs)).to_vec();
    sources.extend(INTEGERS.map(|s| random.integers(s, &[7, 91])));
    let mut bools = random.integers(Scalar::Bool, &[77]);
    bools.bytes.iter_mut().for_each(|b| *b &= 1);
    sources.push(bools);
    for x in sources {
        let floats = FLOATS;
        let to = INTEGERS.map(DType::Scalar).into_iter().chain(floats).chain([DType::BOOL]);
        for to in to.filter(|to| *to != x.ty.dtype) {
            let what = format!("{} to {to}", x.ty.dtype);
            let same = equal_floats(to);
            let op = Cast { to }.into();
            if to.is_float() {
                run_everywhere(&op, core::slice::from_ref(&x), &what, same);
            } else {
                run_everywhere(&op, core::slice::from_ref(&x), &what, equal);
            }
        }
    }
}

#[test]
fn functions_of_half_floats_are_the_references_to_a_last_bit() {
    let mut random = Random(5);
    let xs: Vec<f32> = random.floats(700).iter().map(|x| x * 4.0).collect();
    for dtype in [DType::F16, DType::BF16] {
        let x = floats_as(dtype, &[7, 100], &xs);
        for (f, name) in Unary::ALL {
            // The nearest of the type, or its neighbour where f32 has lost what decides.
            let ulp = if dtype == DType::F16 { 1.0 / 1024.0 } else { 1.0 / 128.0 };
            run_everywhere(&Map { f }.into(), core::slice::from_ref(&x), name, |got, expected| {
                let pairs = floats_of(dtype, got).into_iter().zip(floats_of(dtype, expected));
                pairs.into_iter().all(|(g, e)| {
                    g == e || (g.is_nan() && e.is_nan()) || (g - e).abs() <= ulp * e.abs() + 1e-7
                })
            });
        }
        let op = Clamp { min: -0.5, max: 0.75 };
        let mut odd = x.clone();
        let nan = floats_as(dtype, &[1], &[f32::NAN]);
        odd.bytes[..2].copy_from_slice(&nan.bytes);
        run_everywhere(&op.into(), &[odd], "clamp", equal);
    }
    let x = f32s(&[3], &[f32::NAN, 9.0, -9.0]);
    run_everywhere(&Clamp { min: -0.5, max: 0.75 }.into(), &[x], "clamp", equal);
}

#[test]
fn a_chain_gives_the_bits_of_its_steps() {
    let mut random = Random(6);
    use StepOperand::{Input as I, Step as S};
    let step = |f: StepFn, operands: &[StepOperand]| RegionStep { f, operands: operands.to_vec() };
    for dtype in FLOATS {
        let region = Region {
            steps: vec![
                step(StepFn::Zip(Binary::Mul), &[I(0), I(1)]),
                step(StepFn::Zip(Binary::Add), &[S(0), I(2)]),
                step(StepFn::Compare(Comparison::Lt), &[S(1), I(3)]),
                step(StepFn::Map(Unary::Abs), &[S(1)]),
                step(StepFn::Select, &[S(2), S(3), S(0)]),
                step(StepFn::Clamp(-0.25, 0.5), &[S(4)]),
                step(StepFn::Cast(DType::F32), &[S(5)]),
                step(StepFn::Zip(Binary::Sub), &[S(6), I(4)]),
            ],
        };
        for dims in [[4, 6, 50], [1, 1, 1], [3, 1, 700]] {
            let operands = [
                random.floats_as(dtype, &dims),
                random.floats_as(dtype, &[dims[2]]),
                random.floats_as(dtype, &[dims[0], 1, 1]),
                random.floats_as(dtype, &[1]),
                random.floats_as(DType::F32, &dims),
            ];
            // f32 casts to itself nowhere: the step is left out of the rule's other types alone.
            let mut region = region.clone();
            if dtype == DType::F32 {
                region.steps.remove(6);
                region.steps[6].operands[0] = S(5);
            }
            let what = format!("{dtype} {dims:?}");
            run_everywhere(&region.into(), &operands, &what, equal_floats(DType::F32));
        }
    }
}

#[test]
fn what_no_kernel_takes_says_why() {
    let why = |op: Op, operands: &[&Type]| {
        let target = rlx_core::target::Target {
            claims: rlx_core::target::Claims { loops: false, ..target().claims },
            ..target()
        };
        target.path(&op, operands).unwrap_err()
    };
    let wide = floats_as(DType::F32, &[3], &[0.0; 3]).ty;
    let f64s = Type { dtype: DType::F64, ..wide.clone() };
    assert_eq!(
        why(Map { f: Unary::Silu }.into(), &[&f64s]),
        "its kernel takes no f64 as operand 0"
    );
    assert_eq!(why(Cast { to: DType::F64 }.into(), &[&wide]), "its kernel makes no f64");
    let deep = Type { shape: rlx_core::types::Shape::of(&[1; 17]), ..wide };
    let select = [&Type { dtype: DType::BOOL, ..deep.clone() }, &deep, &deep];
    assert_eq!(why(Select.into(), &select), "its kernel takes at most 16 axes");
}
