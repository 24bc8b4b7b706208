//! Root-mean-square norm.

use super::view::f32_bytes;
use super::{View, arity};
use crate::error::Result;
use crate::math;
use crate::ops::RmsNorm;
use alloc::vec;
use alloc::vec::Vec;

pub(super) fn run(op: &RmsNorm, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
    let [x, w] = operands else { return Err(arity("rms_norm")) };
    let [rows, width] = x.dims()?;
    let mut y = x.f32s()?;
    let w = w.f32s()?;
    for i in 0..rows {
        normalise(&mut y[i * width..][..width], &w, op.eps);
    }
    Ok(vec![f32_bytes(&y)])
}

/// One row, in place.
pub(super) fn normalise(row: &mut [f32], w: &[f32], eps: f32) {
    let squares: f64 = row.iter().map(|&v| f64::from(v) * f64::from(v)).sum();
    let inverse = 1.0 / math::sqrt(squares / row.len() as f64 + f64::from(eps));
    for (v, &w) in row.iter_mut().zip(w) {
        *v = (f64::from(*v) * inverse * f64::from(w)) as f32;
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use crate::ops::RmsNorm;

    #[test]
    fn a_row_is_divided_by_its_root_mean_square() {
        // mean([9, 16]) = 12.5 and mean([0, 1]) = 0.5
        let x = f32s(&[2, 2], &[3.0, 4.0, 0.0, 1.0]);
        let y = run1(RmsNorm { eps: 0.5 }, &[&x, &f32s(&[2], &[1.0, 2.0])]);
        let root = 13.0f64.sqrt();
        close(&y, &[3.0 / root, 8.0 / root, 0.0, 2.0]);
    }
}
