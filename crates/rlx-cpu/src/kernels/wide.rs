//! The numbers that sums are made in where a result is a sum that is rounded once: f64 for floats, i64, which
//! wraps, for integers.

use super::elementwise::layout::{integers, put_integers};
use half::{bf16, f16};
use rlx_core::types::DType;

/// A number that elements are widened to.
pub(super) trait Wide: Copy + Default {
    /// Widens elements. `bytes` has as many as `y`.
    fn read(dtype: DType, bytes: &[u8], y: &mut [Self]);
    /// Rounds to the type, once. `bytes` has room for as many elements as `x` has.
    fn write(dtype: DType, x: &[Self], bytes: &mut [u8]);
    /// The sum.
    fn plus(self, other: Self) -> Self;
}

impl Wide for f64 {
    fn read(dtype: DType, bytes: &[u8], y: &mut [f64]) {
        fn each<const N: usize>(bytes: &[u8], y: &mut [f64], f: impl Fn([u8; N]) -> f64) {
            y.iter_mut().zip(bytes.as_chunks::<N>().0).for_each(|(y, b)| *y = f(*b));
        }
        match dtype {
            DType::F16 => each(bytes, y, |b| f16::from_le_bytes(b).to_f64()),
            DType::BF16 => each(bytes, y, |b| bf16::from_le_bytes(b).to_f64()),
            _ => each(bytes, y, |b| f32::from_le_bytes(b).into()),
        }
    }

    fn write(dtype: DType, x: &[f64], bytes: &mut [u8]) {
        fn each<const N: usize>(x: &[f64], bytes: &mut [u8], f: impl Fn(f64) -> [u8; N]) {
            bytes.as_chunks_mut::<N>().0.iter_mut().zip(x).for_each(|(b, x)| *b = f(*x));
        }
        match dtype {
            DType::F16 => each(x, bytes, |x| f16::from_f64(x).to_le_bytes()),
            DType::BF16 => each(x, bytes, |x| bf16::from_f64(x).to_le_bytes()),
            _ => each(x, bytes, |x| (x as f32).to_le_bytes()),
        }
    }

    fn plus(self, other: f64) -> f64 {
        self + other
    }
}

impl Wide for i64 {
    fn read(dtype: DType, bytes: &[u8], y: &mut [i64]) {
        integers(dtype, bytes, y);
    }

    fn write(dtype: DType, x: &[i64], bytes: &mut [u8]) {
        put_integers(dtype, x, bytes);
    }

    fn plus(self, other: i64) -> i64 {
        self.wrapping_add(other)
    }
}
