//! A mixture of experts: routes and experts' products, at every SIMD level, with one worker and with three,
//! against the reference.

use crate::common;
use common::*;
use rlx_core::ir::lir::{ControlDecl, StateDecl};
use rlx_core::ops::*;
use rlx_core::runtime::device::{Write, WriteTo};
use rlx_core::types::{DType, Shape, Type};

/// A value under another shape.
fn shaped(value: Value, dims: &[u64]) -> Value {
    Value { ty: Type { shape: Shape::of(dims), ..value.ty }, ..value }
}

/// A bank `[experts, n, k]`.
fn bank(random: &mut Random, dtype: DType, [experts, n, k]: [u64; 3]) -> Value {
    shaped(random.packed(dtype, [experts * n, k]), &[experts, n, k])
}

/// Experts of each row, one of them too large.
fn choices(random: &mut Random, [m, top_k]: [u64; 2], experts: u64) -> Value {
    let mut ids: Vec<u32> = (0..m * top_k).map(|_| (random.bits() % experts) as u32).collect();
    if let Some(last) = ids.last_mut() {
        *last = u32::MAX;
    }
    u32s(&[m, top_k], &ids)
}

fn floats(random: &mut Random, dims: &[u64]) -> Value {
    f32s(dims, &random.floats(dims.iter().product::<u64>() as usize))
}

/// Every form of the product: `x` makes rows of x of these sizes.
fn every_form(
    random: &mut Random,
    dtype: DType,
    [m, top_k, experts, n, k]: [u64; 5],
    tolerance: f32,
    x: impl Fn(&mut Random, &[u64]) -> Value,
) {
    let what = format!("{dtype}, {m} rows to {top_k} of {experts}, {n}x{k}");
    let ids = choices(random, [m, top_k], experts);
    let (shared, own) = (x(random, &[m, k]), x(random, &[m, top_k, k]));
    let [gate, up] = [0; 2].map(|_| bank(random, dtype, [experts, n, k]));
    let [b0, b1] = [0; 2].map(|_| floats(random, &[experts, n]).weight());
    let glu = GroupedMatMul::glu(Unary::Silu);
    let operands = [&shared, &gate, &up, &ids].map(Value::clone);
    check_types(glu.clone(), &operands, tolerance, &what);
    let operands = [&shared, &gate, &up, &b0, &b1, &ids].map(Value::clone);
    let biased = GroupedMatMul { bias: true, ..glu };
    check_types(biased.clone(), &operands, tolerance, &what);
    let epilogue = GroupedEpilogue::LimitedGlu(Unary::QuickGelu, 0.4);
    // The limit is a small part of the products whose rounding the tolerance is for.
    let limited = GroupedMatMul { epilogue, ..biased.clone() };
    check_types(limited, &operands, 16.0 * tolerance, &what);
    let each = GroupedMatMul { epilogue: GroupedEpilogue::None, ..biased };
    check_types(each.clone(), &operands, tolerance, &what);
    let (shares, residual) = (floats(random, &[m, top_k]), floats(random, &[m, n]));
    let operands = [&own, &gate, &ids, &shares].map(Value::clone);
    check_types(GroupedMatMul::sum(), &operands, tolerance, &what);
    let add = GroupedMatMul { segments: 1, epilogue: GroupedEpilogue::SumAdd, ..each };
    let operands = [&own, &gate, &b0, &ids, &shares, &residual].map(Value::clone);
    check_types(add, &operands, tolerance, &what);
}

#[test]
fn experts_products_are_the_references_for_every_type_of_bank() {
    let mut random = Random(61);
    let k = if cfg!(miri) { 32 } else { 256 };
    for dtype in weight_types() {
        // Matrices of whole panels and others, one row and several.
        for [m, top_k, experts, n] in [[1, 3, 5, 48], [7, 2, 3, 19]] {
            every_form(&mut random, dtype, [m, top_k, experts, n, k], 2e-5, floats);
        }
    }
}

#[test]
fn rows_of_integers_meet_their_experts() {
    let mut random = Random(62);
    let k = if cfg!(miri) { 32 } else { 256 };
    for (dtype, of) in integer_products() {
        let blocks = |random: &mut Random, dims: &[u64]| {
            let (rows, n) = (dims[..dims.len() - 1].iter().product(), dims.iter().product::<u64>());
            shaped(quantized(of, [rows, k], &random.floats(n as usize)), dims)
        };
        for [m, top_k, experts, n] in [[1, 3, 5, 48], [7, 2, 3, 19]] {
            every_form(&mut random, dtype, [m, top_k, experts, n, k], 2e-5, blocks);
        }
    }
}

#[test]
fn many_rows_and_none_and_odd_sizes_meet_their_experts() {
    let mut random = Random(63);
    let mut sizes = vec![[0, 2, 3, 16, 8], [3, 1, 1, 1, 1], [9, 4, 70, 33, 5]];
    if !cfg!(miri) {
        // More rows of an expert than are multiplied at once.
        sizes.extend([[700, 2, 2, 32, 12], [40, 8, 16, 64, 40]]);
    }
    for sizes in sizes {
        every_form(&mut random, DType::F32, sizes, 4e-6, floats);
    }
}

#[test]
fn blocks_that_a_bank_meets_in_no_integers_are_refused() {
    let mut random = Random(64);
    let x = quantized(rlx_core::types::BlockFormat::Q8K, [2, 256], &random.floats(512));
    let bank = bank(&mut random, DType::F16, [2, 16, 256]);
    let types = [&x.ty, &bank.ty, &u32s(&[2, 1], &[0, 1]).ty];
    let path = rlx_cpu::target().path(&GroupedMatMul::default().into(), &types);
    assert_ne!(path, Ok(rlx_core::target::Path::Native));
}

#[test]
fn routes_are_the_references() {
    let mut random = Random(65);
    for [m, experts, groups, top_groups, group_sum, top_k] in [
        [1, 128, 1, 1, 1, 8],
        [9, 64, 8, 4, 2, 6],
        [4, 12, 3, 2, 1, 8],
        [3, 5, 1, 1, 1, 5],
        [2, 1, 1, 1, 1, 1],
        [0, 7, 1, 1, 1, 2],
    ] {
        let logits = f32s(
            &[m as u64, experts as u64],
            &random.floats(m * experts).iter().map(|x| 6.0 * x).collect::<Vec<f32>>(),
        );
        let bias = floats(&mut random, &[experts as u64]);
        for (sigmoid, normalise) in [(false, false), (true, false), (false, true), (true, true)] {
            let op = Route {
                sigmoid,
                normalise,
                groups,
                top_groups,
                group_sum,
                ..Route::softmax(top_k)
            };
            check_types(op.clone(), std::slice::from_ref(&logits), 2e-6, "logits");
            let op = Route { choice_bias: true, scale: Some(2.5), ..op };
            check_types(op, &[logits.clone(), bias.clone()], 2e-6, "logits and a bias");
        }
    }
}

#[test]
fn ties_and_numbers_that_are_not_finite_go_where_the_reference_has_them() {
    let odd = [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, 1.0, 1.0, -2.0, f32::NEG_INFINITY];
    let route = Route { sigmoid: true, ..Route::softmax(8) };
    check_types(route, &[f32s(&[1, 8], &odd)], 2e-6, "odd");
    let nan = [1.0, f32::NAN, 2.0, f32::NAN];
    check_types(Route::softmax(3), &[f32s(&[1, 4], &nan)], 2e-6, "nan");
    let route = Route { sigmoid: true, normalise: true, ..Route::softmax(2) };
    check_types(route, &[f32s(&[1, 3], &[f32::NEG_INFINITY; 3])], 2e-6, "nothing");
}

/// The first rows of a step whose other rows are not there: those are noise that would show.
#[test]
fn rows_past_len_are_left_out() {
    let mut random = Random(66);
    let [m, top_k, experts, n, k] = [6, 2, 3, 32, 64];
    let ids = choices(&mut random, [m, top_k], experts);
    let gate = bank(&mut random, DType::F32, [experts, n, k]);
    let shares = floats(&mut random, &[m, top_k]);
    let shared = floats(&mut random, &[m, k]);
    let own = floats(&mut random, &[m, top_k, k]);
    let each = Op::from(GroupedMatMul::default());
    let cases = [
        (each, vec![shared, gate.clone(), ids.clone()], top_k),
        (GroupedMatMul::sum().into(), vec![own, gate, ids, shares], 1),
        (Route::softmax(3).into(), vec![floats(&mut random, &[m, 8])], 1),
    ];
    for (op, operands, per_token) in cases {
        let expected = oracle(&op, &operands);
        for len in [1, 4] {
            let (mut program, mut writes) = program_of(&op, &operands);
            let ctl = control(0, len, 0);
            let bytes = ctl.bytes.len() as u64;
            program.states.push(StateDecl { name: "ctl".into(), ty: ctl.ty.clone(), bytes });
            program.control = Some(ControlDecl { state: 0, slots: 1, tokens: m });
            program.steps[0].live = Some(per_token);
            writes.push(Write { to: WriteTo::State(0), offset: 0, bytes: ctl.bytes });
            let weights = operands.iter().filter(|v| v.is_weight).map(|v| v.bytes.as_slice());
            let names: Vec<String> = program.weights.iter().map(|w| w.name.clone()).collect();
            let tensors: Vec<_> = names.iter().map(String::as_str).zip(weights).collect();
            for device in devices() {
                let got = run_program(&device, program.clone(), &tensors, &writes, None).unwrap();
                let there = expected[0].len() / m as usize * len as usize;
                assert_ne!(
                    got[0][there..],
                    expected[0][there..],
                    "{op:?}: rows that are not there"
                );
                if op.name() == "route" {
                    assert_eq!(got[0][..there], expected[0][..there]);
                    continue;
                }
                let (got, expected) = (to_f32s(&got[0][..there]), to_f32s(&expected[0][..there]));
                assert_close(&got, &expected, 4e-6, op.name());
            }
        }
    }
}

#[test]
fn threads_change_no_bit() {
    let mut random = Random(67);
    let [m, top_k, experts, n, k] = [33, 4, 8, 256, 128];
    let ids = choices(&mut random, [m, top_k], experts);
    let gate = bank(&mut random, DType::Block(rlx_core::types::BlockFormat::Q8_0), [experts, n, k]);
    let (x, shares) = (floats(&mut random, &[m, top_k, k]), floats(&mut random, &[m, top_k]));
    let devices = devices();
    for pair in devices.chunks(2) {
        let op = GroupedMatMul::sum().into();
        let operands = [x.clone(), gate.clone(), ids.clone(), shares.clone()];
        assert_eq!(run_op(&pair[0], &op, &operands), run_op(&pair[1], &op, &operands));
    }
}

/// Panels of the matrix go across those of the bank.
#[test]
fn a_matrix_may_be_read_as_a_bank_of_odd_matrices_too() {
    use rlx_core::ir::mir::{Graph, ParamKind};
    let mut random = Random(68);
    let w = random.packed(DType::F32, [57, 40]);
    let mut g = Graph::new("both");
    let (rows, ids) = (floats(&mut random, &[4, 40]), choices(&mut random, [4, 2], 3));
    let x = g.param(ParamKind::Input, "x", rows.ty.clone());
    let chosen = g.param(ParamKind::Input, "ids", ids.ty.clone());
    let matrix = g.param(ParamKind::Weight, "w", w.ty.clone());
    let whole = g.push1(MatMul::plain(), &[x, matrix], "whole").unwrap();
    let dims = Shape::of(&[3, 19, 40]);
    let bank = g.push1(Reshape { dims }, &[matrix], "bank").unwrap();
    let each = g.push1(GroupedMatMul::default(), &[x, bank, chosen], "each").unwrap();
    g.output("whole", whole);
    g.output("each", each);
    let bytes = [&rows.bytes[..], &ids.bytes, &w.bytes];
    let expected = rlx_core::reference::interpret(&g, &bytes).unwrap().outputs;
    for device in devices() {
        let got = outputs(&device, &g, &[rows.clone(), ids.clone(), w.clone()]).unwrap();
        for (got, expected) in got.iter().zip(&expected) {
            assert_close(&to_f32s(got), &to_f32s(expected), 4e-6, &device.info().adapter);
        }
    }
}
