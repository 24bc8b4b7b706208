//! Elements of 64 bits, complex numbers, and sizes that the tests of all GPU executors have not.

use crate::common::*;
use crate::graphs::{check, claimed, elements, some, tensor};
use rlx_core::ir::lir::Space;
use rlx_core::ops::{
    ArgMax, ArgMin, Binary, Cast, Clamp, Compare, Comparison, Concat, Gather, GatherElements,
    Im2Col, Iota, Map, Op, Pad, PadMode, Predict, RandomUniform, Region, RegionStep, Roll,
    ScatterAdd, Select, Sort, StateWrite, StepFn, StepOperand, TopK, Transpose, Unary, Unmask,
    WeightedSum, Window, Zip,
};
use rlx_core::reference::{self, View};
use rlx_core::sample::SampleParams;
use rlx_core::sample::canvas::Filling;
use rlx_core::types::{DType, Scalar, Shape, Type};
use rlx_cuda::driver::emulator::Watch;
use std::sync::Arc;

/// The device's bytes of every result are the reference's.
#[track_caller]
fn same(d: &Arc<TestDevice>, op: impl Into<Op>, operands: &[Operand]) {
    let op = op.into();
    let types: Vec<String> = operands.iter().map(|o| o.ty.to_string()).collect();
    let what = format!("{}{} of {}", op.name(), op.attrs(), types.join(", "));
    claimed(&op, operands).unwrap_or_else(|why| panic!("{what}: {why}"));
    let views: Vec<View<'_>> = operands.iter().map(|o| View::new(&o.ty, &o.bytes)).collect();
    let want = reference::run(&op, &views).unwrap_or_else(|e| panic!("{what}: {e}"));
    let got = run(d, &case(op, operands, Buffers::One)).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert!(got == want, "{what}: {got:?}, expected {want:?}");
}

/// A tensor of these bytes.
fn raw(scalar: Scalar, dims: &[u64], bytes: Vec<u8>) -> Operand {
    let ty = Type::tensor(DType::Scalar(scalar), Shape::of(dims));
    Operand { space: Space::Input, ty, bytes }
}

fn longs(dims: &[u64], values: &[i64]) -> Operand {
    assert_eq!(values.len(), elements(dims));
    raw(Scalar::I64, dims, values.iter().flat_map(|x| x.to_le_bytes()).collect())
}

fn doubles(dims: &[u64], values: &[f64]) -> Operand {
    tensor(Scalar::F64, dims, values)
}

#[test]
fn functions_of_doubles_are_those_of_doubles() {
    let d = plain_device();
    let xs = [-40.0, -3.5, -1.0, -0.25, 0.0, 0.3, 0.5, 1.0, 2.5, 40.0];
    for f in [Unary::Silu, Unary::Gelu, Unary::GeluErf, Unary::Softplus, Unary::Elu, Unary::Tan] {
        check(&d, Map { f }, &[doubles(&[10], &xs)], 1e-15);
    }
    let positive: Vec<f64> = xs.iter().map(|x| x.abs() + 0.1).collect();
    for f in [Unary::Log, Unary::Rsqrt, Unary::Round] {
        check(&d, Map { f }, &[doubles(&[2, 5], &positive)], 1e-15);
    }
    let operands = [doubles(&[2, 5], &positive), doubles(&[2, 1], &[1.5, -2.0])];
    for f in [Binary::Div, Binary::Pow, Binary::Mod, Binary::Max] {
        check(&d, Zip { f }, &operands, 1e-15);
    }
    let bounds = Clamp { min: 0.5, max: f32::INFINITY };
    let odd = [f64::NAN, f64::NEG_INFINITY, 0.1, 0.7, f64::INFINITY];
    same(&d, bounds, &[doubles(&[5], &odd)]);
    same(&d, Compare { f: Comparison::Ne }, &[doubles(&[5], &odd), doubles(&[5], &odd)]);
}

#[test]
fn integers_wrap_and_are_divided_at_their_ends() {
    let d = plain_device();
    let ends = [i64::MIN, i64::MAX, -1, 0, 1, (1 << 53) + 1, -7];
    let (a, b) = (longs(&[7, 1], &ends), longs(&[6], &[i64::MIN, i64::MAX, -1, 2, 3, -5]));
    for (f, name) in Binary::ALL {
        if name != "pow" {
            same(&d, Zip { f }, &[a.clone(), b.clone()]);
        }
    }
    same(&d, Compare { f: Comparison::Lt }, &[a, b]);
    for scalar in [Scalar::I32, Scalar::I8] {
        let least = if scalar == Scalar::I8 { -128.0 } else { -2147483648.0 };
        let operands = [
            tensor(scalar, &[3, 1], &[least, -least - 1.0, 7.0]),
            tensor(scalar, &[3], &[-1.0, least, 2.0]),
        ];
        for f in [Binary::Add, Binary::Mul, Binary::Div, Binary::Mod] {
            same(&d, Zip { f }, &operands);
        }
    }
}

#[test]
fn casts_of_64_bits_round_once() {
    let d = plain_device();
    let tie = 2f64.powi(-11);
    let numbers = [
        1.0 + tie + 2f64.powi(-40),
        1.0 + tie,
        1.0 + 2f64.powi(-8) + 2f64.powi(-50),
        65519.999999999,
        1e300,
        -1e300,
        9.3e18,
        -9.3e18,
        4294967295.5,
        -0.9,
        1e-45,
        f64::INFINITY,
    ];
    for to in [DType::F32, DType::F16, DType::BF16, DType::I64, DType::U32, DType::BOOL] {
        same(&d, Cast { to }, &[doubles(&[12], &numbers)]);
    }
    let ends = [i64::MIN, i64::MAX, -1, (1 << 53) + 1, (1 << 60) + (1 << 36) + 1, 300];
    // Between two bf16 the last bit of a long decides, which an f64 does not hold.
    let ties = [(1 << 62) + (1 << 54) + 1, (1 << 62) + (1 << 54), -(1 << 62) - (1 << 54) - 1];
    let x = longs(&[9], &[&ends[..], &ties[..]].concat());
    for to in [DType::F64, DType::F32, DType::BF16, DType::I32, DType::Scalar(Scalar::U8)] {
        same(&d, Cast { to }, core::slice::from_ref(&x));
    }
    let words = tensor(Scalar::U32, &[3], &[4294967295.0, 16842753.0, 16908289.0]);
    same(&d, Cast { to: DType::BF16 }, &[words]);
}

#[test]
fn bits_of_every_size_are_moved() {
    let (d, mut rng) = (plain_device(), Rng(71));
    let complex =
        |rng: &mut Rng, dims: &[u64]| raw(Scalar::C64, dims, rng.bytes(8 * elements(dims)));
    let cond = some(&mut rng, Scalar::Bool, &[3, 1]);
    let halves = raw(Scalar::F16, &[2], vec![1, 0x7c, 2, 0xfe]);
    let operands = [cond.clone(), complex(&mut rng, &[3, 5]), complex(&mut rng, &[5])];
    same(&d, Select, &operands);
    // Bits that are no number stay as they are.
    same(&d, Select, &[cond, halves.clone(), halves]);
    let mode = PadMode::Constant(-1.5);
    for x in [complex(&mut rng, &[2, 3]), some(&mut rng, Scalar::F64, &[2, 3])] {
        same(&d, Pad { low: vec![1, 0], high: vec![0, 2], mode }, core::slice::from_ref(&x));
        same(&d, Concat { axis: 1 }, &[x.clone(), x]);
    }
    // Constants are rounded, or cut off and saturate.
    for (scalar, value) in [(Scalar::Bf16, 1.0 / 3.0), (Scalar::F16, 1e6), (Scalar::I8, -300.7)] {
        let op = Pad { low: vec![1], high: vec![0], mode: PadMode::Constant(value) };
        same(&d, op, &[some(&mut rng, scalar, &[3])]);
    }
    for scalar in [Scalar::U8, Scalar::F16, Scalar::F32, Scalar::F64] {
        // Tiles: of whole ones, of parts, with axes around and between.
        for (dims, perm) in [
            (vec![33u64, 70], vec![1, 0]),
            (vec![2, 40, 3, 64], vec![2, 3, 0, 1]),
            (vec![17, 2, 16], vec![2, 1, 0]),
        ] {
            let bytes = rng.bytes(elements(&dims) * scalar.bytes());
            same(&d, Transpose { perm }, &[raw(scalar, &dims, bytes)]);
        }
    }
    for scalar in [Scalar::F64, Scalar::I64] {
        let op = Iota { dtype: DType::Scalar(scalar), dims: Shape::of(&[3, 5]), axis: 1 };
        same(&d, op, &[]);
        let ids = longs(&[2, 3], &[i64::MIN, 1, -1, 4, i64::MAX, 0]);
        let x = some(&mut rng, scalar, &[2, 4]);
        same(&d, GatherElements { axis: 1 }, &[x, ids]);
        let (target, updates) =
            (some(&mut rng, scalar, &[3, 2]), some(&mut rng, scalar, &[300, 2]));
        let ids: Vec<i64> = (0..300).map(|i| i % 5 - 2).collect();
        same(&d, ScatterAdd { axis: 0 }, &[target, longs(&[300], &ids), updates]);
    }
    // Blocks with elements of one row, of several, and of several places before the axis; ids that a tile has none of.
    let (target, updates) =
        (some(&mut rng, Scalar::I32, &[2, 5, 130]), some(&mut rng, Scalar::I32, &[2, 600, 130]));
    let ids: Vec<f64> = (0..600).map(|i| f64::from(i / 150)).collect();
    same(&d, ScatterAdd { axis: 1 }, &[target, tensor(Scalar::U32, &[600], &ids), updates]);
    let old = state(DType::BF16, &[3, 2], vec![0; 12]);
    let x = doubles(&[1, 2], &[1.0 + 2f64.powi(-8) + 2f64.powi(-50), -3.0]);
    same(&d, StateWrite { axis: 0 }, &[old, x, tensor(Scalar::U32, &[1], &[1.0])]);
}

#[test]
fn runs_longer_than_a_tile_are_sorted_by_merging() {
    let (d, mut rng) = (plain_device(), Rng(72));
    // Few different numbers: ties are everywhere.
    for (scalar, n) in [(Scalar::F32, 3100u64), (Scalar::I64, 1025), (Scalar::F64, 5000)] {
        let x = some(&mut rng, scalar, &[n, 2]);
        same(&d, Sort { axis: 0, descending: n > 4000 }, &[x]);
    }
    for (k, n) in [(1u64, 6000u64), (40, 5121), (1500, 3000)] {
        same(&d, TopK { k }, &[some(&mut rng, Scalar::F16, &[2, n])]);
    }
    for scalar in [Scalar::F64, Scalar::I64] {
        let x = some(&mut rng, scalar, &[3, 700]);
        same(&d, ArgMax { axis: 1, keep: false }, core::slice::from_ref(&x));
        same(&d, ArgMin { axis: 0, keep: true }, &[x]);
    }
    let odd = [f64::NAN, -0.0, f64::NEG_INFINITY, 0.0, f64::INFINITY, f64::NAN];
    same(&d, ArgMin { axis: 0, keep: false }, &[doubles(&[6], &odd)]);
    check(&d, Sort { axis: 0, descending: true }, &[doubles(&[6], &odd)], 0.0);
}

#[test]
fn rows_are_summed_by_their_shares() {
    let (d, mut rng) = (plain_device(), Rng(73));
    for (x, shares, tolerance) in [
        (Scalar::F32, Scalar::F32, 1e-6),
        (Scalar::F16, Scalar::F32, 1e-3),
        (Scalar::Bf16, Scalar::Bf16, 8e-3),
        (Scalar::F64, Scalar::F32, 1e-15),
    ] {
        let operands = [some(&mut rng, x, &[3, 4, 65]), some(&mut rng, shares, &[3, 4])];
        check(&d, WeightedSum, &operands, tolerance);
    }
    check(
        &d,
        WeightedSum,
        &[some(&mut rng, Scalar::F32, &[2, 0, 3]), some(&mut rng, Scalar::F32, &[2, 0])],
        0.0,
    );
}

#[test]
fn predict_and_unmask_are_the_cores() {
    let (d, mut rng) = (plain_device(), Rng(31));
    let (block, vocab, mask) = (12usize, 263u64, 260u32);
    for (temperature, min_p, editing) in
        [(0.0, 0.0, None), (0.0, 0.0, Some(0.02)), (0.9, 0.0, None), (1.7, 0.1, Some(0.3))]
    {
        let options = SampleParams { temperature, min_p, seed: 7, ..SampleParams::default() };
        let filling = Filling { steps: Some(5), threshold: 0.6, editing, post: 3 };
        let mut canvas = filling.canvas(mask, 80, &[3, 4], block);
        for pass in 0..9 {
            let mut logits = rng.floats(block * vocab as usize);
            logits.iter_mut().for_each(|x| *x *= 4.0);
            // Equal rows are as likely, one is not a number, and one likes the mask best.
            let v = vocab as usize;
            logits.copy_within(5 * v..6 * v, 9 * v);
            logits[7 * v..8 * v].fill(f32::NAN);
            logits[3 * v + mask as usize] = 9.0;
            let numbers: Vec<f64> = logits.iter().map(|x| f64::from(*x)).collect();
            let onto = state(DType::U32, &[canvas.len() as u64], u32_bytes(&canvas));
            let scalar = if pass % 3 == 2 { Scalar::F16 } else { Scalar::F32 };
            let operands = [
                tensor(scalar, &[block as u64, vocab], &numbers),
                state(DType::U32, &[32], u32_bytes(&options.to_words())),
                onto.clone(),
            ];
            let want = truth(&Op::from(Predict), &operands);
            let what = format!("{temperature} {editing:?}, pass {pass}");
            assert_eq!(run_op(&d, Predict, &operands), want, "{what}");
            let words_of = |bytes: &Vec<u8>| raw(Scalar::U32, &[block as u64], bytes.clone());
            let operands = [words_of(&want[0]), words_of(&want[1]), onto];
            let want = truth(&Op::from(Unmask), &operands);
            assert_eq!(run_op(&d, Unmask, &operands), want, "{what}");
            canvas = words(&want[0]);
        }
    }
}

#[test]
fn ids_of_a_table_without_elements_are_refused() {
    let (d, mut rng) = (plain_device(), Rng(76));
    for (axis, dims) in [(0, vec![0u64, 3]), (1, vec![2, 0, 3])] {
        let operands = [some(&mut rng, Scalar::F32, &dims), tensor(Scalar::U32, &[2], &[0.0, 1.0])];
        let e = run(&d, &case(Gather { axis }, &operands, Buffers::One)).unwrap_err();
        assert!(e.what.ends_with("of a table that has none"), "{}", e.what);
    }
}

/// Operands that have elements side by side where the result has, and those that have one for a row, a column or all.
#[test]
fn several_elements_of_a_thread_have_their_own_operands() {
    use StepOperand::{Input, Step};
    let (d, mut rng) = (plain_device(), Rng(75));
    let step = |f, operands: &[StepOperand]| RegionStep { f, operands: operands.to_vec() };
    let op = Region {
        steps: vec![
            step(StepFn::Zip(Binary::Add), &[Input(0), Input(1)]),
            step(StepFn::Zip(Binary::Mul), &[Step(0), Input(2)]),
            step(StepFn::Compare(Comparison::Lt), &[Step(1), Input(3)]),
            step(StepFn::Select, &[Step(2), Input(0), Step(1)]),
        ],
    };
    for last in [8u64, 12, 16, 18] {
        let shapes = [vec![4, 6, last], vec![last], vec![6, 1], vec![]];
        let operands = shapes.map(|dims| some(&mut rng, Scalar::F16, &dims));
        same(&d, op.clone(), &operands);
    }
    let small = [some(&mut rng, Scalar::I8, &[3, 32]), some(&mut rng, Scalar::I8, &[3, 1])];
    same(&d, Compare { f: Comparison::Ge }, &small);
    same(&d, Cast { to: DType::F64 }, &small[..1]);
    same(&d, Cast { to: DType::Scalar(Scalar::I8) }, &[some(&mut rng, Scalar::F64, &[66])]);
}

/// Kernels whose threads share memory, and those whose places are computed, at the ends of what they may reach.
#[test]
fn no_thread_reaches_what_is_not_its_own() {
    for watch in [Watch::Addresses, Watch::Races] {
        let (d, mut rng) = (emulated(32, watch), Rng(74));
        same(&d, Transpose { perm: vec![1, 0] }, &[some(&mut rng, Scalar::F32, &[33, 17])]);
        same(&d, Sort { axis: 0, descending: false }, &[some(&mut rng, Scalar::F32, &[70, 2])]);
        same(&d, TopK { k: 3 }, &[some(&mut rng, Scalar::I32, &[1, 1030])]);
        same(&d, ArgMax { axis: 1, keep: false }, &[some(&mut rng, Scalar::F32, &[2, 300])]);
        let ids = tensor(Scalar::I32, &[5], &[0.0, -1.0, 9.0, 2.0, -9.0]);
        let operands = [
            some(&mut rng, Scalar::F32, &[3, 2]),
            ids.clone(),
            some(&mut rng, Scalar::F32, &[5, 2]),
        ];
        same(&d, ScatterAdd { axis: 0 }, &operands);
        same(&d, Gather { axis: 1 }, &[some(&mut rng, Scalar::F16, &[2, 3, 3]), ids]);
        let (low, high) = (vec![2, 0], vec![2, 1]);
        for mode in [PadMode::Reflect, PadMode::Constant(1.0)] {
            let op = Pad { low: low.clone(), high: high.clone(), mode };
            same(&d, op, &[some(&mut rng, Scalar::U8, &[3, 5])]);
        }
        let window = Window::new(2).pad(&[1, 0], &[0, 2]).stride(&[2, 1]);
        let op = Im2Col { kernel: vec![2, 3], window };
        same(&d, op, &[some(&mut rng, Scalar::F32, &[1, 2, 3, 4])]);
        same(&d, Roll { shifts: vec![4], axes: vec![1] }, &[some(&mut rng, Scalar::F32, &[3, 5])]);
        let key = tensor(Scalar::U32, &[4], &[1.0, 2.0, 3.0, 4.0]);
        same(&d, RandomUniform { dims: Shape::of(&[7]) }, &[key]);
        let canvas = Filling { steps: None, threshold: 0.5, editing: None, post: 0 };
        let canvas = canvas.canvas(9, 0, &[1], 3);
        let onto = state(DType::U32, &[canvas.len() as u64], u32_bytes(&canvas));
        let drawn = SampleParams { temperature: 1.0, ..SampleParams::default() };
        let params = state(DType::U32, &[32], u32_bytes(&drawn.to_words()));
        same(&d, Predict, &[some(&mut rng, Scalar::F32, &[3, 65]), params, onto.clone()]);
        let ids = tensor(Scalar::U32, &[3], &[4.0, 5.0, 6.0]);
        same(&d, Unmask, &[ids.clone(), ids, onto]);
        // Operands that repeat along every axis.
        let operands =
            [some(&mut rng, Scalar::I8, &[3, 1, 5]), some(&mut rng, Scalar::I8, &[2, 1])];
        same(&d, Zip { f: Binary::Sub }, &operands);
    }
}
