//! Floats of every type that kernels read as f64, where a result is a sum that is rounded once.

use half::{bf16, f16};
use rlx_core::types::DType;

/// Widens elements of a float type. `bytes` has as many as `y`.
pub(super) fn wide(dtype: DType, bytes: &[u8], y: &mut [f64]) {
    fn each<const N: usize>(bytes: &[u8], y: &mut [f64], f: impl Fn([u8; N]) -> f64) {
        y.iter_mut().zip(bytes.as_chunks::<N>().0).for_each(|(y, b)| *y = f(*b));
    }
    match dtype {
        DType::F16 => each(bytes, y, |b| f16::from_le_bytes(b).to_f64()),
        DType::BF16 => each(bytes, y, |b| bf16::from_le_bytes(b).to_f64()),
        _ => each(bytes, y, |b| f32::from_le_bytes(b).into()),
    }
}

/// Rounds to a float type, once. `bytes` has room for as many elements as `x` has.
pub(super) fn put_wide(dtype: DType, x: &[f64], bytes: &mut [u8]) {
    fn each<const N: usize>(x: &[f64], bytes: &mut [u8], f: impl Fn(f64) -> [u8; N]) {
        bytes.as_chunks_mut::<N>().0.iter_mut().zip(x).for_each(|(b, x)| *b = f(*x));
    }
    match dtype {
        DType::F16 => each(x, bytes, |x| f16::from_f64(x).to_le_bytes()),
        DType::BF16 => each(x, bytes, |x| bf16::from_f64(x).to_le_bytes()),
        _ => each(x, bytes, |x| (x as f32).to_le_bytes()),
    }
}
