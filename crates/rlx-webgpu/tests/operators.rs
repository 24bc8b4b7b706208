//! Every operator but matmul on the device, against `rlx_core::reference`.

use crate::common;
use common::*;
use half::f16;
use rlx_core::ops::{
    Attention, Binary, Gather, KvWrite, Map, Op, Predict, QuantizeRows, RmsNorm, RmsNormAdd, Rope,
    RopeKvWrite, RopeScaling, RopeStyle, RopeTable, Sample, TakeRows, Unary, Unmask, Zip,
};
use rlx_core::reference::{self, View};
use rlx_core::sample::canvas::Filling;
use rlx_core::sample::{Control, SampleParams};
use rlx_core::types::{BlockFormat, DType, Shape, Type};

fn truth(op: &Op, operands: &[Operand]) -> Vec<Vec<u8>> {
    let views: Vec<View<'_>> = operands.iter().map(|o| View::new(&o.ty, &o.bytes)).collect();
    reference::run(op, &views).expect("the reference runs this")
}

fn f64s(bytes: &[u8]) -> Vec<f64> {
    floats(bytes).iter().map(|&x| f64::from(x)).collect()
}

fn halves(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(2).map(|c| f16::from_le_bytes([c[0], c[1]]).to_f32()).collect()
}

fn ids(xs: &[u32]) -> Operand {
    let mut o = input(&[1], &[0.0]);
    o.ty = Type::tensor(DType::U32, Shape::of(&[xs.len() as u64]));
    o.bytes = u32_bytes(xs);
    o
}

#[test]
fn gather_decodes_every_type() {
    let d = device();
    let mut rng = Rng(11);
    for dtype in common_types().into_iter().chain(other_formats()) {
        for k in if dtype.is_block() { [256u64, 1536] } else { [1, 67] } {
            let bytes = random_weights(&mut rng, dtype, 5, k as usize);
            let operands = [weight(dtype, &[5, k], bytes), ids(&[4, 0, 2, 9, 2])];
            let op = Op::from(Gather::default());
            let want = f64s(&truth(&op, &operands)[0]);
            let got = run_op(&d, op, &operands);
            assert_close(&format!("{dtype} x{k}"), &floats(&got[0]), &want, 1e-6);
        }
    }
}

/// Rows of `q6_k` of whole eights of blocks lie in planes: however the bytes of a weight arrive, and whatever stands
/// beside it.
#[test]
fn weights_are_rearranged_once_all_of_their_bytes_are_there() {
    let d = device();
    let mut rng = Rng(17);
    let q6_k = DType::Block(BlockFormat::Q6K);
    for k in [2048u64, 1792, 18_432, 20_480] {
        let bytes = random_weights(&mut rng, q6_k, 7, k as usize);
        let operands = [weight(q6_k, &[7, k], bytes), ids(&[6, 0, 3, 9, 3])];
        let op = Op::from(Gather::default());
        let want = f64s(&truth(&op, &operands)[0]);
        for pieces in [4, 1000, 4096] {
            let case = case(op.clone(), &operands, Buffers::One);
            let got = run_in(&d, &case, pieces).expect("it runs");
            assert_close(&format!("{k} by {pieces}"), &floats(&got[0]), &want, 1e-6);
        }
    }
}

#[test]
fn rms_norm_holds_around_the_workgroup_width() {
    let d = device();
    let mut rng = Rng(12);
    for k in [1u64, 63, 64, 65, 128, 129, 256, 257] {
        for rows in [1u64, 3] {
            let operands = [
                input(&[rows, k], &rng.floats((rows * k) as usize)),
                weight(DType::F32, &[k], f32_bytes(&rng.floats(k as usize))),
            ];
            let op = Op::from(RmsNorm { eps: 1e-5 });
            let want = f64s(&truth(&op, &operands)[0]);
            let got = run_op(&d, op, &operands);
            assert_close(&format!("{rows}x{k}"), &floats(&got[0]), &want, 2e-6);

            // The same with the sum that it joins.
            let [x, w] = operands;
            let operands = [x, w, input(&[rows, k], &rng.floats((rows * k) as usize))];
            let op = Op::from(RmsNormAdd { eps: 1e-5 });
            let want = f64s(&truth(&op, &operands)[0]);
            let got = run_op(&d, op, &operands);
            assert_close(&format!("{rows}x{k} added"), &floats(&got[0]), &want, 2e-6);
        }
    }
}

#[test]
fn quantize_rows_makes_the_reference_blocks() {
    let d = device();
    let mut rng = Rng(13);
    for (format, rows, k) in [
        (BlockFormat::Q8_0, 1u64, 32u64),
        (BlockFormat::Q8_0, 3, 96),
        (BlockFormat::Q8_0, 130, 64),
        (BlockFormat::Q8_0, 7, 224),
        (BlockFormat::Q15_0, 1, 32),
        (BlockFormat::Q15_0, 7, 224),
        (BlockFormat::Q15_0, 130, 64),
    ] {
        let mut xs = rng.floats((rows * k) as usize);
        if rows > 1 {
            // A block of zeros has scale 0 and no NaN.
            xs[..format.elements()].fill(0.0);
        }
        let operands = [input(&[rows, k], &xs)];
        let op = Op::from(QuantizeRows::to(format));
        let want = &truth(&op, &operands)[0];
        let got = &run_op(&d, op, &operands)[0];
        assert_eq!(got.len(), want.len());
        // A driver's division may be a bit off, so a quant may land on the other side of a half.
        let off = got.iter().zip(want).filter(|(a, b)| a != b).count();
        assert!(off * 500 <= got.len(), "{} {rows}x{k}: {off} bytes differ", format.name());
        let (got, want) = (decode(DType::Block(format), got), decode(DType::Block(format), want));
        let most = if format == BlockFormat::Q15_0 { 16_319.0 } else { 127.0 };
        for (a, b) in got.iter().zip(&want) {
            assert!((a - b).abs() <= 1.01 / most, "{a} is not {b}");
        }
    }
}

fn table(dims: usize, context: u64) -> Operand {
    let op = RopeTable { base: 10000.0, dims, context, scaling: RopeScaling::None };
    let rows = op.low_rows() + op.high_rows();
    weight(DType::F32, &[rows, dims as u64 / 2, 2], f32_bytes(&op.compute(None)))
}

/// The first `len` rows of `width` f32.
fn rows_of(bytes: &[u8], len: usize, width: usize) -> &[u8] {
    &bytes[..4 * len * width]
}

#[test]
fn rope_turns_both_styles_and_passes_the_rest_through() {
    let d = device();
    let mut rng = Rng(14);
    for style in [RopeStyle::Adjacent, RopeStyle::Half] {
        for (head_dim, dims, heads, past) in [(64, 64, 3, 0), (64, 32, 2, 999), (6, 6, 5, 77)] {
            for (rows, len) in [(1usize, 1usize), (5, 3)] {
                let width = head_dim * heads;
                let operands = [
                    input(&[rows as u64, width as u64], &rng.floats(rows * width)),
                    table(dims, 1024),
                    control(past, len as u32, 0),
                ];
                let op = Op::from(Rope { style, head_dim });
                let want = truth(&op, &operands);
                let got = run_op(&d, op, &operands);
                let want = f64s(rows_of(&want[0], len, width));
                let what = format!("{} {head_dim}/{dims} at {past}", style.name());
                assert_close(&what, &floats(rows_of(&got[0], len, width)), &want, 2e-6);
            }
        }
    }
}

fn cache(rng: &mut Rng, dtype: DType, heads: u64, capacity: u64, e: u64) -> Operand {
    let n = (heads * capacity * e) as usize;
    state(dtype, &[heads, capacity, e], random_weights(rng, dtype, n, 1))
}

fn cache_values(dtype: DType, bytes: &[u8]) -> Vec<f32> {
    if dtype == DType::F16 { halves(bytes) } else { floats(bytes) }
}

fn assert_cache(what: &str, dtype: DType, got: &[u8], want: &[u8]) {
    let want: Vec<f64> = cache_values(dtype, want).iter().map(|&x| f64::from(x)).collect();
    let tolerance = if dtype == DType::F16 { 1e-3 } else { 2e-6 };
    assert_close(what, &cache_values(dtype, got), &want, tolerance);
}

#[test]
fn caches_take_real_rows_and_nothing_once_done() {
    let d = device();
    let mut rng = Rng(15);
    for dtype in [DType::F32, DType::F16] {
        for (rows, len, past, done, ring) in [
            (1u64, 1, 6, 0, false),
            (5, 3, 2, 0, false),
            (5, 5, 0, 0, false),
            (2, 2, 3, 1, false),
            (5, 4, 22, 0, true),
        ] {
            let (heads, e) = (3u64, 10u64);
            let ctl = control(past, len, done);
            let kv =
                |rng: &mut Rng| input(&[rows, heads * e], &rng.floats((rows * heads * e) as usize));
            let what = format!("{dtype} rows {rows} len {len} past {past} done {done}");

            let operands = [cache(&mut rng, dtype, heads, 8, e), kv(&mut rng), ctl.clone()];
            let op = Op::from(KvWrite { ring });
            let want = truth(&op, &operands);
            let got = run_op(&d, op, &operands);
            assert_cache(&what, dtype, &got[0], &want[0]);
            if done == 1 {
                assert_eq!(got[0], operands[0].bytes, "{what}");
            }

            let q_heads = 2 * heads;
            let q = input(&[rows, q_heads * e], &rng.floats((rows * q_heads * e) as usize));
            let operands = [
                q,
                kv(&mut rng),
                kv(&mut rng),
                table(8, 32),
                cache(&mut rng, dtype, heads, 8, e),
                cache(&mut rng, dtype, heads, 8, e),
                ctl,
            ];
            for style in [RopeStyle::Adjacent, RopeStyle::Half] {
                let op = Op::from(RopeKvWrite { style, head_dim: e as usize, ring });
                let want = truth(&op, &operands);
                let got = run_op(&d, op, &operands);
                let (len, width) = (len as usize, (q_heads * e) as usize);
                let q = f64s(rows_of(&want[0], len, width));
                assert_close(&what, &floats(rows_of(&got[0], len, width)), &q, 2e-6);
                assert_cache(&what, dtype, &got[1], &want[1]);
                assert_cache(&what, dtype, &got[2], &want[2]);
            }
        }
    }
}

#[test]
fn attention_sees_the_past_and_its_own_rows() {
    let d = device();
    let mut rng = Rng(16);
    for dtype in [DType::F32, DType::F16] {
        for (e, heads, kv_heads) in
            [(64u64, 4u64, 2u64), (64, 5, 1), (2, 3, 3), (80, 2, 1), (128, 1, 1), (128, 6, 2)]
                .into_iter()
                // Parts of a chunk of dimensions, sums of several slices, more sums to a thread, groups without a
                // tile.
                .chain([(16, 3, 1), (36, 2, 2), (4, 32, 1), (16, 40, 1), (260, 1, 1), (512, 2, 1)])
                // Each head size is a pipeline of its own: those of f32 are the wide suite's, but for the first.
                .take(if dtype == DType::F16 || is_wide() { usize::MAX } else { 1 })
        {
            for (rows, len, past) in [
                (1u64, 1usize, 0u32),
                (1, 1, 63),
                (1, 1, 64),
                (1, 1, 700),
                (5, 3, 62),
                (3, 3, 200),
                (70, 65, 0),
                (40, 40, 664),
            ] {
                let width = (heads * e) as usize;
                let operands = [
                    input(&[rows, heads * e], &rng.floats(rows as usize * width)),
                    cache(&mut rng, dtype, kv_heads, 704, e),
                    cache(&mut rng, dtype, kv_heads, 704, e),
                    control(past, len as u32, 0),
                ];
                let op = Op::from(Attention::causal(e as usize, 0.3));
                let want = truth(&op, &operands);
                let got = run_op(&d, op, &operands);
                let want = f64s(rows_of(&want[0], len, width));
                let what = format!("{dtype} head {e} past {past} rows {rows}");
                assert_close(&what, &floats(rows_of(&got[0], len, width)), &want, 5e-6);
            }
        }
    }
}

#[test]
fn functions_of_large_arguments_are_no_nan() {
    let d = device();
    let xs = [-1e4f32, -100.0, 100.0, 1e4];
    for f in [Unary::Silu, Unary::Gelu, Unary::Sigmoid, Unary::Tanh] {
        let got = floats(&run_op(&d, Map { f }, &[input(&[1, 4], &xs)])[0]);
        for (x, y) in xs.iter().zip(got) {
            let want = f.eval(f64::from(*x));
            let off = (f64::from(y) - want).abs();
            assert!(off <= 1e-6 * want.abs() + 1e-30, "{}({x}) = {y}", f.name());
        }
    }
}

#[test]
fn take_rows_counts_from_the_last_real_one() {
    let d = device();
    let mut rng = Rng(18);
    for (s, rows, len) in [(7u64, 1u64, 5u32), (7, 7, 7), (7, 3, 2), (1, 1, 1)] {
        let operands = [input(&[s, 33], &rng.floats(s as usize * 33)), control(4, len, 0)];
        let op = Op::from(TakeRows { rows: rows.into() });
        assert_eq!(run_op(&d, op.clone(), &operands), truth(&op, &operands), "{s} {rows} {len}");
    }
}

#[test]
fn sample_chooses_and_advances_as_the_core_does() {
    let d = device();
    let mut rng = Rng(19);
    let vocab = 1000u64;
    for (temperature, top_k) in [(0.0, 0), (0.9, 0), (1.3, 20)] {
        let options = SampleParams { temperature, top_k, seed: 7, ..SampleParams::default() };
        let mut params = options.to_words().to_vec();
        params.extend([0; 32]);
        let ctl = Control { past: 3, len: 1, limit: 9, capacity: 64, ..Control::default() };
        // Logits are made by a step: `sample` reads the arena.
        let logits = input(&[1, vocab], &rng.floats(vocab as usize));
        let operands = [
            logits,
            state(DType::U32, &[64], u32_bytes(&params)),
            state(DType::U32, &[vocab], vec![0; 4 * vocab as usize]),
            state(DType::U32, &[16], u32_bytes(&ctl.to_words())),
        ];
        let want = truth(&Op::from(Sample), &operands);
        let got = run(&d, &with_logits_in_arena(case(Sample, &operands, Buffers::One))).unwrap();
        assert_eq!(words(&got[1]), words(&want[1]), "control at temperature {temperature}");
        assert_eq!(got[0], want[0], "counts at temperature {temperature}");
    }
}

#[test]
fn predict_and_unmask_are_the_cores() {
    let d = device();
    let mut rng = Rng(31);
    let (block, vocab, mask) = (40usize, 263u64, 260u32);
    for (temperature, min_p, editing) in
        [(0.0, 0.0, None), (0.0, 0.0, Some(0.02)), (0.9, 0.0, None), (1.7, 0.1, Some(0.3))]
    {
        let options = SampleParams { temperature, min_p, seed: 7, ..SampleParams::default() };
        let filling = Filling { steps: Some(12), threshold: 0.6, editing, post: 3 };
        let mut canvas = filling.canvas(mask, 80, &[3, 4], block);
        for pass in 0..30 {
            let mut logits = rng.floats(block * vocab as usize);
            logits.iter_mut().for_each(|x| *x *= 4.0);
            // Equal rows are as likely, one is not a number, and one likes the mask best.
            let v = vocab as usize;
            logits.copy_within(5 * v..6 * v, 9 * v);
            logits[7 * v..8 * v].fill(f32::NAN);
            logits[3 * v + mask as usize] = 9.0;
            let onto = |words: &[u32]| state(DType::U32, &[words.len() as u64], u32_bytes(words));
            let operands = [
                input(&[block as u64, vocab], &logits),
                state(DType::U32, &[32], u32_bytes(&options.to_words())),
                onto(&canvas),
            ];
            let what = format!("{temperature} {editing:?}, pass {pass}");
            let want = truth(&Op::from(Predict), &operands);
            assert_eq!(run_op(&d, Predict, &operands), want, "{what}");
            let tensor = |bytes: &Vec<u8>| Operand {
                ty: Type::tensor(DType::U32, Shape::of(&[block as u64])),
                bytes: bytes.clone(),
                space: rlx_core::ir::lir::Space::Input,
            };
            let operands = [tensor(&want[0]), tensor(&want[1]), onto(&canvas)];
            let want = truth(&Op::from(Unmask), &operands);
            assert_eq!(run_op(&d, Unmask, &operands), want, "{what}");
            canvas = words(&want[0]);
        }
    }
}

/// Puts a copying step before the only one, so that its first operand lies in the arena.
fn with_logits_in_arena(mut case: Case) -> Case {
    use rlx_core::ir::lir::{Slice, Space, Step};
    let step = &mut case.program.steps[0];
    let logits = step.operands[0].clone();
    let bytes = logits.bytes;
    let moved =
        Slice { space: Space::Arena, index: 0, offset: case.program.arena_bytes, ..logits.clone() };
    case.program.arena_bytes += bytes.next_multiple_of(64);
    case.program.arena_segments = vec![case.program.arena_bytes];
    step.operands[0] = moved.clone();
    let zeros = vec![0u8; bytes as usize];
    let zero = Slice { index: case.program.inputs.len() as u32, ..logits.clone() };
    let mut decl = case.program.inputs[0].clone();
    decl.name = "zeros".into();
    case.program.inputs.push(decl);
    case.writes.push(rlx_core::runtime::device::Write {
        to: rlx_core::runtime::device::WriteTo::Input(zero.index),
        offset: 0,
        bytes: zeros,
    });
    let copy = Step {
        op: Zip { f: Binary::Add }.into(),
        operands: vec![logits, zero],
        results: vec![moved],
        ..step.clone()
    };
    case.program.steps.insert(0, copy);
    case
}
