//! Caches of q8_0 and q4_0 on the device: blocks as the reference writes them, attention that reads them.

use crate::common;
use common::*;
use rlx_core::ops::{Attention, KvWrite, Op, RopeKvWrite, RopeScaling, RopeStyle, RopeTable};
use rlx_core::reference::{self, View};
use rlx_core::types::{BlockFormat, DType};

const Q8_0: DType = DType::Block(BlockFormat::Q8_0);
const Q4_0: DType = DType::Block(BlockFormat::Q4_0);
/// Types, and parts of a block's largest element that its codes count.
const TYPES: [(DType, f32); 2] = [(Q8_0, 127.0), (Q4_0, 8.0)];
const CAPACITY: u64 = 9;

fn truth(op: &Op, operands: &[Operand]) -> Vec<Vec<u8>> {
    let views: Vec<View<'_>> = operands.iter().map(|o| View::new(&o.ty, &o.bytes)).collect();
    reference::run(op, &views).expect("the reference runs this")
}

fn cache(rng: &mut Rng, dtype: DType, heads: u64, capacity: u64, e: u64) -> Operand {
    let xs = rng.floats((heads * capacity * e) as usize);
    state(dtype, &[heads, capacity, e], cache_blocks(dtype, &xs))
}

/// Rows whose blocks have a scale of a power of two, so that no product rounds: the largest is `parts`
/// scales, others end in halves, quarters and nothing; some blocks are zeros.
fn exact(rng: &mut Rng, parts: f32, rows: u64, width: u64) -> Operand {
    let mut xs = Vec::new();
    for block in 0..(rows * width / 32) as i32 {
        let d = 2.0f32.powi(block % 9 - 4);
        let quarters =
            |rng: &mut Rng| (rng.next() % (8.0 * parts + 1.0) as u64) as f32 / 4.0 - parts;
        let zeros = block % 7 == 6;
        let mut block: Vec<f32> =
            (0..32).map(|_| if zeros { 0.0 } else { quarters(rng) * d }).collect();
        if !zeros {
            block[(rng.next() % 32) as usize] = parts * d * rng.float().signum();
        }
        xs.extend(block);
    }
    input(&[rows, width], &xs)
}

/// Sizes and control blocks: heads, their elements, rows, real rows, past, done.
const CASES: [(u64, u64, u64, u32, u32, u32); 7] = [
    (1, 64, 1, 1, 0, 0),
    (3, 64, 1, 1, 8, 0),
    (2, 128, 5, 3, 2, 0),
    (1, 192, 5, 5, 4, 0),
    (3, 64, 5, 5, 0, 0),
    (2, 64, 2, 2, 3, 1),
    (8, 256, 9, 9, 0, 0),
];

#[test]
fn blocks_are_the_references_bit_for_bit_where_nothing_rounds() {
    let d = device();
    let mut rng = Rng(31);
    let cases = TYPES.into_iter().flat_map(|ty| CASES.map(|case| (ty, case)));
    for ((dtype, parts), (heads, e, rows, len, past, done)) in cases {
        let operands = [
            cache(&mut rng, dtype, heads, CAPACITY, e),
            exact(&mut rng, parts, rows, heads * e),
            control(past, len, done),
        ];
        let op = Op::from(KvWrite::default());
        let what = format!("{dtype} {heads} heads of {e}, {len} of {rows} rows at {past}");
        let want = truth(&op, &operands);
        assert_eq!(want[0] == operands[0].bytes, done == 1, "{what}");
        assert!(run_op(&d, op, &operands) == want, "{what}");
        let [old, x, _] = operands;
        let operands = [old, x, control(3 * CAPACITY as u32 - 1, len, done)];
        let op = Op::from(KvWrite { ring: true });
        let want = truth(&op, &operands);
        assert!(run_op(&d, op, &operands) == want, "{what}, around a ring");
    }
}

#[test]
fn a_row_past_the_capacity_is_not_written() {
    let d = device();
    let mut rng = Rng(32);
    for (dtype, parts) in TYPES {
        let old = cache(&mut rng, dtype, 2, CAPACITY, 64);
        let x = exact(&mut rng, parts, 1, 128);
        let operands = [old.clone(), x, control(CAPACITY as u32, 1, 0)];
        assert_eq!(run_op(&d, KvWrite::default(), &operands)[0], old.bytes);
    }
}

/// Fails unless blocks are equal but for bytes that a driver's division, or the last bit of a
/// rotation, moved to the other side of a half.
fn assert_blocks(what: &str, (dtype, parts): (DType, f32), got: &[u8], want: &[u8]) {
    assert_eq!(got.len(), want.len());
    let off = got.iter().zip(want).filter(|(a, b)| a != b).count();
    assert!(off * 500 <= got.len(), "{what}: {off} of {} bytes differ", got.len());
    let (got, want) = (decode(dtype, got), decode(dtype, want));
    for (i, (a, b)) in got.iter().zip(&want).enumerate() {
        // Values are below 1.5 once they are turned.
        assert!(
            (a - b).abs() <= 1.5 * 1.01 / f64::from(parts),
            "{what}: element {i} is {a}, not {b}"
        );
    }
}

#[test]
fn a_rotation_writes_turned_keys_and_values_as_they_are() {
    let d = device();
    let mut rng = Rng(33);
    let cases = TYPES.into_iter().flat_map(|ty| CASES.map(|case| (ty, case)));
    for ((dtype, parts), (heads, e, rows, len, past, done)) in cases {
        let op = RopeTable {
            base: 1e4,
            dims: e as usize / 2,
            context: CAPACITY,
            scaling: RopeScaling::None,
        };
        let dims = [op.low_rows() + op.high_rows(), e / 4, 2];
        let table = weight(DType::F32, &dims, f32_bytes(&op.compute(None)));
        let row = |rng: &mut Rng, n: u64| input(&[rows, n], &rng.floats((rows * n) as usize));
        let operands = [
            row(&mut rng, 2 * heads * e),
            row(&mut rng, heads * e),
            exact(&mut rng, parts, rows, heads * e),
            table,
            cache(&mut rng, dtype, heads, CAPACITY, e),
            cache(&mut rng, dtype, heads, CAPACITY, e),
            control(past, len, done),
        ];
        for style in [RopeStyle::Adjacent, RopeStyle::Half] {
            let op = Op::from(RopeKvWrite { style, head_dim: e as usize, ring: false });
            let want = truth(&op, &operands);
            let got = run_op(&d, op, &operands);
            let what = format!("{dtype} {} {heads} heads of {e}, {len} of {rows}", style.name());
            let real = (len as u64 * 2 * heads * e) as usize;
            let q: Vec<f64> = floats(&want[0])[..real].iter().map(|&x| f64::from(x)).collect();
            assert_close(&what, &floats(&got[0])[..real], &q, 2e-6);
            assert_blocks(&what, (dtype, parts), &got[1], &want[1]);
            assert!(got[2] == want[2], "{what}: values");
        }
    }
}

#[test]
fn attention_reads_what_the_blocks_decode_to() {
    let d = device();
    let mut rng = Rng(34);
    // Tiles, wide groups, and heads of several sums to a thread.
    for (dtype, e, heads, kv_heads) in [
        (Q8_0, 64u64, 4u64, 2u64),
        (Q8_0, 64, 5, 1),
        (Q8_0, 128, 1, 1),
        (Q8_0, 128, 6, 2),
        (Q8_0, 192, 2, 1),
        (Q8_0, 256, 3, 3),
        (Q8_0, 512, 1, 1),
        (Q4_0, 64, 4, 2),
        (Q4_0, 128, 6, 2),
        (Q4_0, 192, 2, 1),
    ] {
        for (rows, len, past) in
            [(1u64, 1usize, 0u32), (1, 1, 64), (1, 1, 300), (5, 3, 62), (70, 65, 0), (40, 40, 280)]
        {
            let width = (heads * e) as usize;
            let operands = [
                input(&[rows, heads * e], &rng.floats(rows as usize * width)),
                cache(&mut rng, dtype, kv_heads, 320, e),
                cache(&mut rng, dtype, kv_heads, 320, e),
                control(past, len as u32, 0),
            ];
            let causal = Attention::causal(e as usize, 0.3);
            let capped = Attention { window: Some(40), softcap: Some(5.0), ..causal.clone() };
            let ring = Attention { ring: true, softcap: None, ..capped.clone() };
            let every = (dtype, e, heads) == (Q8_0, 64, 4);
            for op in first_of(if every { 3 } else { 1 }, [causal, capped, ring]) {
                // Positions of a ring of 320 rows, four times around.
                let mut operands = operands.clone();
                if op.ring {
                    operands[3] = control(past + 4 * 320, len as u32, 0);
                }
                let what = format!("{dtype} heads of {e} past {past} rows {rows} {:?}", op.window);
                let op = Op::from(op);
                let want = truth(&op, &operands);
                let got = run_op(&d, op, &operands);
                let want: Vec<f64> =
                    floats(&want[0])[..len * width].iter().map(|&x| f64::from(x)).collect();
                assert_close(&what, &floats(&got[0])[..len * width], &want, 5e-6);
            }
        }
    }
}

#[test]
fn every_byte_of_a_block_is_read_with_its_sign() {
    // From -128 on, and scales that are zero, subnormal, negative and large.
    let d = device();
    let mut rng = Rng(35);
    let scales = [0.0f32, 3e-7, -0.5, 7.0, 0.02];
    let sizes = [(64u64, 1u64), (64, 20), (128, 20), (192, 3)];
    for ((dtype, _), (e, rows)) in TYPES.into_iter().flat_map(|ty| sizes.map(|size| (ty, size))) {
        let mut blocks = || {
            let mut operand = cache(&mut rng, dtype, 1, 40, e);
            for (i, block) in operand.bytes.chunks_exact_mut(dtype.block_bytes()).enumerate() {
                block[..2].copy_from_slice(&half::f16::from_f32(scales[i % 5]).to_le_bytes());
                for (j, b) in block[2..].iter_mut().enumerate() {
                    *b = (128 + 7 * i + 8 * j) as u8;
                }
            }
            operand
        };
        let (k, v) = (blocks(), blocks());
        let q = input(&[rows, e], &rng.floats((rows * e) as usize));
        let operands = [q, k, v, control(17, rows as u32, 0)];
        let op = Op::from(Attention::causal(e as usize, 0.001));
        let want: Vec<f64> =
            floats(&truth(&op, &operands)[0]).iter().map(|&x| f64::from(x)).collect();
        let got = floats(&run_op(&d, op, &operands)[0]);
        assert_close(&format!("{dtype} heads of {e}, {rows} rows"), &got, &want, 5e-6);
    }
}

#[test]
fn heads_that_are_no_whole_words_are_refused() {
    let mut rng = Rng(36);
    let operands =
        [cache(&mut rng, Q8_0, 1, 4, 96), input(&[1, 96], &rng.floats(96)), control(0, 1, 0)];
    let e = run(&device(), &case(KvWrite::default(), &operands, Buffers::One)).unwrap_err();
    assert_eq!(e.what, "webgpu does not run kv_write: its caches of q8_0 have heads of whole 64");
}
