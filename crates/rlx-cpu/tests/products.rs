//! Products of tensors and attention without a cache, at every SIMD level, with one worker and with three,
//! against the reference.
#![cfg(feature = "graphs")]

use crate::common;
use common::*;
use rlx_core::ops::*;
use rlx_core::types::{DType, Scalar};

#[test]
fn batches_of_products_are_the_references() {
    let mut random = Random(41);
    let shapes: [(&[u64], &[u64], [u64; 3]); 14] = [
        (&[], &[], [5, 7, 3]),
        (&[2], &[2], [1, 33, 70]),
        (&[2], &[2], [2, 17, 19]),
        (&[2, 3], &[3], [9, 20, 16]),
        (&[2, 1], &[3], [37, 35, 40]),
        (&[], &[4], [3, 1, 1]),
        (&[1], &[2], [1, 1, 65]),
        (&[3], &[3], [0, 4, 5]),
        (&[3], &[3], [4, 0, 5]),
        (&[3], &[3], [4, 5, 0]),
        (&[0], &[1], [2, 2, 2]),
        (&[], &[], [70, 48, 129]),
        // Shares are columns of b.
        (&[2], &[2], [4, 1100, 33]),
        (&[], &[3], [1, 1030, 40]),
    ];
    for dtype in FLOATS {
        for (of_a, of_b, [m, n, k]) in shapes {
            for transpose_b in [false, true] {
                let tail = if transpose_b { [n, k] } else { [k, n] };
                let a = small(&mut random, dtype, &[of_a, &[m, k]].concat());
                let b = small(&mut random, dtype, &[of_b, &tail].concat());
                let what = format!("{} by {}", a.ty, b.ty);
                check_types(BatchMatMul { transpose_b }, &[a, b], 4e-6, &what);
            }
        }
    }
}

#[test]
fn products_over_any_axes_are_the_references() {
    let mut random = Random(42);
    let op = |lhs_batch: &[usize], rhs_batch: &[usize], lhs: &[usize], rhs: &[usize]| DotGeneral {
        lhs_batch: lhs_batch.to_vec(),
        rhs_batch: rhs_batch.to_vec(),
        lhs_contract: lhs.to_vec(),
        rhs_contract: rhs.to_vec(),
    };
    let cases: [(DotGeneral, &[u64], &[u64]); 9] = [
        (op(&[], &[], &[1], &[0]), &[5, 7], &[7, 18]),
        (op(&[], &[], &[0], &[1]), &[7, 5], &[18, 7]),
        (op(&[0], &[1], &[2], &[2]), &[2, 5, 7], &[3, 2, 7]),
        (op(&[0], &[0], &[1, 3], &[2, 1]), &[2, 3, 4, 5], &[2, 5, 3, 6]),
        (op(&[1, 0], &[0, 1], &[3], &[2]), &[3, 2, 4, 5], &[2, 3, 5, 20]),
        (op(&[], &[], &[], &[]), &[3, 2], &[4]),
        (op(&[0], &[0], &[], &[]), &[3, 2], &[3, 4]),
        (op(&[], &[], &[0, 1], &[0, 1]), &[3, 2], &[3, 2]),
        (op(&[], &[], &[1], &[1]), &[3, 0], &[4, 0]),
    ];
    for dtype in FLOATS {
        for (op, a, b) in &cases {
            let (a, b) = (small(&mut random, dtype, a), small(&mut random, dtype, b));
            let what = format!("{} by {}", a.ty, b.ty);
            check_types(op.clone(), &[a, b], 4e-6, &what);
        }
    }
}

#[test]
fn a_matmul_takes_rows_of_any_rank() {
    let mut random = Random(43);
    for dims in [&[24][..], &[2, 3, 24], &[1, 1, 1, 24], &[3, 0, 24]] {
        let x = small(&mut random, DType::F32, dims);
        for dtype in weight_types().into_iter().filter(|d| !d.is_block()) {
            let w = random.packed(dtype, [19, 24]);
            let bias = f32s(&[19], &random.floats(19)).weight();
            let op =
                MatMul { bias: true, epilogue: Epilogue::Map(Unary::GeluErf), ..MatMul::plain() };
            check_types(op, &[x.clone(), w, bias], 4e-6, dtype.name());
        }
    }
}

/// Shares are rows of x where there are so many of them.
#[test]
fn a_matmul_of_thousands_of_rows_is_the_references() {
    let mut random = Random(48);
    let x = small(&mut random, DType::F32, &[1, 2051, 24]);
    for dtype in [DType::F32, DType::F16] {
        let [a, b] = [19, 32].map(|n| random.packed(dtype, [n, 24]));
        let scale = f32s(&[24], &random.floats(24)).weight();
        let op = MatMul { segments: 2, norm: Some(1e-5), ..MatMul::plain() };
        check_types(op, &[x.clone(), scale, a.clone(), b], 4e-6, dtype.name());
        let residual = small(&mut random, DType::F32, &[1, 2051, 19]);
        let op = MatMul { epilogue: Epilogue::Add, ..MatMul::plain() };
        check_types(op, &[x.clone(), a, residual], 4e-6, dtype.name());
    }
}

/// q, k and v of an attention, and a mask or bias if it has one.
fn operands(
    random: &mut Random,
    op: &Sdpa,
    dtype: DType,
    [b, s_q, s_k]: [u64; 3],
    rank: usize,
) -> Vec<Value> {
    let (h, kv) = (op.heads as u64, op.kv_heads as u64);
    let (e, v) = (op.head_dim as u64, op.v_head_dim as u64);
    let dims = |s: u64, h: u64, e: u64| match (op.layout, rank) {
        (HeadLayout::Bhsd, _) => vec![b, h, s, e],
        (_, 3) => vec![b, s, h * e],
        _ => vec![b, s, h, e],
    };
    let mut out = vec![
        small(random, dtype, &dims(s_q, h, e)),
        small(random, dtype, &dims(s_k, kv, e)),
        small(random, dtype, &dims(s_k, kv, v)),
    ];
    match op.mask {
        Mask::Custom => {
            let valid: Vec<f32> = (0..b * s_k).map(|_| (random.bits() % 3) as f32).collect();
            out.push(floats_as(dtype, &[b, s_k], &valid));
        }
        Mask::Bias => out.push(small(random, dtype, &[b, h, s_q, s_k])),
        _ => {}
    }
    out
}

#[test]
fn attention_under_every_mask_is_the_references() {
    let mut random = Random(44);
    let masks = [Mask::None, Mask::Causal, Mask::Window(5), Mask::Custom, Mask::Bias];
    for dtype in FLOATS {
        for mask in masks {
            for (heads, kv_heads, e, v) in
                [(1, 1, 8, 8), (6, 2, 12, 20), (5, 5, 4, 4), (2, 1, 64, 33)]
            {
                for (layout, rank) in
                    [(HeadLayout::Bshd, 3), (HeadLayout::Bshd, 4), (HeadLayout::Bhsd, 4)]
                {
                    for [b, s_q, s_k] in [[1, 1, 1], [2, 5, 7], [1, 40, 150], [1, 0, 3]] {
                        let op = Sdpa {
                            heads,
                            kv_heads,
                            head_dim: e,
                            v_head_dim: v,
                            mask,
                            layout,
                            softcap: (e == 12).then_some(0.75),
                            scale: (e == 4).then_some(1.5),
                        };
                        let operands = operands(&mut random, &op, dtype, [b, s_q, s_k], rank);
                        let what = format!("{dtype} {b}x{s_q}x{s_k}");
                        check_types(op, &operands, 1e-5, &what);
                    }
                }
            }
        }
    }
}

#[test]
fn attention_of_many_queries_with_few_keys_is_the_references() {
    let mut random = Random(47);
    for dtype in FLOATS {
        for (heads, kv_heads, e, v) in
            [(8, 8, 16, 16), (6, 2, 12, 20), (1, 1, 1, 1), (2, 1, 40, 33)]
        {
            for layout in [HeadLayout::Bshd, HeadLayout::Bhsd] {
                for [b, s_q, s_k] in [[1, 16, 1], [2, 33, 8], [1, 130, 16], [1, 130, 17]] {
                    let op = Sdpa {
                        heads,
                        kv_heads,
                        head_dim: e,
                        v_head_dim: v,
                        mask: Mask::None,
                        layout,
                        softcap: (e == 12).then_some(0.75),
                        scale: (e == 40).then_some(1.5),
                    };
                    let operands = operands(&mut random, &op, dtype, [b, s_q, s_k], 4);
                    check_types(op, &operands, 1e-5, &format!("{dtype} {b}x{s_q}x{s_k}"));
                }
            }
        }
    }
    // What is not finite spoils its own columns and rows; a score far below another one weighs nothing.
    let op = Sdpa::new(1, 8);
    let mut all = operands(&mut random, &op, DType::F32, [1, 20, 3], 4);
    let keys: Vec<f32> = (0..24).map(|i| if i < 8 { 0.4 } else { 0.5 }).collect();
    all[0] = f32s(&[1, 20, 1, 8], &[1.0; 160]);
    all[1] = f32s(&[1, 3, 1, 8], &keys);
    for odd in [f32::INFINITY, f32::NAN, 1.0] {
        all[2].bytes[..4].copy_from_slice(&odd.to_le_bytes());
        check_types(op.clone(), &all, 1e-5, "values");
    }
    all[1].bytes[32..36].copy_from_slice(&(-400.0f32).to_le_bytes());
    check_types(op, &all, 1e-5, "far below");
}

#[test]
fn masks_repeat_hide_everything_and_keep_out_what_is_not_finite() {
    let mut random = Random(45);
    let op = Sdpa { mask: Mask::Bias, ..Sdpa::new(4, 8) };
    for dims in [[1, 1, 1, 1], [2, 1, 1, 30], [1, 4, 9, 1], [1, 1, 9, 30]] {
        let mut all = operands(&mut random, &op, DType::F32, [2, 9, 30], 4);
        all[3] = small(&mut random, DType::F32, &dims);
        check_types(op.clone(), &all, 1e-5, &format!("{dims:?}"));
    }
    // No key at all for the first of two.
    let op = Sdpa { mask: Mask::Custom, ..Sdpa::new(4, 8) };
    let mut all = operands(&mut random, &op, DType::F32, [2, 9, 30], 3);
    let valid: Vec<f32> = (0..60).map(|i| if i < 30 { 0.0 } else { (i % 2) as f32 }).collect();
    all[3] = f32s(&[2, 30], &valid);
    check_types(op.clone(), &all, 1e-5, "none");
    let mut bools = random.integers(Scalar::Bool, &[2, 30]);
    bools.bytes.iter_mut().for_each(|b| *b &= 1);
    all[3] = bools.clone();
    check_types(op.clone(), &all, 1e-5, "booleans");
    // Values and keys that nobody sees may be anything.
    for odd in [f32::NAN, f32::INFINITY] {
        let mut all = operands(&mut random, &op, DType::F32, [1, 9, 30], 3);
        all[3] = f32s(&[1, 30], &[[1.0; 29].as_slice(), &[0.0]].concat());
        for i in [1, 2] {
            let n = all[i].bytes.len();
            all[i].bytes[n - 4..].copy_from_slice(&odd.to_le_bytes());
        }
        check_types(op.clone(), &all, 1e-5, "hidden");
    }
    // An infinite bias hides a key; a query of NaN spoils its own row alone.
    let op = Sdpa { mask: Mask::Bias, ..Sdpa::new(1, 8) };
    let mut all = operands(&mut random, &op, DType::F32, [1, 5, 40], 3);
    let mut bias = vec![0.0; 200];
    bias[..80].fill(f32::NEG_INFINITY);
    bias[45] = 1.0;
    all[3] = f32s(&[1, 1, 5, 40], &bias);
    all[0].bytes[3 * 32..3 * 32 + 4].copy_from_slice(&f32::NAN.to_le_bytes());
    check_types(op, &all, 1e-5, "an infinite bias");
}

#[test]
fn workers_change_no_bit_of_a_product() {
    let mut random = Random(46);
    let a = small(&mut random, DType::F32, &[3, 45, 67]);
    let b = small(&mut random, DType::F32, &[3, 67, 50]);
    let op = Sdpa { mask: Mask::Causal, ..Sdpa::new(6, 16) };
    let attention = operands(&mut random, &op, DType::F32, [2, 50, 140], 3);
    let few = Sdpa::new(6, 16);
    let keys = operands(&mut random, &few, DType::F32, [2, 50, 9], 3);
    for pair in devices().chunks(2) {
        let of = |op: Op, operands: &[Value]| {
            let [one, three] = [0, 1].map(|i| run_op(&pair[i], &op, operands));
            assert_eq!(one, three, "{}: {}", op.name(), pair[0].info().adapter);
        };
        of(BatchMatMul::default().into(), &[a.clone(), b.clone()]);
        of(op.clone().into(), &attention);
        of(few.clone().into(), &keys);
        of(Sdpa { layout: HeadLayout::Bhsd, ..Sdpa::new(3, 67) }.into(), &{
            let q = Value { ty: a.ty.clone(), ..a.clone() };
            let mut four = q.clone();
            four.ty.shape.0.insert(0, 1u64.into());
            [four.clone(), four.clone(), four]
        });
    }
}
