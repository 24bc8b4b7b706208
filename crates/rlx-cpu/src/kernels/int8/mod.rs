//! Products of packed weights with int8 rows of x, panel by panel.
//!
//! ```text
//! y[row] = sum over blocks of dx (d sum over runs of scale (q - ZERO) . x - m sum over runs of least sum(x))
//! ```
//!
//! One row of x meets the packed words as they are unpacked, in registers. For several the panel is
//! unpacked once to bytes, scales and minima ([`Unpacked`]), and tiles of up to [`Lanes::TILE`] rows of x
//! go over that.
//!
//! bytes    a weight once; x from cache, once a panel
//! numerics integer sums within a run, f32 sums over runs in order; the same for any number of threads

mod rows;
mod tiles;
mod vector;

pub(crate) use rows::Rows;
pub(crate) use tiles::{Unpacked, decode, multiply, unpack};
pub(crate) use vector::mat_vec;

use crate::simd::Lanes;

/// Words of a run after which sums settle: before a lane is full. Signed bytes never are.
const fn steps<S: Lanes>(largest: i32) -> usize {
    let steps = S::MOST / (2 * 127 * if largest == 0 { 1 } else { largest });
    assert!(steps > 0, "a lane has room for one word's products");
    steps as usize
}
