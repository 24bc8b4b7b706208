//! Lays GGUF version 3 out: the header's bytes, and where each tensor goes. [`Stream`](super::Stream)
//! writes such a file.

use super::value::{Array, Value};
use super::{ALIGNMENT_KEY, DEFAULT_ALIGNMENT, DIMS_MAX, NAME_BYTES_MAX, align_up};
use crate::types::{DType, to_ggml_id};
use crate::{Error, Result};
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// A tensor to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorSpec {
    /// The name, 1 to 63 bytes.
    pub name: String,
    /// The element type; one that ggml has.
    pub dtype: DType,
    /// 1 to 4 positive sizes, row-major.
    pub dims: Vec<u64>,
}

/// The layout of a file: its header's bytes, and where each tensor goes.
///
/// A file is [`header`](Self::header), then for each tensor in order its
/// [`bytes`](Self::bytes) and [`padding`](Self::padding) zeros. A shard is a file whose metadata has
/// the `split.*` keys.
#[derive(Clone, Debug)]
pub struct Writer {
    header: Vec<u8>,
    alignment: u32,
    ranges: Vec<(u64, u64)>, // offset from the start of the data, bytes
}

impl Writer {
    /// Lays out a file; pairs are written in the order given.
    ///
    /// # Errors
    ///
    /// `Usage` for a key or name given twice, a name or shape that GGUF cannot hold, a type that
    /// ggml lacks, or a `general.alignment` that is no u32 power of two.
    pub fn new(metadata: &[(String, Value)], tensors: &[TensorSpec]) -> Result<Self> {
        let mut alignment = DEFAULT_ALIGNMENT;
        let mut keys = BTreeSet::new();
        let mut header = Vec::new();
        header.extend_from_slice(b"GGUF");
        header.extend_from_slice(&3u32.to_le_bytes());
        header.extend_from_slice(&(tensors.len() as u64).to_le_bytes());
        header.extend_from_slice(&(metadata.len() as u64).to_le_bytes());
        for (key, value) in metadata {
            if !keys.insert(key) {
                return Err(Error::usage(format!("metadata key {key} is given twice")));
            }
            if key == ALIGNMENT_KEY {
                alignment = match value {
                    Value::U32(n) if n.is_power_of_two() => *n,
                    _ => {
                        return Err(Error::usage(format!(
                            "{ALIGNMENT_KEY} must be a u32 power of two"
                        )));
                    }
                };
            }
            put_string(&mut header, key);
            header.extend_from_slice(&value.kind().id().to_le_bytes());
            put_value(&mut header, value);
        }

        let mut names = BTreeSet::new();
        let mut ranges = Vec::with_capacity(tensors.len());
        let mut end = 0u64;
        for tensor in tensors {
            let name = &tensor.name;
            if name.is_empty() || name.len() > NAME_BYTES_MAX {
                return Err(Error::usage(format!(
                    "tensor name {name:?} has {} bytes, needed are 1 to {NAME_BYTES_MAX}",
                    name.len()
                )));
            }
            if !names.insert(name) {
                return Err(Error::usage(format!("tensor {name} is given twice")));
            }
            let dtype = tensor.dtype;
            let id = to_ggml_id(dtype)
                .ok_or_else(|| Error::usage(format!("tensor {name}: GGUF has no type {dtype}")))?;
            let bytes = tensor_bytes(dtype, &tensor.dims).ok_or_else(|| {
                Error::usage(format!(
                    "tensor {name}: GGUF cannot hold {:?} of {dtype}",
                    tensor.dims
                ))
            })?;
            let too_large = || Error::usage("the tensors are larger than a file can be");
            let offset = align_up(end, alignment).ok_or_else(too_large)?;
            end = offset.checked_add(bytes).ok_or_else(too_large)?;
            put_string(&mut header, name);
            header.extend_from_slice(&(tensor.dims.len() as u32).to_le_bytes());
            for dim in tensor.dims.iter().rev() {
                header.extend_from_slice(&dim.to_le_bytes());
            }
            header.extend_from_slice(&id.to_le_bytes());
            header.extend_from_slice(&offset.to_le_bytes());
            ranges.push((offset, bytes));
        }
        // A file without tensors, such as a vocabulary, has no data to align.
        if !tensors.is_empty() {
            header.resize(header.len().next_multiple_of(alignment as usize), 0);
        }
        Ok(Self { header, alignment, ranges })
    }

    /// The header with its padding: what goes before the first tensor. Unpadded when there is none.
    pub fn header(&self) -> &[u8] {
        &self.header
    }

    /// The number of tensors.
    pub fn tensors(&self) -> usize {
        self.ranges.len()
    }

    /// Bytes of tensor `i`.
    ///
    /// # Panics
    ///
    /// When there is no tensor `i`.
    pub fn bytes(&self, i: usize) -> u64 {
        self.ranges[i].1
    }

    /// The byte of the file where tensor `i` begins.
    ///
    /// # Panics
    ///
    /// When there is no tensor `i`.
    pub fn offset(&self, i: usize) -> u64 {
        self.header.len() as u64 + self.ranges[i].0
    }

    /// Zeros to write after tensor `i`, fewer than the alignment; the last tensor has them too.
    ///
    /// # Panics
    ///
    /// When there is no tensor `i`.
    pub fn padding(&self, i: usize) -> u64 {
        let alignment = u64::from(self.alignment);
        (alignment - self.ranges[i].1 % alignment) % alignment
    }

    /// Bytes of the whole file.
    pub fn file_bytes(&self) -> u64 {
        match self.ranges.len() {
            0 => self.header.len() as u64,
            n => self.offset(n - 1) + self.bytes(n - 1) + self.padding(n - 1),
        }
    }
}

/// Bytes of a tensor, row-major; `None` for a shape that GGUF or the type cannot hold.
pub(super) fn tensor_bytes(dtype: DType, dims: &[u64]) -> Option<u64> {
    if dims.is_empty() || dims.len() > DIMS_MAX {
        return None;
    }
    let elements = dims.iter().try_fold(1u64, |n, &dim| n.checked_mul(dim))?;
    if elements == 0 || elements > i64::MAX as u64 {
        return None;
    }
    let row = *dims.last()?;
    dtype.row_bytes(row)?.checked_mul(elements / row)
}

fn put_string(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u64).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn put_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::U8(v) => out.push(*v),
        Value::I8(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::U16(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::I16(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::U32(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::I32(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::U64(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::I64(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::F32(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::F64(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::Bool(v) => out.push(u8::from(*v)),
        Value::String(v) => put_string(out, v),
        Value::Array(array) => {
            out.extend_from_slice(&array.kind().id().to_le_bytes());
            out.extend_from_slice(&(array.len() as u64).to_le_bytes());
            put_elements(out, array);
        }
    }
}

fn put_elements(out: &mut Vec<u8>, array: &Array) {
    match array {
        Array::U8(v) => out.extend_from_slice(v),
        Array::I8(v) => out.extend(v.iter().flat_map(|v| v.to_le_bytes())),
        Array::U16(v) => out.extend(v.iter().flat_map(|v| v.to_le_bytes())),
        Array::I16(v) => out.extend(v.iter().flat_map(|v| v.to_le_bytes())),
        Array::U32(v) => out.extend(v.iter().flat_map(|v| v.to_le_bytes())),
        Array::I32(v) => out.extend(v.iter().flat_map(|v| v.to_le_bytes())),
        Array::U64(v) => out.extend(v.iter().flat_map(|v| v.to_le_bytes())),
        Array::I64(v) => out.extend(v.iter().flat_map(|v| v.to_le_bytes())),
        Array::F32(v) => out.extend(v.iter().flat_map(|v| v.to_le_bytes())),
        Array::F64(v) => out.extend(v.iter().flat_map(|v| v.to_le_bytes())),
        Array::Bool(v) => out.extend(v.iter().map(|v| u8::from(*v))),
        Array::Strings(v) => v.iter().for_each(|text| put_string(out, text)),
    }
}
