//! A residual sum whose branch has a gate.

use crate::error::Result;
use crate::ops::GatedResidual;
use crate::reference::view::scalar_bytes;
use crate::reference::{Run, View, arity};
use alloc::vec;
use alloc::vec::Vec;

impl Run for GatedResidual {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [x, y, gate] = operands else { return Err(arity("gated_residual")) };
        let gate = repeated(gate, &x.sizes()?)?;
        let sum: Vec<f64> =
            x.f64s()?.iter().zip(y.f64s()?).zip(gate).map(|((x, y), gate)| x + gate * y).collect();
        Ok(vec![scalar_bytes(x.ty.dtype, &sum)?])
    }
}

/// The elements of `v`, repeated to a shape that it broadcasts to.
pub(crate) fn repeated(v: &View<'_>, dims: &[usize]) -> Result<Vec<f64>> {
    let (data, own) = (v.f64s()?, v.sizes()?);
    let total: usize = dims.iter().product();
    let element = |i: usize| {
        let (mut rest, mut at, mut step) = (i, 0, 1);
        for (k, &n) in dims.iter().rev().enumerate() {
            if let Some(&m) = own.len().checked_sub(k + 1).and_then(|j| own.get(j)) {
                at += if m == 1 { 0 } else { rest % n * step };
                step *= m;
            }
            rest /= n;
        }
        data[at]
    };
    Ok((0..total).map(element).collect())
}

#[cfg(test)]
mod tests {
    use crate::ops::GatedResidual;
    use crate::reference::testing::*;

    #[test]
    fn a_gate_repeats_over_rows_columns_or_everything() {
        let x = f32s(&[2, 2], &[1.0, 2.0, 3.0, 4.0]);
        let y = f32s(&[2, 2], &[10.0, 20.0, 30.0, 40.0]);
        let go = |dims: &[u64], gate: &[f32]| run1(GatedResidual, &[&x, &y, &f32s(dims, gate)]);
        assert_eq!(go(&[2], &[1.0, 0.5]), [11.0, 12.0, 33.0, 24.0]);
        assert_eq!(go(&[2, 1], &[1.0, 0.5]), [11.0, 22.0, 18.0, 24.0]);
        assert_eq!(go(&[], &[0.1]), [2.0, 4.0, 6.0, 8.0]);
        assert_eq!(go(&[2, 2], &[0.0, 1.0, 0.0, 1.0]), [1.0, 22.0, 3.0, 44.0]);
    }

    #[test]
    fn a_gate_that_would_make_the_result_larger_is_refused() {
        let x = f32s(&[1, 2], &[1.0, 2.0]);
        let e = fails(GatedResidual, &[&x, &x, &f32s(&[3, 2], &[0.0; 6])]);
        assert_eq!(
            e.what,
            "gated_residual: gate is tensor<3x2xf32>, it does not repeat to x, tensor<1x2xf32>"
        );
    }
}
