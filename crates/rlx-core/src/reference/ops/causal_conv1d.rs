//! A convolution of each channel over the rows up to its own.

use super::gated_delta_net::finish;
use crate::error::Result;
use crate::ops::CausalConv1d;
use crate::reference::view::scalar_bytes;
use crate::reference::{Run, View, arity};
use alloc::vec;
use alloc::vec::Vec;

impl Run for CausalConv1d {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [x, w, state, ctl] = operands else { return Err(arity("causal_conv1d")) };
        let [rows, columns] = x.dims()?;
        let [channels, taps] = w.dims()?;
        let weights = w.f64s()?;
        let mut all = state.f64s()?;
        let (mut x_rows, mut behind) = (x.f64s()?, None);
        if self.gated {
            let part = |k: usize| {
                let rows = x_rows.chunks(columns.max(1));
                rows.flat_map(move |row| row[k * channels..][..channels].to_vec())
            };
            let before = part(0).zip(part(2)).map(|(b, x)| b * x).collect();
            behind = Some(part(1).collect::<Vec<f64>>());
            x_rows = before;
        }
        all.extend(x_rows);
        let mut y = vec![0.0; rows * channels];
        for (at, y) in y.iter_mut().enumerate() {
            let (i, c) = (at / channels, at % channels);
            let sum = (0..taps).map(|j| weights[c * taps + j] * all[(i + j) * channels + c]).sum();
            *y = self.act.map_or(sum, |f| f.eval(sum));
            if let Some(c) = &behind {
                *y *= c[at];
            }
        }
        let real = (ctl.control()?.len as usize).min(rows);
        let last = &all[real * channels..][..(taps - 1) * channels];
        finish(scalar_bytes(x.ty.dtype, &y)?, &[*state, *ctl], last)
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::{CausalConv1d, Unary};
    use crate::reference::testing::*;
    use crate::types::DType;
    use alloc::vec::Vec;

    /// Two channels, three taps, the state's rows (1, 2) and (3, 4).
    fn run_two_of_three(done: u32) -> Vec<Value> {
        let x = f32s(&[3, 2], &[5.0, 6.0, 7.0, 8.0, 90.0, 90.0]);
        let w = f32s(&[2, 3], &[1.0, 10.0, 100.0, -1.0, 0.0, 2.0]);
        let state = cache(DType::F32, &[2, 2], &[1.0, 2.0, 3.0, 4.0]);
        run(CausalConv1d::default(), &[&x, &w, &state, &control(7, 2, done)])
    }

    #[test]
    fn rows_follow_the_state_and_the_last_real_ones_become_it() {
        let got = run_two_of_three(0);
        close(&got[0].f32s()[..4], &[531.0, 10.0, 753.0, 12.0]);
        close(&got[1].f32s(), &[5.0, 6.0, 7.0, 8.0]);
    }

    #[test]
    fn a_control_block_that_is_done_keeps_the_state() {
        close(&run_two_of_three(1)[1].f32s(), &[1.0, 2.0, 3.0, 4.0]);
    }

    #[test]
    fn one_row_shifts_the_state_by_one() {
        let x = f32s(&[1, 1], &[4.0]);
        let w = f32s(&[1, 4], &[1.0, 1.0, 1.0, 1.0]);
        let state = cache(DType::F32, &[3, 1], &[1.0, 2.0, 3.0]);
        let op = CausalConv1d { act: Some(Unary::Relu), gated: false };
        let got = run(op, &[&x, &w, &state, &control(3, 1, 0)]);
        close(&got[0].f32s(), &[10.0]);
        close(&got[1].f32s(), &[2.0, 3.0, 4.0]);
    }

    #[test]
    fn gates_multiply_before_and_behind() {
        // b = 2, c = 3 and x = 5 of one channel: the row is 10, and the state's is 1.
        let x = f32s(&[1, 3], &[2.0, 3.0, 5.0]);
        let (w, state) = (f32s(&[1, 2], &[100.0, 1.0]), cache(DType::F32, &[1, 1], &[1.0]));
        let op = CausalConv1d { act: None, gated: true };
        let got = run(op.clone(), &[&x, &w, &state, &control(3, 1, 0)]);
        close(&got[0].f32s(), &[330.0]);
        close(&got[1].f32s(), &[10.0]);
        let x = f32s(&[1, 4], &[0.0; 4]);
        let e = fails(op, &[&x, &w, &state, &control(3, 1, 0)]);
        assert_eq!(e.what, "causal_conv1d: x is tensor<1x4xf32>; expected rows of three parts");
    }

    #[test]
    fn a_state_of_another_length_is_refused() {
        let (x, w) = (f32s(&[3, 2], &[0.0; 6]), f32s(&[2, 3], &[0.0; 6]));
        let state = cache(DType::F32, &[3, 2], &[0.0; 6]);
        let e = fails(CausalConv1d::default(), &[&x, &w, &state, &control(0, 3, 0)]);
        assert!(e.what.contains("a state f32 [K - 1, C]"), "{e}");
    }
}
