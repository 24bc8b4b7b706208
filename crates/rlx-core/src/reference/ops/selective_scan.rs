//! The selective state space of Mamba, position by position.

use super::gated_delta_net::{carried, finish};
use crate::error::Result;
use crate::math;
use crate::ops::SelectiveScan;
use crate::reference::view::scalar_bytes;
use crate::reference::{Run, View, arity};
use alloc::vec;
use alloc::vec::Vec;

impl Run for SelectiveScan {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [x, delta, a, b, c, rest @ ..] = operands else { return Err(arity("selective_scan")) };
        let [channels, n] = a.dims()?;
        let sizes = x.sizes()?;
        let [batch @ .., s, _] = sizes.as_slice() else { return Err(arity("selective_scan")) };
        let (batch, s): (usize, usize) = (batch.iter().product(), *s);
        let (mut state, real) = carried(rest, batch * channels * n, s)?;
        let dtype = x.ty.dtype;
        let (x, delta, a) = (x.f64s()?, delta.f64s()?, a.f64s()?);
        let (b, c) = (b.f64s()?, c.f64s()?);
        let mut y = vec![0.0; x.len()];
        for (item, channel) in (0..batch * channels).map(|i| (i / channels, i % channels)) {
            let h = &mut state[(item * channels + channel) * n..][..n];
            for position in item * s..item * s + real {
                let at = position * channels + channel;
                for (i, h) in h.iter_mut().enumerate() {
                    let decay = math::exp(delta[at] * a[channel * n + i]);
                    *h = decay * *h + delta[at] * b[position * n + i] * x[at];
                    y[at] += c[position * n + i] * *h;
                }
            }
        }
        finish(scalar_bytes(dtype, &y)?, rest, &state)
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::SelectiveScan;
    use crate::reference::testing::*;
    use crate::types::DType;
    use alloc::vec::Vec;

    #[test]
    fn one_channel_of_one_number_follows_the_recurrence_by_hand() {
        // exp(-ln 2 * 1) = 1/2: h = 1 * 3 * 2 = 6, then 6 / 2 + 1 * 5 * 4 = 23.
        let column = |x: &[f32]| f32s(&[2, 1], x);
        let a = f32s(&[1, 1], &[-core::f32::consts::LN_2]);
        let op = SelectiveScan { state_size: 1, carry: false };
        let (x, delta) = (column(&[2.0, 4.0]), column(&[1.0, 1.0]));
        let (b, c) = (column(&[3.0, 5.0]), column(&[10.0, -1.0]));
        close(&run1(op, &[&x, &delta, &a, &b, &c]), &[60.0, -23.0]);
    }

    #[test]
    fn batches_are_apart_and_a_state_carries_over() {
        let (s, d, n) = (4, 3, 2);
        let (x, a) = (noise(2 * s * d, 1), noise(d * n, 2));
        let delta: Vec<f32> = noise(2 * s * d, 3).iter().map(|v| v.abs()).collect();
        let (b, c) = (noise(2 * s * n, 4), noise(2 * s * n, 5));
        let op = |carry| SelectiveScan { state_size: n, carry };
        let a = f32s(&[3, 2], &a);
        let cut = |x: &[f32], batch: usize, n: usize, from: usize, to: usize| {
            f32s(&[(to - from) as u64, n as u64], &x[(batch * s + from) * n..(batch * s + to) * n])
        };
        let both = run1(
            op(false),
            &[
                &f32s(&[2, 4, 3], &x),
                &f32s(&[2, 4, 3], &delta),
                &a,
                &f32s(&[2, 4, 2], &b),
                &f32s(&[2, 4, 2], &c),
            ],
        );
        for batch in 0..2 {
            let mut state = cache(DType::F32, &[3, 2], &[0.0; 6]);
            let mut y = Vec::new();
            for (from, to) in [(0, 3), (3, 4)] {
                let part = |v: &[f32], n| cut(v, batch, n, from, to);
                let out = run(
                    op(true),
                    &[&part(&x, d), &part(&delta, d), &a, &part(&b, n), &part(&c, n), &state],
                );
                y.extend(out[0].f32s());
                state = out[1].clone();
            }
            let expected: Vec<f64> =
                both[batch * 12..][..12].iter().map(|v| f64::from(*v)).collect();
            close(&y, &expected);
        }
    }

    #[test]
    fn operands_that_do_not_fit_are_named_with_their_shapes() {
        let x = f32s(&[2, 3], &[0.0; 6]);
        let a = f32s(&[3, 2], &[0.0; 6]);
        let (b, c) = (f32s(&[2, 2], &[0.0; 4]), f32s(&[2, 1], &[0.0; 2]));
        let op = SelectiveScan { state_size: 2, carry: false };
        assert_eq!(
            fails(op, &[&x, &x, &a, &b, &c]).what,
            "selective_scan: x is tensor<2x3xf32>, delta is tensor<2x3xf32>, a is tensor<3x2xf32>, \
             b is tensor<2x2xf32>, c is tensor<2x1xf32>; expected x and delta [.., S, D], a [D, 2], \
             b and c [.., S, 2]"
        );
    }
}
