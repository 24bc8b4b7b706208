//! A parsed header, and the check that tensors lie inside their file and apart from each other.

use super::metadata::Metadata;
use super::{HINT_CUT, HINT_DAMAGED, align_up, place};
use crate::order;
use crate::types::DType;
use crate::{Error, Result};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Everything before the tensor data of one GGUF file.
#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    /// 2 or 3.
    pub version: u32,
    /// The multiple, a power of two, that tensor offsets have.
    pub alignment: u32,
    /// The key-value pairs, with the file's name.
    pub metadata: Metadata,
    /// The tensors in the file's order.
    pub tensors: Vec<TensorInfo>,
    /// The byte where tensor data begins.
    pub data_start: u64,
}

/// One tensor of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// The name, 1 to 63 bytes.
    pub name: String,
    /// The element type.
    pub dtype: DType,
    /// 1 to 4 positive sizes, row-major: `[out, in]` for a matmul weight.
    pub dims: Vec<u64>,
    /// The first byte of the data, from the start of the file.
    pub offset: u64,
    /// Bytes of the data.
    pub bytes: u64,
    /// The byte of the file where this description begins.
    pub at: u64,
}

impl TensorInfo {
    /// The number of elements.
    pub fn elements(&self) -> u64 {
        self.dims.iter().product() // the reader has checked that it fits
    }

    /// The byte of the number of dimensions.
    pub fn dims_len_at(&self) -> u64 {
        self.at + 8 + self.name.len() as u64
    }

    /// The byte of the first dimension.
    pub fn dims_at(&self) -> u64 {
        self.dims_len_at() + 4
    }

    /// The byte of the element type.
    pub fn type_at(&self) -> u64 {
        self.dims_at() + 8 * self.dims.len() as u64
    }

    /// The byte of the offset field.
    pub fn offset_at(&self) -> u64 {
        self.type_at() + 4
    }
}

impl Header {
    /// The tensor of that name.
    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        self.tensors.iter().find(|tensor| tensor.name == name)
    }

    /// Bytes of all tensors, padding left out.
    pub fn tensor_bytes(&self) -> u64 {
        self.tensors.iter().map(|tensor| tensor.bytes).sum()
    }

    /// Checks that no two tensors overlap and, when the size is known, that all lie inside the file.
    /// Gaps and bytes after the last tensor are allowed.
    pub(super) fn check_data(&self, file_bytes: Option<u64>) -> Result<()> {
        let file = self.metadata.file();
        let mut sorted: Vec<&TensorInfo> = self.tensors.iter().collect();
        order::sort_by_key(&mut sorted, |tensor| (tensor.offset, tensor.at));
        let mut previous: Option<&TensorInfo> = None;
        for tensor in sorted {
            let end = tensor.offset + tensor.bytes; // the reader has checked that it fits
            let previous_end = previous.map_or(self.data_start, |p| p.offset + p.bytes);
            if let Some(previous) = previous
                && tensor.offset < previous_end
            {
                // The one described later is blamed: files are written in order.
                let (early, late) =
                    if previous.at < tensor.at { (previous, tensor) } else { (tensor, previous) };
                return Err(Error::bad_file(format!(
                    "the data of {} overlaps the data of {}",
                    late.name, early.name
                ))
                .at(place(file, late.offset_at()))
                .hint(HINT_DAMAGED));
            }
            if let Some(size) = file_bytes
                && end > size
            {
                // A tensor that follows on the one before is cut off; any other is misplaced.
                let follows = align_up(previous_end, self.alignment);
                if tensor.offset <= size || follows == Some(tensor.offset) {
                    return Err(Error::bad_file(format!(
                        "the file ends at byte {size}, the data of {} at byte {end}",
                        tensor.name
                    ))
                    .at(place(file, size))
                    .hint(HINT_CUT));
                }
                return Err(Error::bad_file(format!(
                    "the data of {} begins at byte {}, past the end of the file at byte {size}",
                    tensor.name, tensor.offset
                ))
                .at(place(file, tensor.offset_at()))
                .hint(HINT_DAMAGED));
            }
            previous = Some(tensor);
        }
        Ok(())
    }
}
