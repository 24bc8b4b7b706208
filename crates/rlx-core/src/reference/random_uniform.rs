//! Uniform random numbers; `random_normal` reads the same words.

use super::index::{room, sizes};
use super::view::scalar_bytes;
use super::{View, arity};
use crate::error::{Error, Result};
use crate::ops::RandomUniform;
use crate::sample::philox::philox4x32_10;
use crate::types::{DType, Shape};
use alloc::vec;
use alloc::vec::Vec;

/// 2^-24: a word's upper 24 bits become a number below 1.
pub(super) const UNIT: f64 = 1.0 / 16_777_216.0;

pub(super) fn run(op: &RandomUniform, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
    let n = sizes(&op.dims)?.iter().product();
    let words = words(&op.dims, operands)?;
    let y: Vec<f64> = words.iter().take(n).map(|w| f64::from(w >> 8) * UNIT).collect();
    Ok(vec![scalar_bytes(DType::F32, &y)?])
}

/// Words for a shape's elements: whole blocks of four.
pub(super) fn words(dims: &Shape, operands: &[View<'_>]) -> Result<Vec<u32>> {
    let [key] = operands else { return Err(arity("random")) };
    let &[seed_low, seed_high, low, high] = key.words().as_slice() else {
        return Err(Error::internal("random: a key has four words"));
    };
    let offset = u64::from(high) << 32 | u64::from(low);
    let n: usize = sizes(dims)?.iter().product();
    let mut out = room(n.next_multiple_of(4))?;
    for block in 0..n.div_ceil(4) as u64 {
        let at = offset.wrapping_add(block);
        out.extend(philox4x32_10([at as u32, (at >> 32) as u32, 0, 0], [seed_low, seed_high]));
    }
    Ok(out)
}
