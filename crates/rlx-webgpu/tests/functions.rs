//! Scalar functions and attention's attributes on the device, against the reference: whatever
//! WebGPU's target claims is computed, and what it does not claim is refused.
//!
//! WGSL promises nothing of infinities and NaN and may take a subnormal number for 0, so arguments
//! are finite, results that are not finite are not compared, and a subnormal argument may have the
//! value of 0.

use crate::common;
use common::*;
use rlx_core::Code;
use rlx_core::ops::{Attention, Binary, Epilogue, Map, MatMul, Op, Unary, Zip};
use rlx_core::reference::{self, View};
use rlx_core::types::{DType, Type};
use rlx_webgpu::kernels::scalar;

const EDGES: [f32; 32] = [
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
    80.5,
    -80.5,
    100.0,
    -104.5,
    16_777_217.0,
    -8_388_607.5,
    1e30,
    -1e30,
    f32::MAX,
    f32::MIN,
];

fn truth(op: &Op, operands: &[Operand]) -> Vec<f32> {
    let views: Vec<View<'_>> = operands.iter().map(|o| View::new(&o.ty, &o.bytes)).collect();
    floats(&reference::run(op, &views).expect("the reference runs this")[0])
}

fn claimed(op: &Op, operands: &[Operand]) -> bool {
    let types: Vec<&Type> = operands.iter().map(|o| &o.ty).collect();
    rlx_webgpu::target(rlx_webgpu::DEFAULT_LIMITS).claims(op, &types).is_ok()
}

fn flushed(x: f32) -> f32 {
    if x.is_subnormal() { 0.0 * x } else { x }
}

/// Within `relative` of what is expected and `absolute`, or nothing is promised.
fn near(got: f32, want: f32, (relative, absolute): (f32, f32)) -> bool {
    !want.is_finite() || (got - want).abs() <= relative * want.abs() + absolute
}

/// What a function may be off: WGSL's promise of the `exp`, `log`, `tanh`, quotient or root in it.
fn tolerance(f: Unary) -> (f32, f32) {
    // What is below the smallest normal number may be 0.
    let small = f32::MIN_POSITIVE;
    match f {
        Unary::Exp | Unary::Sigmoid | Unary::Softplus => (3e-5, 2e-35),
        Unary::Silu | Unary::QuickGelu => (3e-5, 2e-33),
        // f64's own 1 - tanh has 1e-16 of 1.
        Unary::Gelu | Unary::GeluErf => (3e-5, 1e-14),
        Unary::Tanh => (0.0, 1e-5),
        Unary::Log => (4e-7, 5e-7),
        // x / 6 + 1/2 cancels.
        Unary::HardSwish => (1e-6, 5e-7),
        Unary::HardSigmoid => (0.0, 2e-7),
        Unary::Relu | Unary::Neg | Unary::Abs | Unary::Sign => (0.0, small),
        Unary::Tan => (4e-6, small),
        Unary::Round | Unary::Floor | Unary::Ceil => (0.0, 0.0),
        _ => (1e-6, small),
    }
}

#[test]
fn claimed_unary_functions_are_the_references_on_edges_and_between_and_others_are_refused() {
    let d = device();
    let mut rng = Rng(21);
    let mut xs = EDGES.to_vec();
    xs.extend(rng.floats(400).iter().map(|x| x * 12.0));
    xs.extend(rng.floats(100).iter().map(|x| x * 1e-3));
    let n = xs.len() as u64;
    let x = input(&[1, n], &xs);
    let at_zero = input(&[1, n], &xs.iter().map(|&x| flushed(x)).collect::<Vec<_>>());
    let mut refused = Vec::new();
    for (f, name) in Unary::ALL {
        let op = Op::from(Map { f });
        let operands = [x.clone()];
        if !claimed(&op, &operands) {
            let made = run(&d, &case(op, &operands, Buffers::One));
            assert_eq!(made.unwrap_err().code, Code::Unsupported, "{name}");
            refused.push(name);
            continue;
        }
        let (want, other) = (truth(&op, &operands), truth(&op, core::slice::from_ref(&at_zero)));
        let got = floats(&run_op(&d, op, &operands)[0]);
        for i in 0..xs.len() {
            let ok = |want: f32| near(got[i], want, tolerance(f));
            assert!(
                ok(want[i]) || ok(other[i]),
                "{name}({}) is {}, expected {}",
                xs[i],
                got[i],
                want[i]
            );
        }
    }
    assert!(refused.is_empty(), "{refused:?}");
}

#[test]
fn claimed_binary_functions_are_the_references_on_pairs_of_edges_and_others_are_refused() {
    let d = device();
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for x in EDGES {
        for y in EDGES {
            a.push(x);
            b.push(y);
        }
    }
    let n = EDGES.len() as u64;
    let (x, y, row) = (input(&[n, n], &a), input(&[n, n], &b), input(&[n], &EDGES));
    let zeros = |x: &[f32]| x.iter().map(|&x| flushed(x)).collect::<Vec<_>>();
    let at_zero = [input(&[n, n], &zeros(&a)), input(&[n, n], &zeros(&b))];
    let mut refused = Vec::new();
    for (f, name) in Binary::ALL {
        let op = Op::from(Zip { f });
        if !claimed(&op, &[x.clone(), y.clone()]) {
            let made = run(&d, &case(op, &[x.clone(), y.clone()], Buffers::One));
            assert_eq!(made.unwrap_err().code, Code::Unsupported, "{name}");
            refused.push(name);
            continue;
        }
        let (relative, ends) = match f {
            // A quotient is promised for divisors between 2^-126 and 2^126.
            Binary::Div => (4e-7, true),
            Binary::Pow => (2e-7, false),
            _ => (1.2e-7, false),
        };
        for operands in [[x.clone(), y.clone()], [x.clone(), row.clone()]] {
            let (want, other) = (truth(&op, &operands), truth(&op, &at_zero));
            let got = floats(&run_op(&d, op.clone(), &operands)[0]);
            for i in 0..a.len() {
                if ends && !(f32::MIN_POSITIVE..8.5e37).contains(&b[i].abs()) {
                    continue;
                }
                let ok = |want: f32| near(got[i], want, (relative, f32::MIN_POSITIVE));
                assert!(
                    ok(want[i]) || ok(other[i]),
                    "{name}({}, {}) is {}, expected {}",
                    a[i],
                    b[i],
                    got[i],
                    want[i]
                );
            }
        }
    }
    assert!(refused.is_empty(), "{refused:?}");
}

#[test]
fn claimed_functions_are_applied_where_a_product_is_made() {
    let d = device();
    let mut rng = Rng(22);
    let mut positive = |n: u64, most: f32| -> Vec<f32> {
        rng.floats(n as usize).iter().map(|x| (x.abs() + 0.125) * most).collect()
    };
    for m in [1, 5] {
        let x = input(&[m, 24], &positive(m * 24, 0.25));
        let mut w = || weight(DType::F32, &[19, 24], f32_bytes(&positive(19 * 24, 0.1)));
        let operands = [x, w(), w()];
        for (f, name) in Unary::ALL {
            let map = Op::from(MatMul { epilogue: Epilogue::Map(f), ..MatMul::plain() });
            let glu = MatMul { segments: 2, epilogue: Epilogue::Glu(f), ..MatMul::plain() };
            for (op, operands) in [(map, &operands[..2]), (Op::from(glu), &operands[..])] {
                // Those that graphs alone ask for are steps of their own.
                let text = scalar::unary(f);
                let alone = text.is_some();
                assert_eq!(claimed(&op, operands), alone, "{name}");
                // A pipeline takes a driver half a second: of more rows and gated units, only texts of their own.
                let helpers = text.map_or("", |text| text.0);
                let again = m == 5 || !is_wide() && operands.len() == 3;
                if alone && again && (operands.len() == 3 || helpers.is_empty()) {
                    continue;
                }
                if !alone {
                    let made = run(&d, &case(op, operands, Buffers::One));
                    assert_eq!(made.unwrap_err().code, Code::Unsupported, "{name}");
                    continue;
                }
                let want: Vec<f64> = truth(&op, operands).iter().map(|&x| x.into()).collect();
                let got = run_op(&d, op, operands);
                assert_close(name, &floats(&got[0]), &want, 1e-5);
            }
        }
    }
}

#[test]
fn attention_looks_back_as_far_as_its_window_and_bounds_its_scores_and_has_sinks() {
    let d = device();
    let mut rng = Rng(23);
    for dtype in [DType::F32, DType::F16] {
        for (e, heads, kv_heads) in [(64u64, 4u64, 2u64), (6, 3, 3), (20, 10, 2)] {
            for (rows, len, past) in
                [(1u64, 1usize, 0u32), (1, 1, 63), (1, 1, 700), (5, 3, 62), (70, 70, 200)]
            {
                let width = (heads * e) as usize;
                let q: Vec<f32> =
                    rng.floats(rows as usize * width).iter().map(|x| x * 4.0).collect();
                let n = (kv_heads * 704 * e) as usize;
                let mut cache = || {
                    let bytes = random_weights(&mut rng, dtype, n, 1);
                    state(dtype, &[kv_heads, 704, e], bytes)
                };
                let mut operands = vec![
                    input(&[rows, heads * e], &q),
                    cache(),
                    cache(),
                    control(past, len as u32, 0),
                ];
                let sinks: Vec<f32> = rng.floats(heads as usize).iter().map(|x| x * 4.0).collect();
                // Caches and heads are tried with every form where they are the usual ones.
                let every = is_wide() || (dtype, e) == (DType::F16, 64);
                let all = [None, Some(63), Some(0), Some(64), Some(300), Some(u64::MAX)];
                for &window in &all[if every { 0..6 } else { 1..2 }] {
                    let all = [
                        (None, None),
                        (Some(50.0), Some(8)),
                        (Some(2.0), None),
                        (None, Some(u64::MAX)),
                    ];
                    for &(softcap, block) in &all[if every { 0..4 } else { 1..2 }] {
                        let causal = Attention::causal(e as usize, 0.3);
                        let op = Op::from(Attention { window, softcap, block, ..causal });
                        assert!(claimed(&op, &operands));
                        let want: Vec<f64> = truth(&op, &operands)[..len * width]
                            .iter()
                            .map(|&x| x.into())
                            .collect();
                        let got = floats(&run_op(&d, op.clone(), &operands)[0]);
                        let what = format!("{op:?} {dtype} {rows} rows after {past}");
                        assert_close(&what, &got[..len * width], &want, 2e-5);
                    }
                }
                // The cache as a ring: the same rows are those of later positions.
                operands[3] = control(past + 5 * 704 + 9, len as u32, 0);
                for &window in &[63, 0, 300][..if every { 3 } else { 1 }] {
                    let causal = Attention::causal(e as usize, 0.3);
                    let op = Op::from(Attention { window: Some(window), ring: true, ..causal });
                    assert!(claimed(&op, &operands));
                    let want: Vec<f64> =
                        truth(&op, &operands)[..len * width].iter().map(|&x| x.into()).collect();
                    let got = floats(&run_op(&d, op.clone(), &operands)[0]);
                    let what = format!("{op:?} {dtype} {rows} rows after {past} and five rings");
                    assert_close(&what, &got[..len * width], &want, 2e-5);
                }
                operands[3] = control(past, len as u32, 0);
                operands.push(input(&[heads], &sinks));
                for window in [None, Some(63)] {
                    let causal = Attention::causal(e as usize, 0.3);
                    let op = Op::from(Attention { window, sinks: true, ..causal });
                    assert!(claimed(&op, &operands));
                    let want: Vec<f64> =
                        truth(&op, &operands)[..len * width].iter().map(|&x| x.into()).collect();
                    let got = floats(&run_op(&d, op.clone(), &operands)[0]);
                    let what = format!("{op:?} {dtype} {rows} rows after {past}");
                    assert_close(&what, &got[..len * width], &want, 2e-5);
                }
            }
        }
    }
}
