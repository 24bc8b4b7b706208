//! Operators of decoders against the reference: tests that executors share.

use crate::common::{
    CACHES, NEAR_ZERO, TestDevice, agrees, devices, f64s, plain_device, run_op, truth,
};
use crate::step::*;
use rlx_core::ops::{
    Attention, Epilogue, KvWrite, Map, MatMul, Op, RmsNorm, RmsNormAdd, Rope, RopeStyle, Sample,
    TakeRows, Unary,
};
use rlx_core::sample::{Control, SampleParams};
use rlx_core::types::{BlockFormat, DType};
use std::sync::Arc;

/// Types of weights that there are decoders for.
pub fn decoded() -> Vec<DType> {
    let packed = crate::common::target().formats.into_iter().map(DType::Block);
    [DType::F32, DType::F16, DType::BF16].into_iter().chain(packed).collect()
}

#[test]
fn every_function_of_a_number_is_computed() {
    let xs = [-90.0, -3.5, -1.0, -0.25, 0.0, 0.3, 0.5, 1.0, 2.5, 80.0f32];
    for (f, name) in Unary::ALL {
        let defined: Vec<f32> =
            xs.into_iter().filter(|x| f.eval(f64::from(*x)).is_finite()).collect();
        let n = defined.len() as u64;
        let got = floats(&run_op(&plain_device(), Map { f }, &[input(&[n], &defined)])[0]);
        for (x, y) in defined.iter().zip(got) {
            let want = f.eval(f64::from(*x));
            let off = (f64::from(y) - want).abs();
            assert!(off <= 4e-6 * want.abs() + NEAR_ZERO, "{name}({x}) = {y}, not {want}");
        }
    }
}

#[test]
fn norms_hold_around_the_blocks_width() {
    let mut rng = Rng(12);
    for k in [1u64, 65, 257] {
        let x = input(&[3, k], &rng.floats(3 * k as usize));
        let w = weight(DType::F32, &[k], f32_bytes(&rng.floats(k as usize)));
        agrees(RmsNorm { eps: 1e-5 }, &[x.clone(), w.clone()], 2e-6);
        let residual = input(&[3, k], &rng.floats(3 * k as usize));
        agrees(RmsNormAdd { eps: 1e-5 }, &[x, w, residual], 2e-6);
    }
}

#[test]
fn products_are_those_of_every_type_for_few_rows_and_many() {
    let mut rng = Rng(21);
    for dtype in decoded() {
        let k = if dtype.is_block() { 512u64 } else { 264 };
        let w = weight(dtype, &[70, k], random_weights(&mut rng, dtype, 70, k as usize));
        // A tile of rows, or most of one more; the emulator takes long for tensor cores.
        for rows in [1u64, 3, if dtype == DType::F16 { 70 } else { 20 }] {
            let x = input(&[rows, k], &rng.floats((rows * k) as usize));
            agrees(MatMul::plain(), &[x, w.clone()], 2e-6);
        }
    }
    for k in [1u64, 37, 258] {
        let w = weight(DType::F16, &[5, k], random_weights(&mut rng, DType::F16, 5, k as usize));
        for rows in [2u64, 9] {
            let x = input(&[rows, k], &rng.floats((rows * k) as usize));
            agrees(MatMul::plain(), &[x, w.clone()], 2e-6);
        }
    }
}

/// Rows that the library multiplies, with everything that may follow a product.
#[test]
fn products_of_many_rows() {
    let mut rng = Rng(25);
    for (dtype, rows, k) in [
        (DType::F16, 40u64, 104u64),
        (DType::F16, 33, 256),
        (DType::F32, 130, 64),
        (DType::F32, 130, 104),
        (DType::BF16, 130, 64),
        (DType::Block(BlockFormat::Q8_0), 130, 64),
        (DType::Block(BlockFormat::Q4K), 130, 256),
    ] {
        let ws: Vec<Operand> = (0..2)
            .map(|_| weight(dtype, &[44, k], random_weights(&mut rng, dtype, 44, k as usize)))
            .collect();
        // Rows beyond the range of f16, and far below it: one size for all, for errors are told of the largest result.
        let size = [1.0, 1e6, 1e-6][k as usize % 3];
        let mut xs: Vec<f32> = rng.floats((rows * k) as usize).iter().map(|x| x * size).collect();
        xs[..k as usize].fill(0.0);
        let x = input(&[rows, k], &xs);
        let tolerance = match dtype {
            DType::Block(_) => 2e-3,
            DType::F32 => 2e-6,
            _ => 4e-6,
        };
        let residual = input(&[rows, 44], &rng.floats(rows as usize * 44));
        agrees(MatMul::plain(), &[x.clone(), ws[0].clone()], tolerance);
        let add = MatMul { epilogue: Epilogue::Add, ..MatMul::plain() };
        agrees(add, &[x.clone(), ws[0].clone(), residual], tolerance);
        let two = MatMul { segments: 2, ..MatMul::plain() };
        agrees(two.clone(), &[x.clone(), ws[0].clone(), ws[1].clone()], tolerance);
        let glu = MatMul { epilogue: Epilogue::Glu(Unary::Silu), ..two };
        agrees(glu.clone(), &[x.clone(), ws[0].clone(), ws[1].clone()], tolerance);
        // The oracle rounds x as well: no value is small enough beside its row's largest to lose more.
        let half = MatMul { half: true, ..glu };
        agrees(half, &[x, ws[0].clone(), ws[1].clone()], tolerance);
    }
}

#[test]
fn what_follows_a_product_is_part_of_it() {
    let mut rng = Rng(22);
    let (k, n) = (64u64, 40u64);
    let f32s = |rng: &mut Rng, dims: &[u64]| {
        let n = dims.iter().product::<u64>() as usize;
        weight(DType::F32, dims, f32_bytes(&rng.floats(n)))
    };
    for rows in [2u64, 20] {
        let x = input(&[rows, k], &rng.floats((rows * k) as usize));
        let ws: Vec<Operand> = (0..2).map(|_| f32s(&mut rng, &[n, k])).collect();
        let biases: Vec<Operand> = (0..2).map(|_| f32s(&mut rng, &[n])).collect();
        let residual = input(&[rows, n], &rng.floats((rows * n) as usize));
        let op = |segments, bias, epilogue| MatMul { segments, bias, epilogue, ..MatMul::plain() };
        let all = |parts: &[&[Operand]]| parts.concat();
        let x = std::slice::from_ref(&x);
        agrees(op(2, true, Epilogue::None), &all(&[x, &ws, &biases]), 2e-6);
        agrees(
            op(1, true, Epilogue::Map(Unary::GeluErf)),
            &all(&[x, &ws[..1], &biases[..1]]),
            4e-6,
        );
        agrees(op(1, true, Epilogue::Add), &all(&[x, &ws[..1], &biases[..1], &[residual]]), 2e-6);
        agrees(op(2, false, Epilogue::Glu(Unary::Silu)), &all(&[x, &ws]), 4e-6);
        agrees(op(2, true, Epilogue::Glu(Unary::Gelu)), &all(&[x, &ws, &biases]), 4e-6);
    }
}

/// Weights of several types beside each other, whose columns are no whole blocks of a launch; and a row that is normed
/// first, also with the products that make a gated unit.
#[test]
fn a_launch_has_weights_of_several_types_and_norms_a_row_first() {
    let mut rng = Rng(23);
    let k = 512u64;
    let types: [DType; 3] =
        [DType::F16, DType::Block(BlockFormat::Q4K), DType::Block(BlockFormat::Q6K)];
    let all = |parts: &[&[Operand]]| parts.concat();
    for rows in [1u64, 3, 70] {
        let x = [input(&[rows, k], &rng.floats((rows * k) as usize))];
        let columns = [70u64, 3, 9];
        let ws: Vec<Operand> = (types.into_iter().zip(columns))
            .map(|(t, n)| weight(t, &[n, k], random_weights(&mut rng, t, n as usize, k as usize)))
            .collect();
        let biases: Vec<Operand> = columns
            .iter()
            .map(|&n| weight(DType::F32, &[n], f32_bytes(&rng.floats(n as usize))))
            .collect();
        let op = |segments, bias| MatMul { segments, bias, ..MatMul::plain() };
        agrees(op(3, false), &all(&[&x, &ws]), 2e-6);
        agrees(op(3, true), &all(&[&x, &ws, &biases]), 2e-6);
        if rows > 1 {
            continue;
        }
        let norm = [weight(DType::F32, &[k], f32_bytes(&rng.floats(k as usize)))];
        let normed = |op: MatMul| MatMul { norm: Some(1e-5), ..op };
        agrees(normed(op(3, true)), &all(&[&x, &norm, &ws, &biases]), 4e-6);
        let twice: Vec<Operand> = types[1..]
            .iter()
            .map(|&t| weight(t, &[9, k], random_weights(&mut rng, t, 9, k as usize)))
            .collect();
        let glu = MatMul { epilogue: Epilogue::Glu(Unary::Silu), ..op(2, false) };
        agrees(normed(glu), &all(&[&x, &norm, &twice]), 8e-6);
    }
    // Rows of x that are no whole eights.
    let x = input(&[1, 37], &rng.floats(37));
    let norm = weight(DType::F32, &[37], f32_bytes(&rng.floats(37)));
    let w = weight(DType::F16, &[5, 37], random_weights(&mut rng, DType::F16, 5, 37));
    agrees(MatMul { norm: Some(1e-5), ..MatMul::plain() }, &[x, norm, w], 4e-6);
}

#[test]
fn heads_turn_in_both_styles_and_the_rest_passes_through() {
    let mut rng = Rng(14);
    for style in [RopeStyle::Adjacent, RopeStyle::Half] {
        for (head_dim, dims, heads, past) in [(64, 64, 3, 0), (64, 32, 2, 999), (6, 6, 5, 77)] {
            let width = head_dim * heads;
            let operands = [
                input(&[5, width as u64], &rng.floats(5 * width)),
                table(dims, 1024),
                control(past, 3, 0),
            ];
            let op = Op::from(Rope { style, head_dim });
            let want = truth(&op, &operands);
            let got = run_op(&plain_device(), op, &operands);
            let want = f64s(rows_of(&want[0], 3, width));
            assert_close(style.name(), &floats(rows_of(&got[0], 3, width)), &want, 2e-6);
        }
    }
}

#[test]
fn caches_take_real_rows_and_nothing_once_done() {
    let mut rng = Rng(15);
    for dtype in CACHES {
        for (rows, len, past, done, ring) in [
            (5u64, 3u32, 2u32, 0u32, false),
            (5, 5, 0, 0, false),
            (2, 2, 3, 1, false),
            (5, 4, 22, 0, true),
        ] {
            let (heads, e) = (3u64, 64u64);
            let x = input(&[rows, heads * e], &rng.floats((rows * heads * e) as usize));
            let operands = [cache(&mut rng, dtype, heads, 8, e), x, control(past, len, done)];
            let op = Op::from(KvWrite { ring });
            let want = truth(&op, &operands);
            let got = run_op(&plain_device(), op, &operands);
            let what = format!("{dtype} rows {rows} len {len} past {past} done {done}");
            let different = got[0].iter().zip(&want[0]).filter(|(a, b)| a != b).count();
            // A quotient that is a half of a step may round to either side.
            let allowed = if dtype.is_block() { 2 } else { 0 };
            assert!(
                got[0].len() == want[0].len() && different <= allowed,
                "{what}: {different} bytes"
            );
        }
    }
}

#[test]
fn attention_sees_the_past_and_its_own_rows() {
    let mut rng = Rng(16);
    for dtype in CACHES {
        for (e, heads, kv_heads) in [(64u64, 4u64, 2u64), (96, 3, 1)] {
            for (rows, len, past) in [(1u64, 1usize, 0u32), (1, 1, 63), (5, 3, 62), (40, 40, 30)] {
                let width = (heads * e) as usize;
                let operands = [
                    input(&[rows, heads * e], &rng.floats(rows as usize * width)),
                    cache(&mut rng, dtype, kv_heads, 72, e),
                    cache(&mut rng, dtype, kv_heads, 72, e),
                    control(past, len as u32, 0),
                ];
                let op = Op::from(Attention::causal(e as usize, 0.3));
                let want = truth(&op, &operands);
                let got = run_op(&plain_device(), op, &operands);
                let want = f64s(rows_of(&want[0], len, width));
                let what = format!("{dtype} head {e} past {past} rows {rows}");
                assert_close(&what, &floats(rows_of(&got[0], len, width)), &want, 5e-6);
            }
        }
    }
    // A window, a cap, sinks, a ring, blocks; heads that are no multiple of a warp.
    let causal = Attention::causal(10, 0.3);
    for (op, past) in [
        (Attention { window: Some(4), softcap: Some(2.0), ..causal.clone() }, 20u32),
        (Attention { sinks: true, ..causal.clone() }, 20),
        (Attention { window: Some(9), ring: true, ..causal.clone() }, 47),
        (Attention { block: Some(8), ..causal }, 16),
    ] {
        let mut operands = vec![
            input(&[4, 20], &rng.floats(80)),
            cache(&mut rng, DType::F16, 2, 32, 10),
            cache(&mut rng, DType::F16, 2, 32, 10),
            control(past, 3, 0),
        ];
        if op.sinks {
            operands.push(weight(DType::F32, &[2], f32_bytes(&rng.floats(2))));
        }
        let op = Op::from(op);
        let want = truth(&op, &operands);
        let got = run_op(&plain_device(), op.clone(), &operands);
        let want = f64s(rows_of(&want[0], 3, 20));
        assert_close(&format!("{op:?}"), &floats(rows_of(&got[0], 3, 20)), &want, 5e-6);
    }
}

/// Many rows over caches of f16, which tensor cores multiply: more than a tile of rows and of positions, rows that are
/// not there, and everything that hides positions.
#[test]
fn attention_of_many_rows_comes_by_tiles() {
    for d in devices() {
        attention_of_many_rows(&d);
    }
}

/// The same on one device.
pub fn attention_of_many_rows(d: &Arc<TestDevice>) {
    let mut rng = Rng(26);
    let causal = Attention::causal(32, 0.3);
    for (op, kv, past, len) in [
        (Attention::causal(128, 0.1), 2u64, 30u32, 40usize),
        (causal.clone(), 1, 0, 70),
        (causal.clone(), 1, 75, 66),
        (causal.clone(), 2, 75, 66),
        (Attention { window: Some(20), softcap: Some(2.0), ..causal.clone() }, 2, 70, 70),
        (Attention { sinks: true, ..causal.clone() }, 2, 70, 70),
        (Attention { window: Some(60), ring: true, ..causal.clone() }, 2, 250, 70),
        (Attention { block: Some(32), ..causal }, 2, 64, 70),
    ] {
        let (e, rows) = (op.head_dim as u64, len as u64);
        let width = 2 * e as usize;
        let mut q = rng.floats(len * width);
        // Rows of all sizes.
        q.chunks_exact_mut(width)
            .zip([1.0, 1e-30, 10.0, 0.0].into_iter().cycle())
            .for_each(|(q, size)| q.iter_mut().for_each(|q| *q *= size));
        let mut operands = vec![
            input(&[rows, 2 * e], &q),
            cache(&mut rng, DType::F16, kv, 144, e),
            cache(&mut rng, DType::F16, kv, 144, e),
            control(past, len as u32 - 2, 0),
        ];
        if op.sinks {
            operands.push(weight(DType::F32, &[2], f32_bytes(&rng.floats(2))));
        }
        let what = format!("{op:?} past {past}");
        let op = Op::from(op);
        let want = truth(&op, &operands);
        let got = run_op(d, op, &operands);
        let want = f64s(rows_of(&want[0], len - 2, width));
        assert_close(&what, &floats(rows_of(&got[0], len - 2, width)), &want, 5e-6);
    }
}

#[test]
fn take_rows_counts_from_the_last_real_one() {
    let mut rng = Rng(18);
    for (s, rows, len) in [(7u64, 1u64, 5u32), (7, 3, 2), (1, 1, 1)] {
        let operands = [input(&[s, 33], &rng.floats(s as usize * 33)), control(4, len, 0)];
        let op = Op::from(TakeRows { rows: rows.into() });
        assert_eq!(
            run_op(&plain_device(), op.clone(), &operands),
            truth(&op, &operands),
            "{s} {rows} {len}"
        );
    }
}

/// Distributions whose tokens are many or few, with ties, penalties and a mask: the words that the core leaves.
#[test]
fn sampling_chooses_and_advances_as_the_core_does() {
    let mut rng = Rng(19);
    let plain = SampleParams { temperature: 0.9, seed: 7, ..SampleParams::default() };
    for (i, options) in [
        SampleParams { temperature: 0.0, ..plain.clone() },
        plain.clone(),
        SampleParams { temperature: 1.3, top_k: 20, ..plain.clone() },
        SampleParams { top_p: 0.4, ..plain.clone() },
        SampleParams { top_k: 300, top_p: 0.9, min_p: 0.02, ..plain.clone() },
        SampleParams {
            repetition_penalty: 1.3,
            frequency_penalty: 0.4,
            presence_penalty: 0.2,
            ..plain
        },
    ]
    .into_iter()
    .enumerate()
    {
        // Few enough for a block of threads, and enough for several.
        for (vocab, past) in [(1000usize, 3u32), (1000, 62), (20_011, 3)] {
            let mut params = options.to_words().to_vec();
            params.resize(32 + vocab.div_ceil(32), 0);
            // Few values, so that many tokens tie.
            let coarse = |x: f32| if i % 2 == 0 { x } else { (x * 8.0).round() };
            let logits: Vec<f32> = rng.floats(vocab).into_iter().map(coarse).collect();
            let counts: Vec<u32> =
                (0..vocab as u32).map(|i| u32::from(i % 5 == 0) * (i % 3)).collect();
            let ctl = Control { past, len: 1, limit: 9, capacity: 64, ..Control::default() };
            let operands = [
                input(&[1, vocab as u64], &logits),
                state(DType::U32, &[params.len() as u64], u32_bytes(&params)),
                state(DType::U32, &[vocab as u64], u32_bytes(&counts)),
                state(DType::U32, &[16], u32_bytes(&ctl.to_words())),
            ];
            let (got, want) =
                (run_op(&plain_device(), Sample, &operands), truth(&Op::from(Sample), &operands));
            assert_eq!(words(&got[1]), words(&want[1]), "control of case {i} of {vocab} at {past}");
            assert_eq!(got[0], want[0], "counts of case {i}");
        }
    }
}
