//! Weights that lie in planes on the device: rows of `q6_k`, whose blocks of 210 bytes start at any two bytes, are
//! rearranged so that all that a kernel reads starts at a multiple of 16.
//!
//! A row keeps its place and its bytes: `ql` of all its blocks, then `qh`, the scales, and `d`. The loader puts rows
//! as the file has them, and the device rearranges a weight once all of it is there (`device/planes.rs`).

use super::emit::fill;
use super::{Access, BindingResource, Kernel, fold, word};
use rlx_core::Result;
use rlx_core::types::{BlockFormat, DType, Type};

/// Blocks of rows whose bytes are whole sixteens.
const WHOLE: u64 = 8;
/// Blocks of the longest row that the 16 KiB of a workgroup's memory hold.
const MOST: u64 = 72;

/// Whether rows of `k` elements of a type lie in planes.
pub fn has(dtype: DType, k: u64) -> bool {
    let blocks = k / 256;
    dtype == DType::Block(BlockFormat::Q6K)
        && k.is_multiple_of(256)
        && blocks.is_multiple_of(WHOLE)
        && (1..=MOST).contains(&blocks)
}

/// The elements of a weight's rows and how many it has, where they lie in planes.
pub fn rows(ty: &Type) -> Option<(u64, u64)> {
    let dims = ty.shape.static_dims().ok()?;
    let (&k, others) = dims.split_last()?;
    has(ty.dtype, k).then(|| (k, others.iter().product()))
}

/// The kernel that rearranges rows of `k` elements of a buffer: so many from a byte on.
///
/// # Errors
/// `Internal` beyond 32 bits, `Unsupported` for more rows than a launch has workgroups.
pub fn kernel(k: u64, first: u64, rows: u64) -> Result<Kernel> {
    Ok(Kernel {
        wgsl: fill(wgsl!("planes.wgsl"), &[("k", &k.to_string())]),
        entry: "planes",
        memory: vec![(BindingResource::Weights(0), Access::ReadWrite)],
        words: vec![word(first / 4)?, word(rows)?],
        groups: fold(rows)?,
        form: None,
    })
}
