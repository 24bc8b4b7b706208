//! A mixture of experts: routes, and products with the weights that a row is sent to, against the reference.

use crate::banks::{bank, choices, noise};
use crate::common::*;
use rlx_core::ops::{GroupedEpilogue, GroupedMatMul, Op, Route, Unary};
use rlx_core::types::{BlockFormat, DType};
use rlx_cuda::driver::emulator::Watch;

#[test]
fn products_with_experts_are_right_in_every_form() {
    let mut rng = Rng(71);
    let q4_k = DType::Block(BlockFormat::Q4K);
    for (dtype, k, n) in [(DType::F32, 33u64, 9u64), (DType::F16, 64, 70), (q4_k, 512, 5)] {
        for [m, top_k, experts] in [[1, 3, 5], [5, 2, 3], [100, 2, 3]] {
            // Packed weights are rounded to halves where rows are many.
            let rounded = m > 16 && dtype.is_block();
            let tolerance = if rounded { 4e-4 } else { 4e-6 };
            let ids = choices(&mut rng, [m, top_k], experts);
            let (shared, own) = (noise(&mut rng, &[m, k]), noise(&mut rng, &[m, top_k, k]));
            let (shares, residual) = (noise(&mut rng, &[m, top_k]), noise(&mut rng, &[m, n]));
            let [gate, up] = [0; 2].map(|_| bank(&mut rng, dtype, [experts, n, k]));
            let biases = [0; 2].map(|_| {
                let bytes = f32_bytes(&rng.floats((experts * n) as usize));
                weight(DType::F32, &[experts, n], bytes)
            });
            let [b0, b1] = &biases;
            let all = |operands: &[&Operand]| -> Vec<Operand> {
                operands.iter().map(|&o| o.clone()).collect()
            };
            let glu = GroupedMatMul::glu(Unary::Silu);
            agrees(glu.clone(), &all(&[&shared, &gate, &up, &ids]), tolerance);
            let biased = GroupedMatMul { bias: true, ..glu };
            let operands = all(&[&shared, &gate, &up, b0, b1, &ids]);
            agrees(biased.clone(), &operands, tolerance);
            // The limit is a small part of the products whose rounding the tolerance is for.
            let epilogue = GroupedEpilogue::LimitedGlu(Unary::QuickGelu, 0.4);
            let near = if rounded { 0.1 } else { 2e-4 };
            agrees(GroupedMatMul { epilogue, ..biased.clone() }, &operands, near);
            let each = GroupedMatMul { epilogue: GroupedEpilogue::None, ..biased };
            agrees(each.clone(), &operands, tolerance);
            agrees(GroupedMatMul::sum(), &all(&[&own, &gate, &ids, &shares]), tolerance);
            let epilogue = GroupedEpilogue::SumAdd;
            let add = GroupedMatMul { segments: 1, epilogue, ..each };
            agrees(add, &all(&[&own, &gate, b0, &ids, &shares, &residual]), tolerance);
        }
    }
}

/// A block takes many stages of the experts of one row, whose rows are no whole steps of copies by themselves.
#[test]
fn experts_of_one_row_come_as_a_stream() {
    let mut rng = Rng(77);
    let (experts, top_k) = (6u64, 4u64);
    for (dtype, k, n) in [
        (DType::Block(BlockFormat::Q4K), 256u64, 160u64),
        (DType::Block(BlockFormat::Q6K), 256, 328),
        (DType::F16, 1056, 72),
    ] {
        let ids = choices(&mut rng, [1, top_k], experts);
        let (shared, own) = (noise(&mut rng, &[1, k]), noise(&mut rng, &[1, top_k, k]));
        let (shares, residual) = (noise(&mut rng, &[1, top_k]), noise(&mut rng, &[1, n]));
        let [gate, up] = [0; 2].map(|_| bank(&mut rng, dtype, [experts, n, k]));
        let all = |operands: &[&Operand]| -> Vec<Operand> {
            operands.iter().map(|&o| o.clone()).collect()
        };
        for watch in [Watch::Addresses, Watch::Races] {
            let d = emulated_or_card(watch);
            let on = |op: GroupedMatMul, operands: &[&Operand]| {
                agrees_on(&d, op, &all(operands), 4e-6);
            };
            on(GroupedMatMul::glu(Unary::Silu), &[&shared, &gate, &up, &ids]);
            let each = GroupedMatMul {
                epilogue: GroupedEpilogue::None,
                segments: 1,
                ..GroupedMatMul::glu(Unary::Silu)
            };
            on(each.clone(), &[&own, &gate, &ids]);
            on(GroupedMatMul::sum(), &[&own, &gate, &ids, &shares]);
            let add = GroupedMatMul { epilogue: GroupedEpilogue::SumAdd, ..each };
            on(add, &[&own, &gate, &ids, &shares, &residual]);
        }
    }
}

/// Rows of weights that are copied each by itself, and all at once; odd numbers of steps, tiles that are not full.
#[test]
fn experts_of_many_rows_have_products_of_four_warps() {
    let mut rng = Rng(78);
    let (m, top_k, experts) = (70u64, 2u64, 3u64);
    for (dtype, k, n, tolerance) in [
        (DType::Block(BlockFormat::Q4K), 256u64, 64u64, 1e-3),
        (DType::Block(BlockFormat::Q6K), 256, 128, 1e-3),
        (DType::Block(BlockFormat::Q8_0), 320, 64, 1e-3),
        (DType::F16, 192, 64, 4e-6),
    ] {
        let ids = choices(&mut rng, [m, top_k], experts);
        let (shared, own) = (noise(&mut rng, &[m, k]), noise(&mut rng, &[m, top_k, k]));
        let (shares, residual) = (noise(&mut rng, &[m, top_k]), noise(&mut rng, &[m, n]));
        let [gate, up] = [0; 2].map(|_| bank(&mut rng, dtype, [experts, n, k]));
        let d = emulated_or_card(Watch::Addresses);
        let on = |op: GroupedMatMul, operands: &[&Operand]| {
            let operands: Vec<Operand> = operands.iter().map(|&o| o.clone()).collect();
            agrees_on(&d, op, &operands, tolerance);
        };
        let glu = GroupedMatMul::glu(Unary::Silu);
        on(glu.clone(), &[&shared, &gate, &up, &ids]);
        let each = GroupedMatMul { epilogue: GroupedEpilogue::None, ..glu };
        on(each.clone(), &[&own, &gate, &up, &ids]);
        let add = GroupedMatMul { epilogue: GroupedEpilogue::SumAdd, segments: 1, ..each };
        on(add, &[&own, &gate, &ids, &shares, &residual]);
    }
}

#[test]
fn rows_go_to_the_experts_of_the_reference() {
    let mut rng = Rng(74);
    let plain = Route::softmax(3);
    let grouped = Route { groups: 4, top_groups: 2, group_sum: 2, ..plain.clone() };
    let biased = Route { sigmoid: true, choice_bias: true, normalise: true, ..plain.clone() };
    for op in [
        plain.clone(),
        Route { top_k: 1, normalise: true, ..plain.clone() },
        Route { scale: Some(2.5), normalise: true, ..plain },
        biased.clone(),
        grouped.clone(),
        Route { groups: 4, top_groups: 2, group_sum: 1, scale: Some(0.5), ..biased },
        Route { sigmoid: true, ..grouped },
    ] {
        for experts in [8u64, 160] {
            let mut operands = vec![noise(&mut rng, &[5, experts])];
            if op.choice_bias {
                let bytes = f32_bytes(&rng.floats(experts as usize));
                operands.push(weight(DType::F32, &[experts], bytes));
            }
            let op = Op::from(op.clone());
            let got = run_op(&plain_device(), op.clone(), &operands);
            let want = truth(&op, &operands);
            assert_eq!(got[0], want[0], "{op:?} of {experts}: which experts");
            assert_close(&format!("{op:?}"), &floats(&got[1]), &f64s(&want[1]), 2e-6);
        }
    }
}

#[test]
fn equal_logits_go_to_the_lower_experts_and_infinite_ones_to_none() {
    let op = Op::from(Route::softmax(2));
    let low = f32::NEG_INFINITY;
    let logits = [1.0, 3.0, 3.0, 3.0, low, low, 0.0, -0.0, 0.5, low, low, low];
    let operands = [input(&[3, 4], &logits)];
    let got = run_op(&plain_device(), op.clone(), &operands);
    assert_eq!(got[0], truth(&op, &operands)[0]);
    assert_eq!(got[0], u32_bytes(&[1, 2, 2, 3, 0, 1]));
    assert!(floats(&got[1]).iter().all(|share| share.is_finite()));
}
