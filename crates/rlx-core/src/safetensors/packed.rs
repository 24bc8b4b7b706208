//! Packed tensors in a safetensors file, which has no element type for blocks.
//!
//! Such a tensor is stored as bytes, `[.., bytes of a row]` of `U8`. The string [`PACKED`] of the file's metadata is
//! a JSON object that says what the bytes are: `{"layer.weight": "q4_k"}`. `rlx quantize` writes such files.

use super::json::Json;
use super::{HINT_DAMAGED, Header, Tensor};
use crate::types::{DType, Scalar};
use crate::{Error, Result};
use alloc::format;
use alloc::string::String;

/// The key of the metadata that names packed tensors and their formats.
pub const PACKED: &str = "rlx.packed";

/// Gives packed tensors of a header their types and sizes.
pub(super) fn read(file: &str, header: &mut Header) -> Result<()> {
    let Some(text) = header.metadata.get(PACKED) else { return Ok(()) };
    let bad = |what: String| Error::bad_file(what).at(file).hint(HINT_DAMAGED);
    let json = Json::parse(text.as_bytes(), file, 0)?;
    let Some(members) = json.as_object() else {
        return Err(bad(format!("{PACKED} is no object")));
    };
    for (name, format) in members {
        let dtype = format.as_str().and_then(DType::from_name).filter(|d| d.is_block());
        let Some(dtype) = dtype else {
            return Err(bad(format!("{PACKED} has no format of blocks for tensor {name}")));
        };
        let Some(tensor) = header.tensors.get_mut(name) else {
            return Err(bad(format!("{PACKED} names {name}, and there is no such tensor")));
        };
        if !become_blocks(tensor, dtype) {
            let (was, shape) = (tensor.dtype, &tensor.shape);
            return Err(bad(format!("tensor {name} of {was} {shape:?} has no rows of {dtype}")));
        }
    }
    Ok(())
}

/// Whether bytes are rows of blocks, which they are then.
fn become_blocks(tensor: &mut Tensor, dtype: DType) -> bool {
    let block = dtype.block_bytes() as u64;
    let Some(row) = tensor.shape.last_mut() else { return false };
    if tensor.dtype != DType::Scalar(Scalar::U8) || *row % block != 0 {
        return false;
    }
    *row = (*row / block).saturating_mul(dtype.block_elements() as u64);
    tensor.dtype = dtype;
    // Blocks have more elements than bytes: a file may name more than 64 bits count.
    tensor.shape.iter().try_fold(1u64, |n, &dim| n.checked_mul(dim)).is_some()
}
