//! Discrete Fourier transform of any length: a length splits at its smallest factor
//! (Cooley-Tukey), a prime is summed directly.

use crate::error::Result;
use crate::math;
use crate::ops::Fft;
use crate::reference::view::scalar_bytes;
use crate::reference::{Run, View, arity};
use crate::types::Type;
use alloc::vec;
use alloc::vec::Vec;

pub(crate) type Complex = (f64, f64);

impl Run for Fft {
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let [x] = operands else { return Err(arity("fft")) };
        let mut rows = rows(x)?;
        for row in &mut rows {
            let factor = self.factor(row.len() as u64);
            *row = transform(row, self.inverse);
            row.iter_mut().for_each(|v| *v = (v.0 * factor, v.1 * factor));
        }
        Ok(vec![bytes(x.ty, &rows)?])
    }
}

/// Rows of c64, or of floats as real and imaginary halves.
pub(crate) fn rows(x: &View<'_>) -> Result<Vec<Vec<Complex>>> {
    let (data, last) = (x.f64s()?, x.sizes()?.last().copied().unwrap_or(1));
    if x.ty.dtype.is_float() {
        let halves = |row: &[f64]| {
            let (re, im) = row.split_at(row.len() / 2);
            re.iter().copied().zip(im.iter().copied()).collect()
        };
        return Ok(data.chunks_exact(last).map(halves).collect());
    }
    let pairs = data.as_chunks::<2>().0;
    Ok(pairs.chunks_exact(last).map(|row| row.iter().map(|p| (p[0], p[1])).collect()).collect())
}

/// Rows as they are stored in a value of that type.
pub(crate) fn bytes(ty: &Type, rows: &[Vec<Complex>]) -> Result<Vec<u8>> {
    let flat: Vec<f64> = if ty.dtype.is_float() {
        let halves = |row: &Vec<Complex>| -> Vec<f64> {
            row.iter().map(|v| v.0).chain(row.iter().map(|v| v.1)).collect()
        };
        rows.iter().flat_map(halves).collect()
    } else {
        rows.iter().flatten().flat_map(|v| [v.0, v.1]).collect()
    };
    scalar_bytes(ty.dtype, &flat)
}

/// The transform without a factor.
pub(crate) fn transform(x: &[Complex], inverse: bool) -> Vec<Complex> {
    let n = x.len();
    let sign = if inverse { 1.0 } else { -1.0 };
    let root = |k: usize| {
        let angle = sign * 2.0 * core::f64::consts::PI * k as f64 / n as f64;
        (math::cos(angle), math::sin(angle))
    };
    let roots: Vec<Complex> = (0..n).map(root).collect();
    split(x, 0, 1, n, &roots)
}

/// The transform of `n` elements from `first` in steps of `step`, where `n * step` is the number of
/// roots.
fn split(x: &[Complex], first: usize, step: usize, n: usize, roots: &[Complex]) -> Vec<Complex> {
    if n <= 1 {
        return x.get(first).copied().into_iter().collect();
    }
    let factor = (2..).take_while(|f| f * f <= n).find(|f| n.is_multiple_of(*f)).unwrap_or(n);
    let length = n / factor;
    let parts: Vec<Vec<Complex>> =
        (0..factor).map(|i| split(x, first + i * step, step * factor, length, roots)).collect();
    let sum = |k: usize| {
        parts.iter().enumerate().fold((0.0, 0.0), |sum, (i, part)| {
            let ((a, b), (c, d)) = (part[k % length], roots[i * k % n * step]);
            (sum.0 + a * c - b * d, sum.1 + a * d + b * c)
        })
    };
    (0..n).map(sum).collect()
}

#[cfg(test)]
mod tests {
    use crate::ops::{Fft, FftNorm};
    use crate::reference::testing::*;
    use crate::types::{DType, Scalar};
    use alloc::vec::Vec;

    fn fft(inverse: bool, norm: FftNorm) -> Fft {
        Fft { inverse, norm }
    }

    #[test]
    fn every_length_is_the_direct_sum() {
        for n in [1usize, 2, 3, 4, 7, 12, 30, 64] {
            let x = noise(2 * n, n as u64);
            let y = run1(fft(false, FftNorm::Backward), &[&f32s(&[1, 2 * n as u64], &x)]);
            let sum = |k: usize, part: usize| -> f64 {
                let term = |j: usize| {
                    let angle = -2.0 * core::f64::consts::PI * (j * k) as f64 / n as f64;
                    let (a, b) = (f64::from(x[j]), f64::from(x[n + j]));
                    let (cos, sin) = (angle.cos(), angle.sin());
                    [a * cos - b * sin, a * sin + b * cos][part]
                };
                (0..n).map(term).sum()
            };
            let expected: Vec<f64> =
                (0..n).map(|k| sum(k, 0)).chain((0..n).map(|k| sum(k, 1))).collect();
            close(&y, &expected);
        }
    }

    #[test]
    fn complex_and_paired_rows_have_the_same_transform_and_the_inverse_undoes_it() {
        let pairs = f32s(&[6], &[1.0, 2.0, -1.0, 0.5, 0.0, 3.0]);
        let complex = floats(DType::Scalar(Scalar::C64), &[3], &[1.0, 0.5, 2.0, 0.0, -1.0, 3.0]);
        for norm in [FftNorm::Backward, FftNorm::Forward, FftNorm::Ortho] {
            let (a, b) =
                (run1(fft(false, norm), &[&pairs]), run(fft(false, norm), &[&complex])[0].clone());
            let b = b.view().f64s().unwrap();
            close(&a, &[b[0], b[2], b[4], b[1], b[3], b[5]]);
            let back = run1(fft(true, norm), &[&run(fft(false, norm), &[&pairs])[0]]);
            close(&back, &[1.0, 2.0, -1.0, 0.5, 0.0, 3.0]);
        }
        let y = run1(fft(false, FftNorm::Forward), &[&f32s(&[4], &[3.0, 5.0, 0.0, 0.0])]);
        close(&y, &[4.0, -1.0, 0.0, 0.0]);
    }

    #[test]
    fn rows_that_are_no_complex_numbers_are_refused() {
        let e = fails(fft(false, FftNorm::Ortho), &[&f32s(&[2, 3], &[0.0; 6])]);
        assert_eq!(
            e.what,
            "fft: x is tensor<2x3xf32>, expected rows of c64, or of floats as real and imaginary halves"
        );
        let e = fails(fft(false, FftNorm::Ortho), &[&u32s(&[2], &[0, 0])]);
        assert!(e.what.starts_with("fft: x is tensor<2xu32>"), "{e}");
    }
}
