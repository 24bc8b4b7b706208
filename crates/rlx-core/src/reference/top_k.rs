//! Where the largest elements stand.

use super::index::{around, sizes};
use super::sort::orders;
use super::view::word_bytes;
use super::{View, arity};
use crate::error::Result;
use crate::ops::TopK;
use alloc::vec;
use alloc::vec::Vec;

pub(super) fn run(op: &TopK, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
    let [x] = operands else { return Err(arity("top_k")) };
    let dims = sizes(&x.ty.shape)?;
    let around = around(&dims, dims.len().saturating_sub(1))?;
    let k = op.k as usize; // the type rule says at most the last axis
    let best = orders(x, around, true)?;
    let best = best.iter().flat_map(|order| order.iter().take(k).map(|&i| i as u32));
    Ok(vec![word_bytes(&best.collect::<Vec<u32>>())])
}
