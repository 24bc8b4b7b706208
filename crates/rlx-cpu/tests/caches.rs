//! Rotation, cache writes and attention at every SIMD level, with one worker and with three, against the
//! reference: caches of f32, f16, q8_0 and q4_0.

use crate::common;
use common::*;
use rlx_core::formats::decode_row;
use rlx_core::ir::lir::{OutputDecl, Program, Slice, Space};
use rlx_core::ops::*;
use rlx_core::runtime::device::Write;
use rlx_core::types::{BlockFormat, DType};

const Q8_0: DType = DType::Block(BlockFormat::Q8_0);
const Q4_0: DType = DType::Block(BlockFormat::Q4_0);
const CACHES: [DType; 4] = [DType::F32, DType::F16, Q8_0, Q4_0];

fn table(dims: usize, context: u64) -> Value {
    let op = RopeTable { base: 10000.0, dims, context, scaling: RopeScaling::None };
    let ty = op.infer(&[]).unwrap().remove(0);
    let dims: Vec<u64> = ty.shape.static_dims().unwrap();
    f32s(&dims, &op.compute(None)).weight()
}

#[test]
fn rotation_at_every_context_size() {
    let mut random = Random(8);
    for style in [RopeStyle::Adjacent, RopeStyle::Half] {
        for context in [1u64, 2, 3, 5, 16, 17, 100, 1000] {
            for past in [0, context / 2, context - 1] {
                let x = f32s(&[1, 48], &random.floats(48));
                let operands = [x, table(12, context), control(past as u32, 1, 0)];
                let what = format!("{} {past} of {context}", style.name());
                check(Rope { style, head_dim: 16 }, &operands, 1e-6, &what);
            }
        }
    }
}

/// Width of a head that the type's blocks fill, near `e`.
fn head(dtype: DType, e: u64) -> u64 {
    e.next_multiple_of(dtype.block_elements() as u64)
}

#[test]
fn cache_writes_stop_at_len() {
    let mut random = Random(9);
    let widths = if cfg!(miri) { &[12][..] } else { &[12, 80] };
    for (dtype, e) in CACHES.iter().flat_map(|d| widths.iter().map(|e| (*d, head(*d, *e)))) {
        // With the last of them nothing but the rotated query is made.
        for (seq, past, len, done, ring) in [
            (1, 0, 1, 0, false),
            (5, 3, 5, 0, false),
            (5, 3, 2, 0, false),
            (2, 1, 2, 1, false),
            (5, 45, 5, 0, true),
        ] {
            let n = (2 * 16 * e) as usize;
            let old = cache(dtype, &[2, 16, e], &random.floats(n));
            let rows =
                |w: u64, random: &mut Random| f32s(&[seq, w], &random.floats((seq * w) as usize));
            let ctl = control(past, len, done);
            let x = rows(2 * e, &mut random);
            let what = format!("{dtype} x{e} {seq} {past} {len} {done}");
            let exact = |op: Op, operands: &[Value], first: usize| {
                let expected = oracle(&op, operands);
                for device in devices() {
                    let got = run_op(&device, &op, operands);
                    assert_eq!(got[first..], expected[first..], "{} {what}", op.name());
                }
            };
            exact(KvWrite { ring }.into(), &[old.clone(), x.clone(), ctl.clone()], 0);

            let (q, v) = (rows(6 * e, &mut random), rows(2 * e, &mut random));
            let op =
                Op::from(RopeKvWrite { style: RopeStyle::Adjacent, head_dim: e as usize, ring });
            let operands = [q, x, v, table(e as usize, 64), old.clone(), old.clone(), ctl];
            // v is copied exactly; k is rotated in f32, so its last bit may differ.
            exact(op.clone(), &operands, 2);
            let expected = oracle(&op, &operands);
            let real = (4 * 6 * e) as usize * len as usize;
            for device in devices() {
                let got = run_op(&device, &op, &operands);
                let (a, b) = (to_f32s(&got[0][..real]), to_f32s(&expected[0][..real]));
                assert_close(&a, &b, 1e-6, &what);
                let decode = |bytes: &[u8]| {
                    let mut y = vec![0.0; n];
                    decode_row(dtype, bytes, &mut y).unwrap();
                    y
                };
                // A last bit before it is rounded may be a step of the cache's type after: an f16's
                // last bit, or one of 127 or 8 parts of a block's largest element.
                let tolerance = match dtype {
                    DType::F32 => 1e-6,
                    DType::F16 => 1e-3,
                    Q8_0 => 1.001 / 127.0,
                    _ => 1.001 / 8.0,
                };
                assert_close(&decode(&got[1]), &decode(&expected[1]), tolerance, &what);
            }
        }
    }
}

/// The program of a cache write, and after it a step whose result the host reads: a program without
/// one is not run at all when the control block is done, and the kernel's own guard never is.
fn with_another_result(write: &Op, operands: &[Value]) -> (Program, Vec<Write>) {
    let (mut program, writes) = program_of(write, operands);
    let mut step = program.steps[0].clone();
    step.op = Op::from(Map { f: Unary::Neg });
    step.operands = vec![step.operands[1].clone()];
    let made = Slice { space: Space::Arena, index: 0, offset: 0, ..step.operands[0].clone() };
    program.arena_bytes = made.bytes.next_multiple_of(64);
    program.arena_segments = vec![program.arena_bytes];
    program.outputs.push(OutputDecl { name: "negative".into(), slice: made.clone() });
    step.results = vec![made];
    program.steps.push(step);
    (program, writes)
}

#[test]
fn a_cache_write_of_a_done_block_runs_and_writes_nothing() {
    let mut random = Random(16);
    for dtype in CACHES {
        let e = head(dtype, 12);
        let old = cache(dtype, &[2, 16, e], &random.floats((2 * 16 * e) as usize));
        let rows = random.floats((3 * 2 * e) as usize);
        for done in [0, 1] {
            let operands = [old.clone(), f32s(&[3, 2 * e], &rows), control(4, 3, done)];
            let op = Op::from(KvWrite::default());
            let expected = oracle(&op, &operands).remove(0);
            assert_eq!(expected == old.bytes, done == 1, "{dtype}: rows are written or are not");
            for device in devices() {
                let (program, writes) = with_another_result(&op, &operands);
                let got = run_program(&device, program, &[], &writes, None).unwrap();
                let what = format!("{dtype}, done: {done}, {}", device.info().adapter);
                assert_eq!(got[0], expected, "{what}");
                let negative: Vec<f32> = rows.iter().map(|x| -x).collect();
                assert_eq!(to_f32s(&got[1]), negative, "the program ran: {what}");
            }
        }
    }
}

/// Operands of attention over random caches of 100 positions, and what they are.
fn attention(
    random: &mut Random,
    dtype: DType,
    [heads, kv, e]: [u64; 3],
    (seq, past): (u64, u32),
) -> ([Value; 4], String) {
    let q = f32s(&[seq, heads * e], &random.floats((seq * heads * e) as usize));
    let mut rows = || {
        let x = random.floats((kv * 100 * e) as usize);
        cache(dtype, &[kv, 100, e], &x)
    };
    let operands = [q, rows(), rows(), control(past, seq as u32, 0)];
    (operands, format!("{dtype} {heads}/{kv}x{e} {seq} after {past}"))
}

#[test]
fn attention_with_grouped_heads_and_odd_widths() {
    let mut random = Random(10);
    for dtype in CACHES {
        for (heads, kv, e) in [(1, 1, 8), (6, 2, 12), (8, 8, 16), (9, 3, 64), (4, 1, 5), (5, 1, 96)]
        {
            for chunk in [(1, 0), (1, 31), (1, 32), (1, 90), (5, 0), (7, 40)] {
                let sizes = [heads, kv, head(dtype, e)];
                let (operands, what) = attention(&mut random, dtype, sizes, chunk);
                // Seen: 1.05e-6 of q4_0, and less of the others.
                let tolerance = if dtype == Q4_0 { 2e-6 } else { 1e-6 };
                check(Attention::causal(sizes[2] as usize, 1.5), &operands, tolerance, &what);
            }
        }
    }
}

#[test]
fn attention_with_windows_and_softcaps() {
    let mut random = Random(13);
    for dtype in CACHES {
        for (window, softcap) in [(Some(7), None), (None, Some(2.0)), (Some(40), Some(0.5))] {
            for chunk in [(1, 6), (1, 95), (6, 33)] {
                let sizes = [6, 2, head(dtype, 40)];
                let (operands, what) = attention(&mut random, dtype, sizes, chunk);
                let op = Attention { window, softcap, ..Attention::causal(sizes[2] as usize, 1.5) };
                check(op, &operands, 2e-6, &format!("{what} {window:?} {softcap:?}"));
            }
        }
    }
}

#[test]
fn extreme_blocks_of_a_cache_are_read_as_they_decode() {
    // Every byte of a block from -128 on, and scales that are zero, subnormal, negative and large.
    let mut random = Random(14);
    let q = f32s(&[3, 64], &random.floats(192));
    let mut blocks = |scales: [f32; 5]| {
        let mut value = cache(Q8_0, &[1, 40, 32], &random.floats(40 * 32));
        for (i, block) in value.bytes.chunks_exact_mut(34).enumerate() {
            block[..2].copy_from_slice(&half::f16::from_f32(scales[i % 5]).to_le_bytes());
            for (j, b) in block[2..].iter_mut().enumerate() {
                *b = (128 + 7 * i + 8 * j) as u8;
            }
        }
        value
    };
    let (k, v) = (blocks([1e-3, 0.0, 3e-7, -2e-3, 5e-3]), blocks([1.0, 0.0, 3e-7, -2.0, 300.0]));
    let operands = [q, k, v, control(30, 3, 0)];
    check(Attention::causal(32, 1.0), &operands, 1e-6, "extreme blocks");
}

#[test]
fn large_scores_do_not_overflow() {
    let q = f32s(&[1, 32], &[100.0; 32]);
    let mut k = vec![-100.0; 50 * 32];
    k[40 * 32..41 * 32].fill(100.0);
    let v: Vec<f32> = (0..1600).map(|i| i as f32).collect();
    for dtype in CACHES {
        let (k, v) = (cache(dtype, &[1, 50, 32], &k), cache(dtype, &[1, 50, 32], &v));
        let operands = [q.clone(), k, v, control(49, 1, 0)];
        check(Attention::causal(32, 1.0), &operands, 1e-6, dtype.name());
    }
}

#[test]
fn attention_does_not_depend_on_the_number_of_workers() {
    let mut random = Random(15);
    for dtype in CACHES {
        let (operands, what) = attention(&mut random, dtype, [9, 3, 64], (5, 70));
        let op = Op::from(Attention::causal(64, 0.2));
        for pair in devices().chunks(2) {
            let [one, three] = [0, 1].map(|i| run_op(&pair[i], &op, &operands));
            assert_eq!(one, three, "{what}");
        }
    }
}
