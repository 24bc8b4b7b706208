//! Operators of language models on XLA's CPU device, against `rlx_core::reference`.

use crate::common::*;
use crate::step::{cache, ids, rows_of, table};

use rlx_core::ops::{
    Attention, Epilogue, Gather, KvWrite, MatMul, Op, RmsNorm, Rope, RopeStyle, Sample, TakeRows,
    Unary,
};
use rlx_core::sample::{Control, SampleParams};
use rlx_core::target::Target;
use rlx_core::types::{BlockFormat, DType, Shape, Type};
use rlx_pjrt::lower::{lower, lower_for};
use std::collections::BTreeSet;

/// Types of weights that are decoded.
fn decoded() -> Vec<DType> {
    let packed = target().formats.into_iter().map(DType::Block);
    [DType::F32, DType::F16, DType::BF16].into_iter().chain(packed).collect()
}

#[test]
fn rows_of_a_table_have_the_bits_of_the_reference() {
    if !ready("operators::rows_of_a_table_have_the_bits_of_the_reference") {
        return;
    }
    let mut rng = Rng(11);
    let formats = |all: Vec<BlockFormat>| all.into_iter().collect::<BTreeSet<_>>();
    assert_eq!(formats(target().formats), formats(Target::every_format()));
    for dtype in decoded() {
        let k = if dtype.is_block() { 512u64 } else { 67 };
        let table = weight(dtype, &[5, k], random_weights(&mut rng, dtype, 5, k as usize));
        // An id past the end reads the last row.
        agrees(Gather::default(), &[table, ids(&[4, 0, 2, 9, 2])], 0.0);
    }
}

#[test]
fn products_are_those_of_every_type() {
    if !ready("operators::products_are_those_of_every_type") {
        return;
    }
    let mut rng = Rng(21);
    for dtype in decoded() {
        let k = if dtype.is_block() { 512u64 } else { 67 };
        let w = weight(dtype, &[7, k], random_weights(&mut rng, dtype, 7, k as usize));
        let x = input(&[3, k], &rng.floats(3 * k as usize));
        agrees(MatMul::plain(), &[x, w], 2e-6);
    }
}

/// Weights of more elements than are decoded at once, of a number of rows that blocks divide and of one that is prime.
#[test]
fn large_packed_weights_are_taken_in_blocks_of_rows() {
    if !ready("operators::large_packed_weights_are_taken_in_blocks_of_rows") {
        return;
    }
    let mut rng = Rng(23);
    for (format, n, rows) in [(BlockFormat::Q8_0, 4099u64, 3u64), (BlockFormat::Q4K, 4160, 1)] {
        let (dtype, k) = (DType::Block(format), 512u64);
        let w = weight(dtype, &[n, k], random_weights(&mut rng, dtype, n as usize, k as usize));
        let operands = [input(&[rows, k], &rng.floats((rows * k) as usize)), w];
        let graph = case(MatMul::plain(), &operands, Buffers::One).graph;
        let in_blocks = |text: &str| text.contains("stablehlo.while");
        assert!(in_blocks(&lower(&graph).unwrap().text), "{n} rows in one piece");
        let whole = lower_for(&graph, &rlx_pjrt::cuda_target()).unwrap().text;
        assert!(!in_blocks(&whole), "{n} rows in blocks");
        agrees(MatMul::plain(), &operands, 2e-6);
    }
}

#[test]
fn what_follows_a_product_is_part_of_it() {
    if !ready("operators::what_follows_a_product_is_part_of_it") {
        return;
    }
    let mut rng = Rng(22);
    let (k, n, rows) = (64u64, 40u64, 3u64);
    let f32s = |rng: &mut Rng, dims: &[u64]| {
        let n = dims.iter().product::<u64>() as usize;
        weight(DType::F32, dims, f32_bytes(&rng.floats(n)))
    };
    let x = input(&[rows, k], &rng.floats((rows * k) as usize));
    let ws: Vec<Operand> = (0..2).map(|_| f32s(&mut rng, &[n, k])).collect();
    let biases: Vec<Operand> = (0..2).map(|_| f32s(&mut rng, &[n])).collect();
    let norm = [f32s(&mut rng, &[k])];
    let residual = input(&[rows, n], &rng.floats((rows * n) as usize));
    let op = |segments, bias, epilogue| MatMul { segments, bias, epilogue, ..MatMul::plain() };
    let all = |parts: &[&[Operand]]| parts.concat();
    let x = std::slice::from_ref(&x);
    agrees(op(2, true, Epilogue::None), &all(&[x, &ws, &biases]), 2e-6);
    let map = op(1, true, Epilogue::Map(Unary::GeluErf));
    agrees(map, &all(&[x, &ws[..1], &biases[..1]]), 4e-6);
    agrees(op(1, true, Epilogue::Add), &all(&[x, &ws[..1], &biases[..1], &[residual]]), 2e-6);
    let glu = op(2, false, Epilogue::Glu(Unary::Silu));
    agrees(glu.clone(), &all(&[x, &ws]), 4e-6);
    agrees(MatMul { half: true, ..glu.clone() }, &all(&[x, &ws]), 4e-6);
    agrees(MatMul { norm: Some(1e-5), ..glu }, &all(&[x, &norm, &ws]), 8e-6);
}

#[test]
fn norms_of_rows() {
    if !ready("operators::norms_of_rows") {
        return;
    }
    let mut rng = Rng(12);
    for k in [1u64, 65] {
        let x = input(&[3, k], &rng.floats(3 * k as usize));
        let w = weight(DType::F32, &[k], f32_bytes(&rng.floats(k as usize)));
        agrees(RmsNorm { eps: 1e-5 }, &[x, w], 2e-6);
    }
}

#[test]
fn heads_turn_in_both_styles_and_the_rest_passes_through() {
    if !ready("operators::heads_turn_in_both_styles_and_the_rest_passes_through") {
        return;
    }
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
            let got = run_op(&device(), op, &operands);
            let want = f64s(rows_of(&want[0], 3, width));
            assert_close(style.name(), &floats(rows_of(&got[0], 3, width)), &want, 2e-6);
        }
    }
}

const CACHES: [DType; 3] = [DType::F32, DType::F16, DType::Block(BlockFormat::Q8_0)];

#[test]
fn caches_take_real_rows_and_nothing_once_done() {
    if !ready("operators::caches_take_real_rows_and_nothing_once_done") {
        return;
    }
    let mut rng = Rng(15);
    for dtype in CACHES {
        for (rows, len, past, done, ring) in [
            (5u64, 3u32, 2u32, 0u32, false),
            (5, 5, 0, 0, false),
            (2, 2, 3, 1, false),
            (5, 4, 22, 0, true),
            (1, 1, 7, 0, false),
            (1, 0, 7, 0, false),
            (1, 1, 7, 1, false),
            (1, 1, 23, 0, true),
        ] {
            let (heads, e) = (3u64, 64u64);
            let x = input(&[rows, heads * e], &rng.floats((rows * heads * e) as usize));
            let operands = [cache(&mut rng, dtype, heads, 8, e), x, control(past, len, done)];
            if !dtype.is_block() {
                agrees(KvWrite { ring }, &operands, 0.0);
                continue;
            }
            // A quotient that is a half of a step may round to either side.
            let op = Op::from(KvWrite { ring });
            let (got, want) = (run_op(&device(), op.clone(), &operands), truth(&op, &operands));
            let different = got[0].iter().zip(&want[0]).filter(|(a, b)| a != b).count();
            assert!(different <= 2, "rows {rows} len {len} past {past}: {different} bytes");
        }
    }
}

#[test]
fn rows_see_what_their_attention_says() {
    if !ready("operators::rows_see_what_their_attention_says") {
        return;
    }
    let mut rng = Rng(16);
    let e = 32u64;
    let plain = Attention::causal(e as usize, 0.2);
    let window = Attention { window: Some(5), ..plain.clone() };
    for (op, rows, len, past, dtype) in [
        (plain.clone(), 1u64, 1u32, 0u32, DType::F32),
        (plain.clone(), 1, 1, 22, DType::F16),
        (plain.clone(), 3, 3, 9, DType::Block(BlockFormat::Q8_0)),
        (plain.clone(), 5, 4, 7, DType::F32),
        (Attention { softcap: Some(2.0), ..window.clone() }, 5, 5, 17, DType::F16),
        (Attention { sinks: true, ..plain.clone() }, 4, 3, 9, DType::F32),
        (Attention { block: Some(4), ..plain }, 6, 6, 8, DType::F32),
        (Attention { ring: true, ..window.clone() }, 5, 4, 61, DType::F32),
        (Attention { ring: true, ..window }, 3, 3, 2, DType::F32),
    ] {
        let (heads, kv_heads, capacity) = (6u64, 2u64, 24u64);
        let mut operands = vec![
            input(&[rows, heads * e], &rng.floats((rows * heads * e) as usize)),
            cache(&mut rng, dtype, kv_heads, capacity, e),
            cache(&mut rng, dtype, kv_heads, capacity, e),
            control(past, len, 0),
        ];
        if op.sinks {
            operands.push(weight(DType::F32, &[heads], f32_bytes(&rng.floats(heads as usize))));
        }
        let op = Op::from(op);
        let want = truth(&op, &operands);
        let got = run_op(&device(), op.clone(), &operands);
        let width = (heads * e) as usize;
        let want = f64s(rows_of(&want[0], len as usize, width));
        let what = format!("{} {rows} rows", op.attrs());
        assert_close(&what, &floats(rows_of(&got[0], len as usize, width)), &want, 4e-6);
    }
}

#[test]
fn the_last_real_rows_are_taken() {
    if !ready("operators::the_last_real_rows_are_taken") {
        return;
    }
    let mut rng = Rng(17);
    for (rows, len) in [(1u64, 3u32), (1, 0), (2, 3), (3, 1), (4, 9)] {
        let x = input(&[4, 5], &rng.floats(20));
        agrees(TakeRows { rows: rows.into() }, &[x, control(5, len, 0)], 0.0);
    }
}

fn params_state(params: &SampleParams, masked: Option<&[u32]>, vocab: usize) -> Operand {
    let mut all = params.to_words().to_vec();
    let masks = vocab.div_ceil(32);
    match masked {
        Some(mask) => {
            all[rlx_core::sample::params::MASKED] = 1;
            all.extend(mask);
        }
        None => all.extend(vec![0; masks]),
    }
    state(DType::U32, &[all.len() as u64], u32_bytes(&all))
}

#[test]
fn equal_logits_and_seeds_give_equal_tokens() {
    if !ready("operators::equal_logits_and_seeds_give_equal_tokens") {
        return;
    }
    let mut rng = Rng(18);
    let plain = SampleParams::default();
    let hot = SampleParams { temperature: 0.8, ..plain.clone() };
    let mut tokens = BTreeSet::new();
    for (n, params) in [
        plain.clone(),
        SampleParams { repetition_penalty: 1.5, presence_penalty: 0.5, ..plain.clone() },
        hot.clone(),
        SampleParams { top_k: 5, ..hot.clone() },
        SampleParams { top_p: 0.7, ..hot.clone() },
        SampleParams { top_k: 40, top_p: 0.9, min_p: 0.05, frequency_penalty: 0.3, ..hot.clone() },
        SampleParams { temperature: 2.0, top_p: 0.999, ..plain.clone() },
        SampleParams { stop_ids: (0..16).collect(), ..hot.clone() },
    ]
    .into_iter()
    .enumerate()
    {
        // Ties, infinities and what is no number.
        let vocab = 131usize;
        let mut logits: Vec<f32> =
            rng.floats(vocab).iter().map(|x| (x * 40.0).round() / 4.0).collect();
        (logits[3], logits[40], logits[41]) = (f32::NAN, f32::NEG_INFINITY, f32::NAN);
        let counts: Vec<u32> = (0..vocab)
            .map(|_| match rng.next() % 4 {
                0 => 1 << 15 | 7,
                1 => (rng.next() as u32 & 0xffff_0000) >> 3 & 0x03ff_0000 | 0x7fff,
                _ => 0,
            })
            .collect();
        let mask: Vec<u32> = (0..vocab.div_ceil(32)).map(|_| rng.next() as u32).collect();
        for (seed, masked) in [(1u64, None), (77 << 33, Some(&mask[..])), (5, None)] {
            let params = SampleParams { seed, ..params.clone() };
            let block = Control {
                past: 9 + n as u32,
                len: 3,
                limit: 8,
                capacity: 64,
                ..Control::default()
            };
            let operands = [
                input(&[1, vocab as u64], &logits),
                params_state(&params, masked, vocab),
                state(DType::U32, &[vocab as u64], u32_bytes(&counts)),
                state(DType::U32, &[16], u32_bytes(&block.to_words())),
            ];
            agrees(Sample, &operands, 0.0);
            let token = words(&truth(&Sample.into(), &operands)[1])[2];
            tokens.insert(token);
        }
    }
    assert!(tokens.len() > 5, "tokens differ: {tokens:?}");
    let done = [
        input(&[1, 4], &[0.0, 3.0, 5.0, 1.0]),
        params_state(&SampleParams { presence_penalty: 1.0, ..plain.clone() }, None, 4),
        state(DType::U32, &[4], u32_bytes(&[1, 2, 3, 4])),
        control(4, 1, 1),
    ];
    agrees(Sample, &done, 0.0);
    let none = input(&[1, 4], &[f32::NEG_INFINITY; 4]);
    let full = Control { past: 9, len: 3, limit: 8, capacity: 12, ..Control::default() };
    let full = state(DType::U32, &[16], u32_bytes(&full.to_words()));
    agrees(Sample, &[none, params_state(&hot, None, 4), done[2].clone(), full], 0.0);
}

#[test]
fn what_nothing_lowers_is_refused_by_name() {
    let target = target();
    let x = Type::tensor(DType::F32, Shape::of(&[2, 256]));
    let w = Type::tensor(DType::Block(BlockFormat::Q8_1), Shape::of(&[4, 256]));
    let why = target.claims(&Op::from(MatMul::plain()), &[&x, &w]).unwrap_err();
    assert_eq!(why, "its lowering takes no q8_1 as operand 1");
    let why = target.claims(&Op::from(MatMul::plain()), &[&w, &w]).unwrap_err();
    assert_eq!(why, "its lowering takes no q8_1 as operand 0");
}
