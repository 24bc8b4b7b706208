//! Where the largest element stands; `argmin` uses it too.

use super::index::{around, sizes};
use super::view::word_bytes;
use super::{View, arity};
use crate::error::{Error, Result};
use crate::ops::ArgMax;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

pub(super) fn run(op: &ArgMax, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
    let [x] = operands else { return Err(arity("argmax")) };
    Ok(vec![best(x, op.axis, |new, old| new > old, |new, old| new > old)?])
}

/// The lowest index that beats all before it, for every place around the axis.
pub(super) fn best(
    x: &View<'_>,
    axis: usize,
    float: impl Fn(f64, f64) -> bool,
    int: impl Fn(i64, i64) -> bool,
) -> Result<Vec<u8>> {
    let around = around(&sizes(&x.ty.shape)?, axis)?;
    if around.1 == 0 {
        return Err(Error::bad_graph(format!("{}: axis {axis} has no elements", x.ty)));
    }
    let y = if x.ty.dtype.is_float() {
        // A NaN beats nothing, and any number beats it.
        walk(&x.f64s()?, around, |new, old| float(new, old) || (old.is_nan() && !new.is_nan()))
    } else {
        walk(&x.i64s()?, around, int)
    };
    Ok(word_bytes(&y))
}

fn walk<T: Copy>(
    x: &[T],
    (outer, n, inner): (usize, usize, usize),
    beats: impl Fn(T, T) -> bool,
) -> Vec<u32> {
    let mut y = Vec::new();
    if x.is_empty() {
        return y;
    }
    for o in 0..outer {
        for i in 0..inner {
            let at = |k: usize| x[(o * n + k) * inner + i];
            let first = (1..n).fold(0, |best, k| if beats(at(k), at(best)) { k } else { best });
            y.push(first as u32);
        }
    }
    y
}
