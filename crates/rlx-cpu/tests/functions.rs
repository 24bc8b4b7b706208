//! Every scalar function at every SIMD level against the reference, on edge values too: whatever
//! the CPU's target claims is computed, alone and where a product is made.

use crate::common;
use common::*;
use rlx_core::ops::*;
use rlx_core::target::Path;
use rlx_core::types::{BlockFormat, DType};
use rlx_cpu::target;

/// Zeros, subnormals, halves, what overflows `exp`, whole numbers beyond 2^24, ends.
const EDGES: [f32; 35] = [
    0.0,
    -0.0,
    1e-45,
    -1e-45,
    1e-39,
    -1e-39,
    f32::MIN_POSITIVE,
    1e-20,
    -1e-20,
    0.25,
    -0.25,
    0.5,
    -0.5,
    1.5,
    2.5,
    -2.5,
    1.0,
    -1.0,
    3.0,
    -3.0,
    10.0,
    -10.0,
    87.0,
    -87.0,
    100.0,
    -104.5,
    16_777_217.0,
    -8_388_607.5,
    1e30,
    -1e30,
    f32::MAX,
    f32::MIN,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
];

/// Equal, both NaN, or within `relative` of the expected and `absolute`.
fn near(got: f32, expected: f32, relative: f32, absolute: f32) -> bool {
    got == expected
        || (got.is_nan() && expected.is_nan())
        || (got - expected).abs() <= relative * expected.abs() + absolute
}

#[test]
fn every_unary_function_is_the_references_on_edges_and_between() {
    let mut xs = EDGES.to_vec();
    xs.extend(Random(1).floats(400).iter().map(|x| x * 12.0));
    xs.extend(Random(2).floats(100).iter().map(|x| x * 1e-3));
    let x = f32s(&[1, xs.len() as u64], &xs);
    for (f, name) in Unary::ALL {
        let op = Op::from(Map { f });
        assert_eq!(target().path(&op, &[&x.ty]), Ok(Path::Native), "{name}");
        let expected = to_f32s(&oracle(&op, core::slice::from_ref(&x))[0]);
        // The exponent of a tail is rounded, and f64's own 1 - tanh has 1e-16 of 1.
        let (relative, absolute) = match f {
            Unary::Gelu | Unary::GeluErf => (1e-5, 1e-14),
            // Its argument times 1.702 is rounded before the exponential.
            Unary::QuickGelu => (1e-5, 1e-37),
            _ => (4e-7, 1e-37),
        };
        for device in devices() {
            let got = to_f32s(&run_op(&device, &op, core::slice::from_ref(&x))[0]);
            for ((x, got), expected) in xs.iter().zip(got).zip(&expected) {
                // -inf times the 0 that it tends to: the limit will do.
                let limit = f == Unary::GeluErf && *x == f32::NEG_INFINITY && got == 0.0;
                let adapter = &device.info().adapter;
                assert!(
                    limit || near(got, *expected, relative, absolute),
                    "{name}({x}) is {got}, expected {expected}, {adapter}"
                );
            }
        }
    }
}

/// The edges' test has numbers that are too large for it, so that the whole row is left to the reference's function.
#[test]
fn sines_and_cosines_of_many_turns_keep_their_relative_precision() {
    let mut xs: Vec<f32> = (0..4000).map(|i| (i - 2000) as f32 * 0.0123).collect();
    xs.extend(Random(3).floats(4000).iter().map(|x| x * 2500.0).filter(|x| x.abs() <= 8192.0));
    // What is nearest to multiples of a quarter turn loses most.
    xs.extend((-5215..=5215).map(|n| (f64::from(n) * core::f64::consts::FRAC_PI_2) as f32));
    xs.extend([8192.0, -8192.0, 0.0, -0.0, 1e-45, 1e-20, f32::MIN_POSITIVE]);
    let x = f32s(&[1, xs.len() as u64], &xs);
    for (f, name) in [(Unary::Sin, "sin"), (Unary::Cos, "cos")] {
        let op = Op::from(Map { f });
        let expected = to_f32s(&oracle(&op, core::slice::from_ref(&x))[0]);
        for device in devices() {
            let got = to_f32s(&run_op(&device, &op, core::slice::from_ref(&x))[0]);
            for ((x, got), expected) in xs.iter().zip(got).zip(&expected) {
                let adapter = &device.info().adapter;
                assert!(
                    near(got, *expected, 2.4e-7, 1e-37),
                    "{name}({x}) is {got}, expected {expected}, {adapter}"
                );
            }
        }
    }
}

#[test]
fn tails_of_gelu_erf_keep_their_relative_precision_above_where_the_reference_has_one() {
    let xs: Vec<f32> = (0..500).map(|i| i as f32 * -0.01).collect();
    let x = f32s(&[1, 500], &xs);
    let op = Op::from(Map { f: Unary::GeluErf });
    let expected = to_f32s(&oracle(&op, core::slice::from_ref(&x))[0]);
    for device in devices() {
        let got = to_f32s(&run_op(&device, &op, core::slice::from_ref(&x))[0]);
        for ((x, got), expected) in xs.iter().zip(got).zip(&expected) {
            assert!(near(got, *expected, 6e-6, 0.0), "gelu_erf({x}) is {got}, not {expected}");
        }
    }
}

#[test]
fn every_binary_function_is_the_references_on_every_pair_of_edges() {
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for x in EDGES {
        for y in EDGES {
            a.push(x);
            b.push(y);
        }
    }
    let n = EDGES.len() as u64;
    let operands = [f32s(&[n, n], &a), f32s(&[n, n], &b)];
    let row = [operands[0].clone(), f32s(&[n], &EDGES)];
    for (f, name) in Binary::ALL {
        let op = Op::from(Zip { f });
        let types = [&operands[0].ty, &operands[1].ty];
        assert_eq!(target().path(&op, &types), Ok(Path::Native), "{name}");
        for operands in [&operands, &row] {
            let expected = to_f32s(&oracle(&op, operands)[0]);
            for device in devices() {
                let got = to_f32s(&run_op(&device, &op, operands)[0]);
                for (i, (got, expected)) in got.iter().zip(&expected).enumerate() {
                    assert!(
                        near(*got, *expected, 1.2e-7, 1e-45),
                        "{name}({}, {}) is {got}, expected {expected}",
                        a[i],
                        b[i]
                    );
                }
            }
        }
    }
}

#[test]
fn every_function_is_applied_where_a_product_is_made() {
    let mut random = Random(3);
    // Products in 0..1, where every function is well conditioned.
    let mut positive = |dims: &[u64], most: f32| {
        let n = dims.iter().product::<u64>() as usize;
        let x: Vec<f32> = random.floats(n).iter().map(|x| (x.abs() + 0.125) * most).collect();
        f32s(dims, &x)
    };
    for m in [1, 5] {
        let x = positive(&[m, 24], 0.25);
        let (a, b) = (positive(&[19, 24], 0.1).weight(), positive(&[19, 24], 0.1).weight());
        for (f, name) in Unary::ALL {
            let map = Op::from(MatMul { epilogue: Epilogue::Map(f), ..MatMul::plain() });
            let glu = MatMul { segments: 2, epilogue: Epilogue::Glu(f), ..MatMul::plain() };
            let of_two = [x.clone(), a.clone(), b.clone()];
            for (op, operands) in [(map, &of_two[..2]), (Op::from(glu), &of_two[..])] {
                let types: Vec<_> = operands.iter().map(|v| &v.ty).collect();
                assert_eq!(target().path(&op, &types), Ok(Path::Native), "{name}");
                let expected = to_f32s(&oracle(&op, operands)[0]);
                for device in devices() {
                    let got = to_f32s(&run_op(&device, &op, operands)[0]);
                    assert_close(&got, &expected, 2e-6, &format!("{op:?}"));
                }
            }
        }
    }
}

#[test]
fn attention_over_a_ring_sees_the_last_positions() {
    let mut random = Random(5);
    for dtype in [DType::F32, DType::F16, DType::Block(BlockFormat::Q8_0)] {
        let e = if dtype.is_block() { 32 } else { 12u64 };
        for (seq, past) in [(1u64, 5u32), (1, 99), (1, 163), (7, 98), (40, 250)] {
            let q = random.floats((seq * 6 * e) as usize);
            let mut rows = || cache(dtype, &[2, 100, e], &random.floats((200 * e) as usize));
            let operands = [f32s(&[seq, 6 * e], &q), rows(), rows(), control(past, seq as u32, 0)];
            for window in [0, 31, 60] {
                let causal = Attention::causal(e as usize, 1.5);
                let op = Op::from(Attention { window: Some(window), ring: true, ..causal });
                let types: Vec<_> = operands.iter().map(|v| &v.ty).collect();
                assert_eq!(target().path(&op, &types), Ok(Path::Native));
                let expected = to_f32s(&oracle(&op, &operands)[0]);
                for device in devices() {
                    let got = to_f32s(&run_op(&device, &op, &operands)[0]);
                    let what = format!("{window} before {seq} rows after {past}, {dtype}");
                    assert_close(&got, &expected, 2e-5, &what);
                }
            }
        }
    }
}

#[test]
fn attention_looks_back_as_far_as_its_window_and_bounds_its_scores_and_has_sinks() {
    let mut random = Random(4);
    for dtype in [DType::F32, DType::F16] {
        for (heads, kv, e) in [(1u64, 1u64, 8u64), (6, 2, 12), (4, 1, 5)] {
            for (seq, past) in [(1u64, 0u32), (1, 31), (1, 90), (7, 40), (40, 50)] {
                let q: Vec<f32> =
                    random.floats((seq * heads * e) as usize).iter().map(|x| x * 9.0).collect();
                let mut rows =
                    || cache(dtype, &[kv, 100, e], &random.floats((kv * 100 * e) as usize));
                let mut operands =
                    vec![f32s(&[seq, heads * e], &q), rows(), rows(), control(past, seq as u32, 0)];
                let sinks: Vec<f32> =
                    random.floats(heads as usize).iter().map(|x| x * 6.0).collect();
                for window in [None, Some(0), Some(1), Some(31), Some(32), Some(u64::MAX)] {
                    for (softcap, block) in [
                        (None, None),
                        (Some(2.0), None),
                        (Some(50.0), Some(8)),
                        (None, Some(u64::MAX)),
                    ] {
                        let causal = Attention::causal(e as usize, 1.5);
                        let op = Op::from(Attention { window, softcap, block, ..causal });
                        let types: Vec<_> = operands.iter().map(|v| &v.ty).collect();
                        assert_eq!(target().path(&op, &types), Ok(Path::Native));
                        let expected = to_f32s(&oracle(&op, &operands)[0]);
                        for device in devices() {
                            let got = to_f32s(&run_op(&device, &op, &operands)[0]);
                            let what = format!("{op:?} {dtype} {heads}/{kv} {seq} after {past}");
                            assert_close(&got, &expected, 2e-5, &what);
                        }
                    }
                }
                operands.push(f32s(&[heads], &sinks));
                for window in [None, Some(31)] {
                    let causal = Attention::causal(e as usize, 1.5);
                    let op = Op::from(Attention { window, sinks: true, ..causal });
                    let expected = to_f32s(&oracle(&op, &operands)[0]);
                    for device in devices() {
                        let got = to_f32s(&run_op(&device, &op, &operands)[0]);
                        let what = format!("{op:?} {dtype} {heads}/{kv} {seq} after {past}");
                        assert_close(&got, &expected, 2e-5, &what);
                    }
                }
            }
        }
    }
}
