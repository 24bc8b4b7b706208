//! Rows of packed weights that a program returns, for executors that have ggml's blocks as they are in the file.

use crate::common::{device, random_weights, run_op, weight};
use crate::step::Rng;
use rlx_core::ops::{Op, Slice};
use rlx_core::reference::{self, View};
use rlx_core::types::{BlockFormat, DType};

#[test]
fn packed_rows_are_sliced_as_they_are() {
    let (d, mut rng) = (device(), Rng(60));
    for (format, k) in [(BlockFormat::Q4K, 256), (BlockFormat::Q8_0, 96), (BlockFormat::Mxfp4, 32)]
    {
        let dtype = DType::Block(format);
        let bytes = random_weights(&mut rng, dtype, 3 * 5, k as usize);
        let x = [weight(dtype, &[3, 5, k], bytes)];
        for (axis, start, len, step) in [(1, 2, 3, 1), (1, 1, 2, 2), (0, 2, 2, -2), (1, 4, 5, -1)] {
            let op = Slice { axis, start: u64::into(start), len: u64::into(len), step };
            let op = Op::from(op);
            let views = [View::new(&x[0].ty, &x[0].bytes)];
            let want = reference::run(&op, &views).expect("the reference slices rows");
            // A result is whole words.
            let same = run_op(&d, op, &x)[0].get(..want[0].len()) == Some(&want[0][..]);
            assert!(same, "{dtype}, axis {axis} from {start}");
        }
    }
}
