//! Operators of language models give what their decompositions give.

use super::testing::*;
use super::view::scalar_bytes;
use crate::ops::*;
use crate::types::{DType, Kind, Scalar, Shape, Type};
use alloc::vec;
use alloc::vec::Vec;

const F64: DType = DType::Scalar(Scalar::F64);
/// What a result may be off by, as a share of its largest element.
const FLOATS: [(DType, f64); 4] =
    [(F64, 1e-14), (DType::F32, 3e-6), (DType::F16, 4e-3), (DType::BF16, 3e-2)];

/// Noise of a type and shape.
fn some(dtype: DType, dims: &[u64], seed: u64) -> Value {
    floats(dtype, dims, &noise(dims.iter().product::<u64>() as usize, seed))
}

fn state(value: Value) -> Value {
    Value { ty: Type { kind: Kind::State, ..value.ty }, ..value }
}

#[test]
fn rms_norm_of_any_rank_and_type() {
    for (dtype, tolerance) in FLOATS {
        for dims in [&[3u64, 5][..], &[2, 3, 5], &[5]] {
            let x = some(dtype, dims, 1);
            decomposes(RmsNorm { eps: 1e-3 }, &[&x, &some(dtype, &[5], 2)], tolerance);
            decomposes(RmsNorm { eps: 1e-3 }, &[&x, &some(DType::F32, &[5], 2)], tolerance);
        }
    }
}

#[test]
fn fused_products_give_the_bits_of_their_parts() {
    let x = some(DType::F16, &[2, 3, 32], 1);
    let (w0, w1) = (q8_0(&[4, 32], &noise(128, 2)), some(DType::F32, &[4, 32], 3));
    let (b0, b1) = (some(DType::F32, &[4], 4), some(DType::F16, &[4], 5));
    let norm = some(DType::F32, &[32], 6);
    let residual = some(DType::F16, &[2, 3, 4], 7);
    for epilogue in [Epilogue::None, Epilogue::Map(Unary::Gelu), Epilogue::Glu(Unary::Silu)] {
        let op = MatMul { segments: 2, bias: true, norm: Some(1e-5), epilogue, ..MatMul::plain() };
        decomposes(op, &[&x, &norm, &w0, &w1, &b0, &b1], 0.0);
    }
    let op = MatMul { epilogue: Epilogue::Add, ..MatMul::plain() };
    decomposes(op, &[&x, &w0, &residual], 0.0);
    let x = some(DType::F32, &[2, 3, 32], 8);
    let op = MatMul { norm: Some(1e-5), half: true, ..MatMul::plain() };
    decomposes(op, &[&x, &norm, &w0], 0.0);
}

#[test]
fn a_plain_product_is_a_matrix_then_f32_then_a_primitive() {
    for (dtype, tolerance) in FLOATS {
        let (w, b) = (some(DType::F32, &[4, 6], 2), some(DType::F32, &[4], 3));
        let matrix = some(dtype, &[6, 6], 1);
        let biased = MatMul { bias: true, ..MatMul::plain() };
        decomposes(biased, &[&matrix, &w, &b], tolerance);
        decomposes(MatMul::plain(), &[&some(dtype, &[2, 3, 6], 1), &w], 0.0);
        if dtype == DType::F16 || dtype == DType::BF16 {
            decomposes(MatMul::plain(), &[&matrix, &w], tolerance);
        }
    }
}

#[test]
fn products_of_two_tensors() {
    for (dtype, tolerance) in FLOATS {
        let a = some(dtype, &[2, 3, 4], 1);
        decomposes(BatchMatMul::default(), &[&a, &some(dtype, &[4, 5], 2)], tolerance);
        decomposes(BatchMatMul { transpose_b: true }, &[&a, &some(dtype, &[5, 4], 2)], tolerance);
        let op = DotGeneral {
            lhs_batch: vec![1],
            rhs_batch: vec![2],
            lhs_contract: vec![0, 3],
            rhs_contract: vec![3, 1],
        };
        let (a, b) = (some(dtype, &[2, 3, 4, 5], 1), some(dtype, &[6, 5, 3, 2], 2));
        decomposes(op, &[&a, &b], tolerance);
        decomposes(
            DotGeneral::default(),
            &[&some(dtype, &[2], 1), &some(dtype, &[3], 2)],
            tolerance,
        );
    }
}

#[test]
fn low_rank_additions() {
    for (dtype, tolerance) in FLOATS {
        let x = some(dtype, &[2, 3, 32], 1);
        let (a, b) = (some(DType::F32, &[2, 32], 2), some(DType::F32, &[5, 2], 3));
        for w in [some(DType::F32, &[5, 32], 4), q8_0(&[5, 32], &noise(160, 4))] {
            decomposes(LoraMatMul { scale: 0.7 }, &[&x, &w, &a, &b], tolerance);
        }
    }
}

#[test]
fn experts_are_looked_up() {
    let ids = u32s(&[2, 2], &[2, 0, 9, 1]);
    for (dtype, tolerance) in FLOATS {
        let packed = q8_0(&[3, 5, 32], &noise(480, 2));
        for dims in [&[2u64, 32][..], &[2, 2, 32]] {
            let x = some(dtype, dims, 1);
            decomposes(GroupedMatMul::default(), &[&x, &packed, &ids], tolerance);
            for (weights, _) in FLOATS {
                let w = some(weights, &[3, 5, 32], 2);
                decomposes(GroupedMatMul::default(), &[&x, &w, &ids], tolerance);
            }
        }
    }
    decomposes(Unpack, &[&q8_0(&[3, 5, 32], &noise(480, 2))], 0.0);
}

#[test]
fn fused_products_of_experts_are_those_of_their_parts() {
    let ids = u32s(&[3, 2], &[2, 0, 9, 1, 1, 1]);
    for (dtype, tolerance) in FLOATS {
        let (x, each) = (some(dtype, &[3, 32], 1), some(dtype, &[3, 2, 32], 2));
        let (gate, up) = (q8_0(&[3, 5, 32], &noise(480, 3)), some(DType::F16, &[3, 5, 32], 4));
        let (b0, b1) = (some(DType::F32, &[3, 5], 5), some(dtype, &[3, 5], 6));
        let glu = GroupedMatMul::glu(Unary::Silu);
        decomposes(glu.clone(), &[&x, &gate, &up, &ids], tolerance);
        let biased = GroupedMatMul { bias: true, ..glu };
        decomposes(biased.clone(), &[&x, &gate, &up, &b0, &b1, &ids], tolerance);
        let epilogue = GroupedEpilogue::LimitedGlu(Unary::QuickGelu, 0.5);
        let limited = GroupedMatMul { epilogue, ..biased.clone() };
        decomposes(limited, &[&x, &gate, &up, &b0, &b1, &ids], tolerance);
        let two = GroupedMatMul { epilogue: GroupedEpilogue::None, ..biased };
        decomposes(two.clone(), &[&x, &gate, &up, &b0, &b1, &ids], tolerance);
        let one = GroupedMatMul { segments: 1, ..two };
        decomposes(one.clone(), &[&each, &gate, &b0, &ids], tolerance);
        let residual = some(dtype, &[3, 5], 7);
        for shares in [some(DType::F32, &[3, 2], 8), some(dtype, &[3, 2], 8)] {
            decomposes(GroupedMatMul::sum(), &[&each, &gate, &ids, &shares], tolerance);
            let op = GroupedMatMul { epilogue: GroupedEpilogue::SumAdd, ..one.clone() };
            decomposes(op, &[&each, &gate, &b1, &ids, &shares, &residual], tolerance);
            decomposes(WeightedSum, &[&each, &shares], tolerance);
        }
    }
}

#[test]
fn routes_are_scores_and_the_best_of_them() {
    for (dtype, tolerance) in FLOATS {
        let x = some(dtype, &[5, 12], 1);
        for sigmoid in [false, true] {
            for (groups, top_groups, group_sum) in [(1, 1, 1), (4, 2, 1), (4, 3, 2), (3, 3, 2)] {
                for normalise in [false, true] {
                    let route = Route { sigmoid, normalise, ..Route::softmax(3) };
                    let op = Route { groups, top_groups, group_sum, ..route };
                    decomposes(op.clone(), &[&x], tolerance);
                    let op = Route { choice_bias: true, scale: Some(2.5), ..op };
                    for bias in [some(DType::F32, &[12], 2), some(dtype, &[12], 2)] {
                        decomposes(op.clone(), &[&x, &bias], tolerance);
                    }
                }
            }
        }
    }
}

#[test]
fn last_rows_are_looked_up() {
    for (dtype, _) in FLOATS {
        let x = some(dtype, &[4, 3], 1);
        for (rows, len) in [(1u64, 3), (2, 4), (4, 1), (3, 0), (0, 2), (2, 9)] {
            decomposes(TakeRows { rows: rows.into() }, &[&x, &control(5, len, 0)], 0.0);
        }
    }
}

#[test]
fn rotation_by_slices_in_both_styles_whole_and_in_part() {
    let table = |dims, context| {
        let op = RopeTable { base: 100.0, dims, context, scaling: RopeScaling::None };
        run(op, &[])[0].clone()
    };
    for (dtype, tolerance) in FLOATS {
        for (head_dim, turned) in [(8, 8), (8, 6), (5, 4)] {
            for style in [RopeStyle::Half, RopeStyle::Adjacent] {
                let x = some(dtype, &[3, 2 * head_dim as u64], 1);
                let ctl = control(35, 3, 0);
                decomposes(Rope { style, head_dim }, &[&x, &table(turned, 37), &ctl], tolerance);
            }
        }
    }
    let (q, k, v) =
        (some(DType::F16, &[2, 8], 1), some(DType::F16, &[2, 4], 2), some(DType::F16, &[2, 4], 3));
    let (kc, vc) = (some(DType::F16, &[1, 9, 4], 4), some(DType::F16, &[1, 9, 4], 5));
    let op = RopeKvWrite { style: RopeStyle::Half, head_dim: 4, ring: false };
    let ctl = control(7, 1, 0);
    decomposes(op, &[&q, &k, &v, &table(4, 9), &state(kc), &state(vc), &ctl], 0.0);
}

#[test]
fn attention_with_every_mask_in_every_layout() {
    let masks = [Mask::None, Mask::Causal, Mask::Window(2), Mask::Custom, Mask::Bias, Mask::Grid];
    for (dtype, tolerance) in FLOATS {
        for mask in masks {
            for (rank, layout) in
                [(4, HeadLayout::Bshd), (3, HeadLayout::Bshd), (4, HeadLayout::Bhsd)]
            {
                let op = Sdpa {
                    kv_heads: 2,
                    v_head_dim: 5,
                    mask,
                    softcap: (rank == 3).then_some(0.5),
                    layout,
                    ..Sdpa::new(4, 3)
                };
                let heads = |s: u64, h: u64, e: u64, seed| {
                    let dims = match (rank, layout) {
                        (3, _) => vec![2, s, h * e],
                        (_, HeadLayout::Bshd) => vec![2, s, h, e],
                        (_, HeadLayout::Bhsd) => vec![2, h, s, e],
                    };
                    some(dtype, &dims, seed)
                };
                let (q, k, v) = (heads(3, 4, 3, 1), heads(6, 2, 3, 2), heads(6, 2, 5, 3));
                // The second sequence of the batch sees nothing.
                let valid = [[1.0, 0.0, 1.0, 0.0, 0.0, 1.0], [0.0; 6]].concat();
                let mut bias = noise(2 * 3 * 6, 4);
                bias[30..36].fill(f32::NEG_INFINITY);
                let more = match mask {
                    Mask::Custom => vec![f32s(&[2, 6], &valid)],
                    Mask::Bias => vec![f32s(&[2, 1, 3, 6], &bias)],
                    // The last sequence sees nothing in one of its rows.
                    Mask::Grid => {
                        let mut rows = noise(2 * 4 * 3 * 2, 5);
                        rows[24..].fill(f32::NEG_INFINITY);
                        vec![f32s(&[2, 4, 3, 2], &rows), some(dtype, &[2, 4, 3, 3], 6)]
                    }
                    _ => vec![],
                };
                let mut operands = vec![&q, &k, &v];
                operands.extend(&more);
                decomposes(op, &operands, tolerance);
            }
        }
    }
    let op = Sdpa { mask: Mask::Bias, ..Sdpa::new(2, 3) };
    let x = some(DType::F32, &[1, 4, 2, 3], 1);
    decomposes(op, &[&x, &x, &x, &some(DType::F32, &[1, 2, 1, 4], 2)], 3e-6);
    let bools = Value {
        ty: Type::tensor(DType::Scalar(Scalar::Bool), Shape::of(&[1, 4])),
        bytes: vec![1, 0, 0, 1],
    };
    let op = Sdpa { mask: Mask::Custom, ..Sdpa::new(2, 3) };
    decomposes(op, &[&x, &x, &x, &bools], 3e-6);
}

#[test]
fn attention_over_a_cache() {
    for (dtype, tolerance) in FLOATS {
        for (window, softcap, block) in [
            (None, None, None),
            (Some(2), Some(0.7), None),
            (Some(3), None, Some(3)),
            (None, None, Some(u64::MAX)),
        ] {
            let op = Attention { window, softcap, block, ..Attention::causal(3, 0.6) };
            let q = some(dtype, &[3, 12], 1);
            let (k, v) = (state(some(dtype, &[2, 9, 3], 2)), state(some(dtype, &[2, 9, 3], 3)));
            let ctl = control(4, 3, 0);
            decomposes(op.clone(), &[&q, &k, &v, &ctl], tolerance);
            if window == Some(2) {
                let ring = Attention { ring: true, ..op.clone() };
                for past in [0, 4, 7, 15, 18] {
                    decomposes(ring.clone(), &[&q, &k, &v, &control(past, 3, 0)], tolerance);
                }
            }
            let sinks = some(DType::F32, &[4], 4);
            let op = Attention { sinks: true, ..op };
            decomposes(op, &[&q, &k, &v, &ctl, &sinks], tolerance);
        }
    }
}

/// Operands of a gated delta net, of a batch of 2 or of none.
fn delta_net(dtype: DType, batch: &[u64], wide_gate: bool) -> Vec<Value> {
    let dims = |tail: &[u64]| [batch, &[4], tail].concat();
    let positive = |value: Value, sign: f64| {
        let x: Vec<f64> = value.f64s().iter().map(|v| sign * v.abs()).collect();
        Value { bytes: scalar_bytes(dtype, &x).unwrap(), ..value }
    };
    let gate: &[u64] = if wide_gate { &[4, 3] } else { &[4] };
    vec![
        some(dtype, &dims(&[2, 3]), 1),
        some(dtype, &dims(&[2, 3]), 2),
        some(dtype, &dims(&[4, 2]), 3),
        positive(some(dtype, &dims(gate), 4), -1.0),
        positive(some(dtype, &dims(&[4]), 5), 1.0),
    ]
}

#[test]
fn a_gated_delta_net_is_a_scan() {
    for (dtype, tolerance) in FLOATS {
        for (batch, wide) in [(&[][..], false), (&[], true), (&[2u64][..], false)] {
            let op = |carry| GatedDeltaNet { state_size: 3, carry, tiled: wide };
            let x = delta_net(dtype, batch, wide);
            let mut operands: Vec<&Value> = x.iter().collect();
            decomposes(op(false), &operands, tolerance);
            let m = state(some(DType::F32, &[batch, &[4, 3, 2]].concat(), 6));
            operands.push(&m);
            let tolerance = tolerance.max(1e-6);
            decomposes(op(true), &operands, tolerance);
            for ctl in [control(0, 3, 0), control(0, 3, 1), control(0, 9, 0)] {
                let mut operands = operands.clone();
                operands.push(&ctl);
                decomposes(op(true), &operands, tolerance);
            }
        }
    }
}

#[test]
fn a_delta_net_is_its_norms_its_gates_and_a_gated_delta_net() {
    for (dtype, tolerance) in FLOATS {
        for (len, done, tiled) in [(4, 0, false), (3, 0, true), (3, 1, false)] {
            // 2 key heads of 3, 4 value heads of 2.
            let (qkv, a, b) =
                (some(dtype, &[4, 20], 1), some(dtype, &[4, 4], 2), some(dtype, &[4, 4], 3));
            let decay = f32s(&[4], &[-1.0, -0.5, 0.0, -2.0]);
            let (dt, m) = (some(dtype, &[4], 4), state(some(DType::F32, &[4, 3, 2], 5)));
            let op = DeltaNet { key_heads: 2, state_size: 3, eps: 1e-6, tiled };
            let ctl = control(2, len, done);
            decomposes(op, &[&qkv, &a, &b, &decay, &dt, &m, &ctl], tolerance.max(1e-6));
        }
    }
}

#[test]
fn a_gated_rms_norm_is_a_norm_a_map_and_a_product() {
    for (dtype, tolerance) in FLOATS {
        let (x, w, gate) =
            (some(dtype, &[3, 2, 4], 1), some(DType::F32, &[4], 2), some(dtype, &[3, 2, 4], 3));
        decomposes(GatedRmsNorm { eps: 1e-5, act: Unary::Silu }, &[&x, &w, &gate], tolerance);
    }
}

#[test]
fn a_causal_conv1d_is_a_sum_of_shifted_rows() {
    for (dtype, tolerance) in FLOATS {
        for (rows, len, done) in [(5, 5, 0), (5, 3, 0), (1, 1, 0), (5, 1, 1)] {
            let (x, w) = (some(dtype, &[rows, 3], 1), some(dtype, &[3, 4], 2));
            let past = state(some(DType::F32, &[3, 3], 3));
            let op = CausalConv1d { act: Some(Unary::Silu), gated: false };
            let tolerance = tolerance.max(1e-6);
            let ctl = control(2, len, done);
            decomposes(op, &[&x, &w, &past, &ctl], tolerance);
            let x = some(dtype, &[rows, 9], 4);
            let op = CausalConv1d { act: None, gated: true };
            decomposes(op, &[&x, &w, &past, &ctl], tolerance);
        }
    }
}

#[test]
fn a_selective_scan_is_a_scan() {
    for (dtype, tolerance) in FLOATS {
        for batch in [&[][..], &[2u64][..], &[2, 2]] {
            let op = |carry| SelectiveScan { state_size: 2, carry };
            let dims = |tail: u64| [batch, &[4, tail]].concat();
            let x = [
                some(dtype, &dims(3), 1),
                some(dtype, &dims(3), 2),
                some(dtype, &[3, 2], 3),
                some(dtype, &dims(2), 4),
                some(dtype, &dims(2), 5),
            ];
            let mut operands: Vec<&Value> = x.iter().collect();
            decomposes(op(false), &operands, tolerance);
            let h = state(some(DType::F32, &[batch, &[3, 2]].concat(), 6));
            let (some_rows, done) = (control(0, 2, 0), control(0, 2, 3));
            operands.extend([&h, &some_rows]);
            let tolerance = tolerance.max(1e-6);
            decomposes(op(true), &operands, tolerance);
            operands[6] = &done;
            decomposes(op(true), &operands, tolerance);
        }
    }
}
