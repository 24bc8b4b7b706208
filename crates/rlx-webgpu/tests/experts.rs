//! A mixture of experts on the device against the reference: routes, and experts' products of every type.

use crate::banks::{bank, choices, noise};
use crate::common;
use common::*;
use rlx_core::ir::lir::ControlDecl;
use rlx_core::ops::{
    GroupedEpilogue, GroupedMatMul, Op, Operator, QuantizeRows, Route, Unary, WeightedSum,
};
use rlx_core::reference::{self, View};
use rlx_core::target::{Activations, CompileOptions};
use rlx_core::types::{BlockFormat, DType, Shape, Type};

fn oracle(op: &Op, operands: &[Operand]) -> Vec<Vec<u8>> {
    let views: Vec<View<'_>> = operands.iter().map(|o| View::new(&o.ty, &o.bytes)).collect();
    reference::run(op, &views).unwrap()
}

fn wide(bytes: &[u8]) -> Vec<f64> {
    floats(bytes).into_iter().map(f64::from).collect()
}

#[track_caller]
fn agrees(op: impl Into<Op>, operands: &[Operand], what: &str) {
    agrees_within(op, operands, what, 4e-6);
}

fn agrees_within(op: impl Into<Op>, operands: &[Operand], what: &str, tolerance: f64) {
    let op = op.into();
    let got = run_op(&device(), op.clone(), operands);
    for (got, expected) in got.iter().zip(oracle(&op, operands)) {
        assert_close(&format!("{what} {op:?}"), &floats(got), &wide(&expected), tolerance);
    }
}

/// Every form of the product.
fn every_form(rng: &mut Rng, dtype: DType, [m, top_k, experts, n, k]: [u64; 5]) {
    let what = format!("{dtype}, {m} rows to {top_k} of {experts}, {n}x{k}");
    let ids = choices(rng, [m, top_k], experts);
    let (shared, own) = (noise(rng, &[m, k]), noise(rng, &[m, top_k, k]));
    let [gate, up] = [0; 2].map(|_| bank(rng, dtype, [experts, n, k]));
    let [b0, b1] = [0; 2]
        .map(|_| weight(DType::F32, &[experts, n], f32_bytes(&rng.floats((experts * n) as usize))));
    let glu = GroupedMatMul::glu(Unary::Silu);
    agrees(glu.clone(), &[&shared, &gate, &up, &ids].map(Operand::clone), &what);
    let operands = [&shared, &gate, &up, &b0, &b1, &ids].map(Operand::clone);
    let biased = GroupedMatMul { bias: true, ..glu };
    agrees(biased.clone(), &operands, &what);
    let epilogue = GroupedEpilogue::LimitedGlu(Unary::QuickGelu, 0.4);
    // The limit is a small part of the products whose rounding the tolerance is for.
    let limited = GroupedMatMul { epilogue, ..biased.clone() };
    agrees_within(limited, &operands, &what, 2e-4);
    let each = GroupedMatMul { epilogue: GroupedEpilogue::None, ..biased };
    agrees(each.clone(), &operands, &what);
    let (shares, residual) = (noise(rng, &[m, top_k]), noise(rng, &[m, n]));
    if m > 8 {
        // Sums of many rows are those of the products.
        let one = GroupedMatMul { segments: 1, ..each };
        agrees(one, &[&own, &gate, &b0, &ids].map(Operand::clone), &what);
        let each = noise(rng, &[m, top_k, n]);
        return agrees(WeightedSum, &[each, shares], &what);
    }
    agrees(GroupedMatMul::sum(), &[&own, &gate, &ids, &shares].map(Operand::clone), &what);
    let add = GroupedMatMul { segments: 1, epilogue: GroupedEpilogue::SumAdd, ..each.clone() };
    agrees(add.clone(), &[&own, &gate, &b0, &ids, &shares, &residual].map(Operand::clone), &what);
    // The same of blocks of integers.
    for format in [BlockFormat::Q8_0, BlockFormat::Q15_0] {
        if !dtype.is_block() || format == BlockFormat::Q15_0 && m > 1 {
            return;
        }
        let (shared, own) = (blocks_of(&shared, format), blocks_of(&own, format));
        let glu = GroupedMatMul::glu(Unary::Silu);
        agrees(glu, &[&shared, &gate, &up, &ids].map(Operand::clone), &what);
        let operands = [&own, &gate, &up, &b0, &b1, &ids].map(Operand::clone);
        agrees(each.clone(), &operands, &what);
        let operands = [&own, &gate, &b0, &ids, &shares, &residual].map(Operand::clone);
        agrees(add.clone(), &operands, &what);
    }
}

/// Rows as blocks of integers, which the device's own kernel makes of them.
fn blocks_of(x: &Operand, format: BlockFormat) -> Operand {
    let op = Op::from(QuantizeRows::to(format));
    let made = run_op(&device(), op.clone(), std::slice::from_ref(x));
    assert_eq!(made, oracle(&op, std::slice::from_ref(x)));
    let ty = Type { dtype: DType::Block(format), ..x.ty.clone() };
    Operand { ty, bytes: made.into_iter().next().expect("one result"), ..x.clone() }
}

#[test]
fn experts_products_are_the_references_for_common_types_in_every_form() {
    let mut rng = Rng(71);
    // A float, and a type of blocks, in every form; others, whose readers stand in the same kernels, as a gated unit.
    let every = [DType::F32, DType::Block(BlockFormat::Q4K)];
    let others = common_types().into_iter().filter(|t| !every.contains(t));
    for dtype in first_of(every.len(), every.into_iter().chain(others)) {
        let k = if dtype.is_block() { 512 } else { 33 };
        for [m, top_k, experts, n] in [[1, 3, 5, 70], [7, 2, 3, 9], [70, 2, 3, 66]] {
            if every.contains(&dtype) {
                every_form(&mut rng, dtype, [m, top_k, experts, n, k]);
                continue;
            }
            let (x, ids) = (noise(&mut rng, &[m, k]), choices(&mut rng, [m, top_k], experts));
            let [gate, up] = [0; 2].map(|_| bank(&mut rng, dtype, [experts, n, k]));
            agrees(GroupedMatMul::glu(Unary::Silu), &[x, gate, up, ids], dtype.name());
        }
    }
    // Experts that no row names, and one that all do.
    every_form(&mut rng, DType::F32, [70, 1, 40, 40, 64]);
    every_form(&mut rng, DType::F32, [150, 3, 1, 5, 64]);
    // More experts of a row than a workgroup has teams.
    every_form(&mut rng, DType::Block(BlockFormat::Q8_0), [1, 20, 24, 9, 512]);
}

#[test]
fn experts_products_are_the_references_for_every_other_format() {
    let mut rng = Rng(72);
    for dtype in other_formats() {
        let w = bank(&mut rng, dtype, [3, 7, 256]);
        for m in first_of(1, [2, 9]) {
            let (x, ids) = (noise(&mut rng, &[m, 256]), choices(&mut rng, [m, 2], 3));
            agrees(GroupedMatMul::default(), &[x, w.clone(), ids], dtype.name());
        }
    }
}

#[test]
fn segments_of_two_types_and_sizes_have_results_of_their_own() {
    let mut rng = Rng(73);
    let first = bank(&mut rng, DType::Block(BlockFormat::Q4K), [4, 70, 256]);
    let second = bank(&mut rng, DType::Block(BlockFormat::Q6K), [4, 5, 256]);
    let op = GroupedMatMul { segments: 2, ..GroupedMatMul::default() };
    for m in [3, 40] {
        let (x, ids) = (noise(&mut rng, &[m, 256]), choices(&mut rng, [m, 2], 4));
        agrees(op.clone(), &[x, first.clone(), second.clone(), ids], "two types");
    }
}

#[test]
fn routes_are_the_references() {
    let d = device();
    let mut rng = Rng(74);
    for [m, experts, groups, top_groups, group_sum, top_k] in [
        [1, 128, 1, 1, 1, 8],
        [9, 64, 8, 4, 2, 6],
        [4, 12, 3, 2, 1, 8],
        [3, 5, 1, 1, 1, 5],
        [2, 1, 1, 1, 1, 1],
        [2, 768, 1, 1, 1, 70],
    ] {
        let logits: Vec<f32> = rng.floats(m * experts).iter().map(|x| 6.0 * x).collect();
        let logits = input(&[m as u64, experts as u64], &logits);
        let bias = noise(&mut rng, &[experts as u64]);
        for (sigmoid, normalise) in [(false, false), (true, false), (false, true), (true, true)] {
            let route = Route { sigmoid, normalise, ..Route::softmax(top_k) };
            let op = Route { groups, top_groups, group_sum, ..route };
            let biased = Route { choice_bias: true, scale: Some(2.5), ..op.clone() };
            for (op, operands) in
                [(op, vec![logits.clone()]), (biased, vec![logits.clone(), bias.clone()])]
            {
                let expected = oracle(&op.clone().into(), &operands);
                let got = run_op(&d, op.clone(), &operands);
                assert_eq!(words(&got[0]), words(&expected[0]), "{op:?}");
                assert_close(&format!("{op:?}"), &floats(&got[1]), &wide(&expected[1]), 4e-6);
            }
        }
    }
}

#[test]
fn ties_and_infinities_have_the_references_places() {
    let odd = [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, 1.0, 1.0, -2.0, f32::NEG_INFINITY];
    let op = Route { sigmoid: true, ..Route::softmax(8) };
    let operands = [input(&[1, 8], &odd)];
    let got = run_op(&device(), op.clone(), &operands);
    assert_eq!(words(&got[0]), words(&oracle(&op.into(), &operands)[0]));
}

#[test]
fn more_experts_than_a_workgroup_ranks_are_refused() {
    let logits = Type::tensor(DType::F32, Shape::of(&[1, 769]));
    let target = rlx_webgpu::target(rlx_webgpu::DEFAULT_LIMITS);
    let why = target.path(&Route::softmax(2).into(), &[&logits]).unwrap_err();
    assert_eq!(why, "its kernel ranks at most 768 experts, not 769");
}

/// Rows of tokens that are not there are left as they were.
#[test]
fn rows_past_len_are_not_computed() {
    let d = device();
    let mut rng = Rng(75);
    for m in [6, 40] {
        rows_past_four(&d, &mut rng, m);
    }
}

fn rows_past_four(d: &std::sync::Arc<TestDevice>, rng: &mut Rng, m: u64) {
    let [top_k, experts, n, k] = [2, 3, 9, 64];
    let ids = choices(rng, [m, top_k], experts);
    let gate = bank(rng, DType::F32, [experts, n, k]);
    let (shared, own) = (noise(rng, &[m, k]), noise(rng, &[m, top_k, k]));
    let shares = noise(rng, &[m, top_k]);
    let each = Op::from(GroupedMatMul::default());
    let sum: (Op, _, _) = match m {
        ..=8 => (GroupedMatMul::sum().into(), vec![own, gate.clone(), ids.clone(), shares], 1),
        _ => (WeightedSum.into(), vec![own, shares], 1),
    };
    for (op, operands, live) in [
        (each, vec![shared, gate, ids], top_k),
        sum,
        (Route::softmax(3).into(), vec![noise(rng, &[m, 8])], 1),
    ] {
        let expected = oracle(&op, &operands);
        let mut case = case(op.clone(), &operands, Buffers::One);
        // The control block: the first state, which no operand is.
        let ctl = control(0, 4, 0);
        let bytes = ctl.bytes.len() as u64;
        let decl = rlx_core::ir::lir::StateDecl { name: "ctl".into(), ty: ctl.ty, bytes };
        case.program.states.push(decl);
        case.program.control = Some(ControlDecl { state: 0, slots: 1, tokens: m });
        case.program.steps[0].live = Some(live);
        let to = rlx_core::runtime::device::WriteTo::State(0);
        case.writes.push(rlx_core::runtime::device::Write { to, offset: 0, bytes: ctl.bytes });
        let got = run(d, &case).unwrap();
        for (i, (got, expected)) in got.iter().zip(&expected).enumerate() {
            let there = got.len() / m as usize * 4;
            if op.name() == Route::NAME && i == 0 {
                assert_eq!(got[..there], expected[..there]);
            } else {
                assert_close("there", &floats(&got[..there]), &wide(&expected[..there]), 4e-6);
            }
            assert!(got[there..].iter().all(|&b| b == 0), "{}: rows that are not there", op.name());
        }
    }
}

/// The feed-forward of a layer, of one row and of a prompt's.
fn layer(rows: u64) -> String {
    let attributes = "act = silu, top_k = 2, normalise = true";
    format!(
        "module @layer {{policy = direct}} {{
  input %x : tensor<{rows}x256xf32>
  weight %norm.weight : tensor<256xf32>
  weight %router.weight : tensor<8x256xf32>
  weight %gate.weight : tensor<8x64x256xq4_k>
  weight %up.weight : tensor<8x64x256xq4_k>
  weight %down.weight : tensor<8x256x64xq8_0>
  %0 = rms_norm %x, %norm.weight {{eps = 1e-6}} // norm
  %1 = moe_ffn %0, %router.weight, %gate.weight, %up.weight, %down.weight {{{attributes}}} // moe
  %2 = add %x, %1 // residual
  return y = %2
}}
"
    )
}

/// Five steps: with attention's four a layer has nine. Of int8 activations there are two more, which make the
/// blocks. A prompt's has its sum and the residual apart, and its experts read f32.
#[test]
fn a_layers_experts_are_five_steps_in_decode_and_seven_of_int8() {
    use rlx_core::ir::parse::parse_hir;
    use rlx_core::lower::lower_module;
    let target = rlx_webgpu::target(rlx_webgpu::DEFAULT_LIMITS);
    for activations in [Activations::F32, Activations::Int8] {
        let options = CompileOptions { activations, ..CompileOptions::default() };
        let steps = |rows| {
            let g = lower_module(&parse_hir(&layer(rows)).unwrap(), DType::F32).unwrap();
            let (g, _) = rlx_core::passes::optimise(g, &target, &options).unwrap();
            let program = rlx_core::plan::plan(g, &[], &target, &options).unwrap();
            program.steps.iter().map(|s| s.op.name().to_string()).collect::<Vec<_>>()
        };
        let product: &[&str] = if activations == Activations::F32 {
            &["grouped_matmul"]
        } else {
            &["quantize_rows", "grouped_matmul"]
        };
        let start = ["rms_norm", "matmul", "route"];
        assert_eq!(steps(1), [&start, product, product].concat());
        let prompt = ["grouped_matmul", "grouped_matmul", "weighted_sum", "zip"];
        assert_eq!(steps(64), [&start[..], &prompt].concat());
    }
}
