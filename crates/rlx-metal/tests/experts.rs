//! Our own products of a few rows with the matrices of their experts, against the reference's.

use crate::banks::{bank, choices, noise};
use crate::common::*;
use crate::emulator::Watch;
use rlx_core::ops::{GroupedEpilogue, GroupedMatMul, Op, Unary};
use rlx_core::types::{BlockFormat, DType};
use std::sync::Arc;

#[track_caller]
fn check(
    d: &Arc<TestDevice>,
    own: Option<&str>,
    op: GroupedMatMul,
    operands: &[&Operand],
    off: f64,
) {
    let launches = || ["own_experts", "own_experts_sum"].map(|name| d.gpu().metal().launches(name));
    let before = launches();
    let operands: Vec<Operand> = operands.iter().map(|o| (*o).clone()).collect();
    let op = Op::from(op);
    let got = run_op(d, op.clone(), &operands);
    let ran = ["own_experts", "own_experts_sum"].map(|name| own == Some(name));
    let after = launches();
    assert_eq!([after[0] > before[0], after[1] > before[1]], ran, "{op:?}: whose kernel ran");
    for (got, want) in got.iter().zip(truth(&op, &operands)) {
        let want: Vec<f64> = floats(&want).iter().map(|&x| x.into()).collect();
        assert_close(&format!("{op:?}"), &floats(got), &want, off);
    }
}

/// Every form, of banks of these types.
fn every_form(
    d: &Arc<TestDevice>,
    rng: &mut Rng,
    types: [DType; 2],
    [m, top_k, experts, n, k]: [u64; 5],
) {
    let ids = choices(rng, [m, top_k], experts);
    let (shared, each_own) = (noise(rng, &[m, k]), noise(rng, &[m, top_k, k]));
    let [gate, up] = types.map(|dtype| bank(rng, dtype, [experts, n, k]));
    let [b0, b1] = [0; 2]
        .map(|_| weight(DType::F32, &[experts, n], f32_bytes(&rng.floats((experts * n) as usize))));
    let (shares, residual) = (noise(rng, &[m, top_k]), noise(rng, &[m, n]));
    let (products, sums) = (Some("own_experts"), Some("own_experts_sum"));
    let glu = GroupedMatMul::glu(Unary::Silu);
    check(d, products, glu.clone(), &[&shared, &gate, &up, &ids], 4e-6);
    let epilogue = GroupedEpilogue::LimitedGlu(Unary::QuickGelu, 0.4);
    let limited = GroupedMatMul { bias: true, epilogue, ..glu };
    // The limit is a small part of the products whose rounding the tolerance is for.
    check(d, products, limited.clone(), &[&shared, &gate, &up, &b0, &b1, &ids], 2e-4);
    let each = GroupedMatMul { epilogue: GroupedEpilogue::None, ..limited };
    check(d, products, each.clone(), &[&each_own, &gate, &up, &b0, &b1, &ids], 4e-6);
    check(d, sums, GroupedMatMul::sum(), &[&each_own, &gate, &ids, &shares], 4e-6);
    let add = GroupedMatMul { segments: 1, epilogue: GroupedEpilogue::SumAdd, ..each };
    check(d, sums, add, &[&each_own, &up, &b0, &ids, &shares, &residual], 4e-6);
}

#[test]
fn experts_products_and_sums_are_the_references() {
    let (d, mut rng) = (device(), Rng(91));
    let [q4_k, q6_k] = [BlockFormat::Q4K, BlockFormat::Q6K].map(DType::Block);
    every_form(&d, &mut rng, [q4_k, q6_k], [1, 3, 5, 37, 512]);
    // Rows that are no whole 32, and more experts of a row than a threadgroup has SIMD groups.
    every_form(&d, &mut rng, [DType::F16, DType::F16], [3, 10, 12, 9, 45]);
}

#[test]
fn other_types_and_many_rows_are_wgsls() {
    let (d, mut rng) = (device(), Rng(92));
    for (dtype, m, k) in [(DType::Block(BlockFormat::Q2K), 1, 256), (DType::F16, 9, 32)] {
        let ids = choices(&mut rng, [m, 2], 3);
        let (x, bank) = (noise(&mut rng, &[m, k]), bank(&mut rng, dtype, [3, 5, k]));
        check(&d, None, GroupedMatMul::default(), &[&x, &bank, &ids], 4e-6);
    }
}

#[test]
fn ours_stays_within_its_memory_and_has_no_races() {
    for watch in [Watch::Addresses, Watch::Races] {
        let (d, mut rng) = (watched(watch), Rng(93));
        let ids = choices(&mut rng, [2, 3], 4);
        let (x, bank) = (noise(&mut rng, &[2, 3, 33]), bank(&mut rng, DType::F16, [4, 3, 33]));
        let shares = noise(&mut rng, &[2, 3]);
        check(&d, Some("own_experts_sum"), GroupedMatMul::sum(), &[&x, &bank, &ids, &shares], 4e-6);
        check(&d, Some("own_experts"), GroupedMatMul::default(), &[&x, &bank, &ids], 4e-6);
    }
}
