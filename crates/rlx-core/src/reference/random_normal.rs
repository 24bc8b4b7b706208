//! Normal random numbers.

use super::View;
use super::index::sizes;
use super::random_uniform::{UNIT, words};
use super::view::scalar_bytes;
use crate::error::Result;
use crate::math;
use crate::ops::RandomNormal;
use crate::types::DType;
use alloc::vec;
use alloc::vec::Vec;

pub(super) fn run(op: &RandomNormal, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
    let words = words(&op.dims, operands)?;
    let mut y = Vec::with_capacity(words.len());
    for pair in words.chunks(2) {
        let [a, b] = pair else { continue };
        let radius = math::sqrt(-2.0 * math::log(f64::from((a >> 8) + 1) * UNIT));
        let angle = 2.0 * core::f64::consts::PI * f64::from(b >> 8) * UNIT;
        y.extend([radius * math::cos(angle), radius * math::sin(angle)]);
    }
    y.truncate(sizes(&op.dims)?.iter().product());
    Ok(vec![scalar_bytes(DType::F32, &y)?])
}
