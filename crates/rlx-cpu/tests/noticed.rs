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
        // The last row that fits, and those just past it.
        for past in [13, 14, 15] {
            let x = f32s(&[4, 2 * e], &random.floats((4 * 2 * e) as usize));
            let operands = [old.clone(), x, control(past, 4, 0)];
            exact(&KvWrite.into(), &operands, 0, &format!("{dtype} from {past}"));
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
    exact(&op, &operands, 0, "without rows");
    let stats = to_f32s(&oracle(&op, &operands)[1]);
    assert!(stats.chunks(2).all(|s| s == [f32::NEG_INFINITY, 0.0]), "{stats:?}");
}

#[test]
fn of_two_largest_magnitudes_the_first_decides_the_sign() {
    for first in [3.0f32, -3.0] {
        let mut x = [0.5f32; 512];
        (x[7], x[200], x[300], x[301]) = (first, -first, -first, first);
        let op = Op::from(QuantizeRows { format: BlockFormat::Q8K });
        exact(&op, &[f32s(&[1, 512], &x)], 0, &format!("{first} first"));
    }
}
