//! Weights that lie in planes on the device: rows of `q6_k` and `q8_0`, whose blocks of 210 and 34 bytes begin at any
//! even byte, are rearranged so that all that a kernel reads begins at a multiple of its own size.
//!
//! A row keeps its place and its bytes: the integers of all its blocks, then their scales; `planes.cuh` says where. The
//! loader puts rows as the file has them, and the device rearranges a weight once all of it is there
//! (`device/arrivals.rs`).

use super::{COMMON, word};
use rlx_core::Result;
use rlx_core::types::{BlockFormat, DType, Type};

/// Threads of a block, which is a row.
pub(crate) const THREADS: u32 = 128;
/// The longest row, in bytes: a block has one in shared memory.
const MOST: u64 = 40 << 10;

/// The decoder of rows of `k` elements of a type that lie in planes.
pub(crate) fn decoder(dtype: DType, k: u64) -> Option<String> {
    let name = match dtype {
        DType::Block(BlockFormat::Q6K) => "Q6KPlanes",
        DType::Block(BlockFormat::Q8_0) => "Q8_0Planes",
        _ => return None,
    };
    let bytes = dtype.row_bytes(k)?;
    let whole = k > 0 && k.is_multiple_of(256) && bytes.is_multiple_of(16) && bytes <= MOST;
    whole.then(|| format!("{name}<{k}u>"))
}

/// The elements of a weight's rows and how many rows it has, where they lie in planes.
pub(crate) fn rows(ty: &Type) -> Option<(u64, u64)> {
    let dims = ty.shape.static_dims().ok()?;
    let (&k, others) = dims.split_last()?;
    decoder(ty.dtype, k)?;
    Some((k, others.iter().product()))
}

/// The text that rearranges rows of `k` elements of a type, a block a row, in place.
///
/// # Errors
/// `Unsupported` for a row that 32 bits do not count.
pub(crate) fn source(dtype: DType, k: u64) -> Result<String> {
    let sixes = u8::from(dtype == DType::Block(BlockFormat::Q6K));
    let bytes = word(dtype.row_bytes(k).unwrap_or(0))?;
    let k = word(k)?;
    let sizes = format!("#define K {k}u\n#define ROW_BYTES {bytes}u\n#define SIXES {sixes}\n");
    Ok([COMMON, &sizes, include_str!("planes.cu")].concat())
}
