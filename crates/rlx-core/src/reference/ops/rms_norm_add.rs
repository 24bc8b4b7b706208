//! A root-mean-square norm of a branch, and the sum that it joins.

use super::rms_norm::normalise;
use crate::error::Result;
use crate::ops::RmsNormAdd;
use crate::reference::view::scalar_bytes;
use crate::reference::{Run, View, arity};
use alloc::vec;
use alloc::vec::Vec;

impl Run for RmsNormAdd {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [x, w, residual] = operands else { return Err(arity("rms_norm_add")) };
        let (mut y, w) = (x.f64s()?, w.f64s()?);
        for row in y.chunks_exact_mut(w.len().max(1)) {
            normalise(row, &w, self.eps, x.ty.dtype);
        }
        for (y, r) in y.iter_mut().zip(residual.f64s()?) {
            *y += r;
        }
        Ok(vec![scalar_bytes(x.ty.dtype, &y)?])
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::{Binary, RmsNorm, RmsNormAdd, Zip};
    use crate::reference::testing::*;
    use crate::types::DType;

    #[test]
    fn it_gives_the_bits_of_a_norm_and_a_sum() {
        for dtype in [DType::F32, DType::F16, DType::BF16] {
            let x = floats(dtype, &[2, 3, 4], &noise(24, 1));
            let (w, r) = (f32s(&[4], &noise(4, 2)), floats(dtype, &[2, 3, 4], &noise(24, 3)));
            let normed = run(RmsNorm { eps: 1e-5 }, &[&x, &w]);
            let sum = run(Zip { f: Binary::Add }, &[&r, &normed[0]]);
            assert_eq!(run(RmsNormAdd { eps: 1e-5 }, &[&x, &w, &r]), sum);
        }
    }

    #[test]
    fn a_residual_of_another_shape_is_refused() {
        let (x, w) = (f32s(&[2, 4], &[0.0; 8]), f32s(&[4], &[1.0; 4]));
        fails(RmsNormAdd { eps: 1e-5 }, &[&x, &w, &w]);
        fails(RmsNormAdd { eps: 1e-5 }, &[&x, &w]);
    }
}
