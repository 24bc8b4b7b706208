//! Elementwise operators and chains of them.

use super::*;
use crate::common::device;
use rlx_core::ops::{
    Binary, Cast, Clamp, Compare, Comparison, Map, Region, RegionStep, Select, StepFn, StepOperand,
    Unary, Zip,
};

/// Pairs of shapes that repeat to one.
const PAIRS: [(&[u64], &[u64]); 8] = [
    (&[3, 1, 5], &[4, 1]),
    (&[7], &[]),
    (&[], &[7]),
    (&[2, 3, 5], &[2, 1, 5]),
    (&[1, 67], &[3, 67]),
    (&[2, 3, 4, 5], &[3, 1, 5]),
    (&[0, 3], &[1, 3]),
    (&[65], &[65]),
];

#[test]
fn zips_repeat_along_any_axis_in_every_type() {
    let (d, mut rng) = (device(), Rng(41));
    for (a, b) in PAIRS {
        for f in [Binary::Add, Binary::Sub] {
            check(
                &d,
                Zip { f },
                &[some(&mut rng, Scalar::F32, a), some(&mut rng, Scalar::F32, b)],
                0.0,
            );
        }
    }
    let (a, b): (&[u64], &[u64]) = (&[3, 1, 5], &[4, 1]);
    for scalar in SCALARS.into_iter().filter(|s| *s != Scalar::Bool) {
        for f in [Binary::Sub, Binary::Mul, Binary::Max, Binary::Min] {
            check(&d, Zip { f }, &[some(&mut rng, scalar, a), some(&mut rng, scalar, b)], 0.0);
        }
    }
    for scalar in [Scalar::I32, Scalar::I16, Scalar::I8, Scalar::U32, Scalar::U8] {
        let divisors = tensor(scalar, &[1, 5], &[1.0, 3.0, 7.0, 100.0, 9.0]);
        for f in [Binary::Div, Binary::Mod] {
            check(&d, Zip { f }, &[some(&mut rng, scalar, &[3, 5]), divisors.clone()], 0.0);
        }
    }
    // Of one shape, whose words are whole and whose last is not.
    for n in [1, 2, 3, 4, 67] {
        for scalar in [Scalar::F16, Scalar::I8] {
            let operands = [some(&mut rng, scalar, &[n]), some(&mut rng, scalar, &[n])];
            check(&d, Zip { f: Binary::Add }, &operands, 0.0);
        }
    }
}

#[test]
fn powers_and_remainders_repeat_along_any_axis_in_every_float_type() {
    let (d, mut rng) = (device(), Rng(48));
    for scalar in [Scalar::F32, Scalar::F16, Scalar::Bf16] {
        // A half of a power is the nearest to a number that is already rounded.
        let powers = if scalar == Scalar::F32 { 2e-7 } else { 4e-3 };
        for (a, b) in PAIRS {
            let operands = [some(&mut rng, scalar, a), some(&mut rng, scalar, b)];
            check(&d, Zip { f: Binary::Mod }, &operands, 0.0);
            let base: Vec<f64> =
                (0..elements(a)).map(|_| (rng.next() % 63 + 1) as f64 / 8.0).collect();
            let operands = [tensor(scalar, a, &base), some(&mut rng, scalar, b)];
            check(&d, Zip { f: Binary::Pow }, &operands, powers);
        }
    }
}

/// Every pair is what the reference makes of it: the same bits, or, of powers, within 2e-7 of it. Below the
/// smallest normal number a device may have 0.
fn pairs_are_the_references(f: Binary, a: &[f32], b: &[f32]) {
    let operands = [a, b].map(|x| {
        let numbers: Vec<f64> = x.iter().map(|&x| x.into()).collect();
        tensor(Scalar::F32, &[x.len() as u64], &numbers)
    });
    let op = Op::from(Zip { f });
    claimed(&op, &operands).unwrap();
    let views: Vec<View<'_>> = operands.iter().map(|o| View::new(&o.ty, &o.bytes)).collect();
    let want = decode(DType::F32, &reference::run(&op, &views).unwrap()[0]);
    let made = run(&device(), &case(op, &operands, Buffers::One)).unwrap();
    let got = decode(DType::F32, &made[0]);
    let allowed = if f == Binary::Pow { 2e-7 } else { 0.0 };
    for i in 0..a.len() {
        let (got, want) = (got[i], want[i]);
        let same = got == want && got.is_sign_negative() == want.is_sign_negative();
        let near = (got - want).abs() <= allowed * want.abs();
        let tiny = [got, want].iter().all(|x| x.abs() <= f32::MIN_POSITIVE.into());
        let ok = same || near && want.is_finite() || tiny || got.is_nan() && want.is_nan();
        assert!(ok, "{}({:e}, {:e}) is {got:e}, expected {want:e}", f.name(), a[i], b[i]);
    }
}

#[test]
fn powers_and_remainders_of_ends_zeros_infinities_and_nan() {
    // The integers are odd, even, the last odd one, and larger.
    let positive = [
        0.0,
        1e-30,
        f32::MIN_POSITIVE,
        0.25,
        0.5,
        0.999_999_94,
        1.0,
        1.000_000_1,
        1.5,
        2.0,
        3.0,
        10.0,
        127.0,
        1_000_000.5,
        8_388_607.0,
        16_777_215.0,
        16_777_216.0,
        1e30,
        f32::MAX,
        f32::INFINITY,
        f32::NAN,
    ];
    let numbers: Vec<f32> = positive.iter().flat_map(|&x| [x, -x]).collect();
    let a: Vec<f32> = numbers.iter().flat_map(|&x| vec![x; numbers.len()]).collect();
    let b = numbers.repeat(numbers.len());
    for f in [Binary::Pow, Binary::Mod] {
        pairs_are_the_references(f, &a, &b);
    }
}

#[test]
fn powers_and_remainders_of_numbers_of_every_size() {
    let mut rng = Rng(49);
    let mut any =
        |n: usize| -> Vec<f32> { (0..n).map(|_| f32::from_bits(rng.next() as u32)).collect() };
    let (a, b) = (any(8191), any(8191));
    for f in [Binary::Pow, Binary::Mod] {
        pairs_are_the_references(f, &a, &b);
    }
    // Most of those powers are too large or too small: bases close to 1, and powers that lead to any result.
    let mut near = Rng(50);
    let mut base = |width: f32| (near.float() * width).exp2();
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for (width, power) in [(1e-5, 1e7), (0.5, 200.0), (10.0, 12.0), (120.0, 1.0)] {
        for _ in 0..2000 {
            a.push(base(width));
            b.push(rng.float() * power);
        }
    }
    pairs_are_the_references(Binary::Pow, &a, &b);
}

#[test]
fn whole_powers_are_exact_where_a_float_holds_them() {
    let d = device();
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for base in -100i64..=100 {
        for power in 0..24u32 {
            let exact = base.checked_pow(power).is_some_and(|y| y.unsigned_abs() < 1 << 24);
            if exact {
                a.push(base as f64);
                b.push(f64::from(power));
            }
        }
    }
    let operands = [&a, &b].map(|x| tensor(Scalar::F32, &[a.len() as u64], x));
    check(&d, Zip { f: Binary::Pow }, &operands, 0.0);
}

#[test]
fn maps_of_halves_round_once_to_the_nearest() {
    let (d, mut rng) = (device(), Rng(42));
    for scalar in [Scalar::F16, Scalar::Bf16] {
        for f in [Unary::Neg, Unary::Abs, Unary::Floor] {
            check(&d, Map { f }, &[some(&mut rng, scalar, &[3, 7])], 0.0);
        }
        for f in [Unary::GeluErf, Unary::Tanh, Unary::Sqrt] {
            let values: Vec<f64> = (0..65).map(|i| f64::from(i) / 16.0).collect();
            check(&d, Map { f }, &[tensor(scalar, &[65], &values)], 5e-3);
        }
    }
}

#[test]
fn tests_of_every_type_give_booleans() {
    let (d, mut rng) = (device(), Rng(43));
    for scalar in SCALARS {
        for f in [Comparison::Lt, Comparison::Ge] {
            let operands = [some(&mut rng, scalar, &[3, 1, 5]), some(&mut rng, scalar, &[4, 1])];
            check(&d, Compare { f }, &operands, 0.0);
        }
    }
    let values = [1.0, -1.0, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 3.5];
    for f in Comparison::ALL.map(|row| row.0) {
        let row = tensor(Scalar::F32, &[7], &values);
        check(&d, Compare { f }, &[tensor(Scalar::F32, &[7, 1], &values), row], 0.0);
    }
}

#[test]
fn selections_move_bits_of_every_type() {
    let (d, mut rng) = (device(), Rng(44));
    for scalar in SCALARS {
        let operands = [
            some(&mut rng, Scalar::Bool, &[3, 1]),
            some(&mut rng, scalar, &[2, 3, 5]),
            some(&mut rng, scalar, &[]),
        ];
        check(&d, Select, &operands, 0.0);
    }
    let infinite = tensor(Scalar::F32, &[2], &[f64::NEG_INFINITY, f64::INFINITY]);
    let cond = some(&mut rng, Scalar::Bool, &[9, 2]);
    check(&d, Select, &[cond, infinite, tensor(Scalar::F32, &[1], &[0.5])], 0.0);
    check(
        &d,
        Select,
        &[
            some(&mut rng, Scalar::Bool, &[0, 2]),
            some(&mut rng, Scalar::F32, &[0, 2]),
            some(&mut rng, Scalar::F32, &[2]),
        ],
        0.0,
    );
}

#[test]
fn casts_between_all_types_round_saturate_and_wrap() {
    let (d, mut rng) = (device(), Rng(45));
    let edges = [
        0.0,
        0.5,
        -0.5,
        1.5,
        -1.5,
        2.5,
        126.7,
        127.5,
        128.0,
        -128.9,
        255.4,
        256.0,
        32767.9,
        65519.0,
        65520.0,
        1e9,
        2147483520.0,
        2147483648.0,
        -2147483648.0,
        4294967040.0,
        4294967296.0,
        -1e20,
        1e20,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        6.1e-5,
        5.9e-8,
        2.9e-8,
        3e-8,
        1.000_488_4,
    ];
    for from in SCALARS {
        for to in SCALARS {
            let op = Op::from(Cast { to: DType::Scalar(to) });
            let x = if from == Scalar::F32 {
                tensor(from, &[edges.len() as u64], &edges)
            } else {
                some(&mut rng, from, &[5, 7])
            };
            if from != to {
                check(&d, op, &[x], 0.0);
            }
        }
    }
    // Every half is read as what it is; numbers below the normal ones may be 0.
    let all: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
    let ty = Type::tensor(DType::F16, Shape::of(&[65536]));
    let x = Operand { space: Space::Input, ty, bytes: all };
    check(&d, Cast { to: DType::F32 }, &[x], 1e-9);
}

#[test]
fn bounds_hold_numbers_and_infinities() {
    let d = device();
    let values = [-1e30, -2.0, 0.0, 0.5, 7.0, 1e30, f64::INFINITY, f64::NEG_INFINITY];
    for (min, max) in [(-1.0, 1.0), (f32::NEG_INFINITY, 0.25), (0.0, f32::INFINITY)] {
        check(&d, Clamp { min, max }, &[tensor(Scalar::F32, &[8], &values)], 0.0);
    }
    check(&d, Clamp { min: 0.0, max: 6.0 }, &[tensor(Scalar::F16, &[3], &[-1.0, 2.5, 9.0])], 0.0);
}

#[test]
fn chains_of_all_kinds_of_steps_round_as_they_would_alone() {
    use StepOperand::{Input, Step};
    let (d, mut rng) = (device(), Rng(46));
    let step = |f, operands: &[StepOperand]| RegionStep { f, operands: operands.to_vec() };
    let op = Region {
        steps: vec![
            step(StepFn::Zip(Binary::Mul), &[Input(0), Input(1)]),
            step(StepFn::Cast(DType::F16), &[Step(0)]),
            step(StepFn::Zip(Binary::Add), &[Step(1), Input(2)]),
            step(StepFn::Compare(Comparison::Gt), &[Step(2), Input(2)]),
            step(StepFn::Cast(DType::F32), &[Step(2)]),
            step(StepFn::Clamp(-2.0, 3.0), &[Step(4)]),
            step(StepFn::Select, &[Step(3), Step(5), Input(0)]),
        ],
    };
    for (a, b, c) in
        [([2u64, 3, 7], [3u64, 1], [7u64]), ([1, 1, 1], [1, 1], [1]), ([4, 3, 64], [3, 64], [64])]
    {
        let operands = [
            some(&mut rng, Scalar::F32, &a),
            some(&mut rng, Scalar::F32, &b),
            some(&mut rng, Scalar::F16, &c),
        ];
        check(&d, op.clone(), &operands, 0.0);
    }
}

#[test]
fn chains_have_powers_and_remainders() {
    use StepOperand::{Input, Step};
    let (d, mut rng) = (device(), Rng(51));
    let step = |f, operands: &[StepOperand]| RegionStep { f, operands: operands.to_vec() };
    // Of quarters and small integers every step is exact.
    let op = Region {
        steps: vec![
            step(StepFn::Zip(Binary::Mod), &[Input(0), Input(1)]),
            step(StepFn::Zip(Binary::Pow), &[Step(0), Input(2)]),
            step(StepFn::Map(Unary::Cos), &[Input(2)]),
            step(StepFn::Zip(Binary::Add), &[Step(1), Step(2)]),
        ],
    };
    for (rows, columns) in [(1, 1), (3, 65), (2, 64)] {
        let powers: Vec<f64> = (0..columns).map(|i| (i % 4) as f64).collect();
        let operands = [
            some(&mut rng, Scalar::F32, &[rows, columns]),
            some(&mut rng, Scalar::F32, &[rows, 1]),
            tensor(Scalar::F32, &[columns], &powers),
        ];
        check(&d, op.clone(), &operands, 1e-6);
    }
}
