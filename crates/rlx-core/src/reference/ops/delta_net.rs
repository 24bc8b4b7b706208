//! A layer's gated delta net, of what its convolution and its projections give.

use super::gated_delta_net::{Sizes, Values, carried, finish};
use crate::error::Result;
use crate::math;
use crate::ops::{DeltaNet, Unary};
use crate::reference::view::scalar_bytes;
use crate::reference::{Run, View, arity};
use alloc::vec::Vec;

impl Run for DeltaNet {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [qkv, a, b, decay, dt, rest @ ..] = operands else { return Err(arity("delta_net")) };
        let [state, ..] = rest else { return Err(arity("delta_net")) };
        let [rows, columns] = qkv.dims()?;
        let [heads, n, width] = state.dims()?;
        let keys = self.key_heads * n;
        let (mut state, real) = carried(rest, heads * n * width, rows)?;
        let x = qkv.f64s()?;
        let part = |start: usize, len: usize| -> Vec<f64> {
            x.chunks(columns.max(1)).flat_map(|row| row[start..][..len].to_vec()).collect()
        };
        let unit = |mut x: Vec<f64>| {
            for head in x.chunks_mut(n.max(1)) {
                let square: f64 = head.iter().map(|v| v * v).sum();
                let length = math::sqrt(square + f64::from(self.eps));
                head.iter_mut().for_each(|v| *v /= length);
            }
            x
        };
        let (decay, dt) = (decay.f64s()?, dt.f64s()?);
        let of_head = decay.iter().zip(&dt).cycle();
        let g = a.f64s()?.into_iter().zip(of_head);
        let g = g.map(|(a, (decay, dt))| decay * Unary::Softplus.eval(a + dt)).collect();
        let beta = b.f64s()?.into_iter().map(|b| Unary::Sigmoid.eval(b)).collect();
        let values = Values {
            q: unit(part(0, keys)),
            k: unit(part(keys, keys)),
            v: part(2 * keys, heads * width),
            g,
            beta,
            wide_gate: false,
        };
        let sizes = Sizes { batch: 1, rows, real, k_heads: self.key_heads, heads, n, width };
        let y = values.go(&self.rule(), &sizes, &mut state);
        finish(scalar_bytes(qkv.ty.dtype, &y)?, rest, &state)
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::DeltaNet;
    use crate::reference::testing::*;
    use crate::types::DType;

    #[test]
    fn one_head_of_two_numbers_by_hand() {
        // Lengths 5 and 2 with eps: q = (0.6, 0.8), k = (1, 0) but for eps. softplus(0) = ln 2, so that
        // exp(-ln 2) = 1/2 decays; sigmoid(0) = 1/2.
        // M = (8, 2): kept = 8 / 2 = 4, d = (6 - 4) / 2 = 1, M = (4 + 1, 1), y = (0.6 * 5 + 0.8) / sqrt 2.
        let qkv = f32s(&[1, 5], &[3.0, 4.0, 2.0, 0.0, 6.0]);
        let zero = f32s(&[1, 1], &[0.0]);
        let (decay, dt) = (f32s(&[1], &[-1.0]), f32s(&[1], &[0.0]));
        let m = cache(DType::F32, &[1, 2, 1], &[8.0, 2.0]);
        let op = DeltaNet { key_heads: 1, state_size: 2, eps: 0.0, tiled: false };
        let got = run(op, &[&qkv, &zero, &zero, &decay, &dt, &m, &control(0, 1, 0)]);
        close(&got[0].f32s(), &[3.8 / 2f64.sqrt()]);
        close(&got[1].f32s(), &[5.0, 1.0]);
    }

    #[test]
    fn operands_that_do_not_fit_are_named_with_their_shapes() {
        let qkv = f32s(&[1, 6], &[0.0; 6]);
        let zero = f32s(&[1, 1], &[0.0]);
        let one = f32s(&[1], &[1.0]);
        let m = cache(DType::F32, &[1, 2, 1], &[8.0, 2.0]);
        let op = DeltaNet { key_heads: 1, state_size: 2, eps: 0.0, tiled: false };
        let e = fails(op, &[&qkv, &zero, &zero, &one, &one, &m, &control(0, 1, 0)]);
        let what = "delta_net: qkv is tensor<1x6xf32>, a is tensor<1x1xf32>, b is tensor<1x1xf32>, \
                    state is state<1x2x1xf32>; expected qkv [S, 2 * 1 * 2 + H * V], a and b [S, H], a \
                    state f32 [H, 2, V], and 1 heads that divide H";
        assert_eq!(e.what, what);
    }
}
