//! What small defects went through every other test: found by `npm run mutants`, noticed here.

use crate::common;
use common::*;
use rlx_core::ops::*;
use rlx_core::types::{BlockFormat, DType};

const Q8_0: DType = DType::Block(BlockFormat::Q8_0);

/// On every device exactly the oracle's bytes, from result `first` on.
fn exact(op: &Op, operands: &[Value], first: usize, what: &str) {
    let expected = oracle(op, operands);
    for device in devices() {
        let got = run_op(&device, op, operands);
        assert_eq!(got[first..], expected[first..], "{} {what}", op.name());
    }
}

#[test]
fn rows_past_the_capacity_are_left_out() {
    let mut random = Random(41);
    for (dtype, e) in [(DType::F32, 12), (DType::F16, 12), (Q8_0, 32)] {
        let old = cache(dtype, &[2, 16, e], &random.floats((2 * 16 * e) as usize));
        // The oracle refuses rows past the last position; a device writes those that fit.
        for past in [13u32, 14, 15, 16] {
            let x = f32s(&[4, 2 * e], &random.floats((4 * 2 * e) as usize));
            let of = |len| [old.clone(), x.clone(), control(past, len, 0)];
            let expected = oracle(&KvWrite::default().into(), &of(16 - past));
            for device in devices() {
                let got = run_op(&device, &KvWrite::default().into(), &of(4));
                assert_eq!(got, expected, "{dtype} from {past}");
            }
        }
    }
}

#[test]
fn a_step_without_rows_leaves_empty_splits() {
    let mut random = Random(42);
    let (e, splits) = (16u64, 3usize);
    let q = f32s(&[1, 4 * e], &random.floats(4 * e as usize));
    let mut rows = || cache(DType::F32, &[2, 800, e], &random.floats((2 * 800 * e) as usize));
    let operands = [q, rows(), rows(), control(600, 0, 0)];
    let whole = Attention::causal(e as usize, 0.25);
    let op = Op::from(AttentionSplit { whole, splits, least: 256 });
    for device in devices() {
        let [acc, stats] = run_op(&device, &op, &operands).try_into().unwrap();
        assert!(to_f32s(&acc).iter().all(|x| *x == 0.0), "sums of nothing");
        let stats = to_f32s(&stats);
        assert!(stats.chunks(2).all(|s| s == [f32::NEG_INFINITY, 0.0]), "{stats:?}");
    }
}

#[test]
fn of_two_largest_magnitudes_the_first_decides_the_sign() {
    for first in [3.0f32, -3.0] {
        let mut x = [0.5f32; 512];
        (x[7], x[200], x[300], x[301]) = (first, -first, -first, first);
        let op = Op::from(QuantizeRows::to(BlockFormat::Q8K));
        exact(&op, &[f32s(&[1, 512], &x)], 0, &format!("{first} first"));
    }
}
