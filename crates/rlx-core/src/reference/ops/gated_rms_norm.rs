//! A root-mean-square norm times a function of a gate.

use crate::error::Result;
use crate::math;
use crate::ops::GatedRmsNorm;
use crate::reference::view::scalar_bytes;
use crate::reference::{Run, View, arity};
use alloc::vec::Vec;

impl Run for GatedRmsNorm {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [x, w, gate] = operands else { return Err(arity("gated_rms_norm")) };
        let (w, gate, mut y) = (w.f64s()?, gate.f64s()?, x.f64s()?);
        let width = w.len().max(1);
        for (row, gate) in y.chunks_mut(width).zip(gate.chunks(width)) {
            let mean = row.iter().map(|v| v * v).sum::<f64>() / width as f64;
            let scale = 1.0 / math::sqrt(mean + f64::from(self.eps));
            for ((v, w), gate) in row.iter_mut().zip(&w).zip(gate) {
                *v *= scale * w * self.act.eval(*gate);
            }
        }
        Ok(alloc::vec![scalar_bytes(x.ty.dtype, &y)?])
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::{GatedRmsNorm, Unary};
    use crate::reference::testing::*;

    #[test]
    fn each_row_is_normed_and_gated() {
        // Mean squares 12.5 + 3.5 = 4^2 and 0 + 3.5.
        let x = f32s(&[2, 2], &[3.0, -4.0, 0.0, 0.0]);
        let gate = f32s(&[2, 2], &[2.0, 1.0, 1.0, 1.0]);
        let op = GatedRmsNorm { eps: 3.5, act: Unary::Neg };
        let y = run1(op, &[&x, &f32s(&[2], &[1.0, 2.0]), &gate]);
        close(&y, &[-1.5, 2.0, 0.0, 0.0]);
    }

    #[test]
    fn a_gate_of_another_shape_is_named() {
        let (x, w) = (f32s(&[2, 2], &[1.0; 4]), f32s(&[2], &[1.0; 2]));
        let op = GatedRmsNorm { eps: 0.0, act: Unary::Silu };
        let e = fails(op, &[&x, &w, &f32s(&[4], &[1.0; 4])]);
        let what = "gated_rms_norm: gate is tensor<4xf32>, expected tensor<2x2xf32>";
        assert_eq!(e.what, what);
    }
}
