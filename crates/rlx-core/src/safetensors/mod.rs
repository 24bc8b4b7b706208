//! safetensors: the header by pushed bytes, the index of a model in several files, and the JSON reader that
//! both need.
//!
//! A file is a u64 length, that many bytes of JSON, then the tensor data. The JSON maps names to
//! `{"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}`, offsets counted from the end of
//! the JSON, and `__metadata__` to strings. Shapes are row-major as they are. Tensor bytes are never
//! looked at.

mod index;
pub mod json;
mod packed;

pub use index::{FILES_MAX, files_of_index};
pub use packed::PACKED;

use crate::intake::Intake;
use crate::order;
use crate::types::{DType, Scalar};
use crate::{Code, Error, Result};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use json::{Json, type_name};

/// Bytes of JSON a header may have; the format's own limit.
pub const JSON_BYTES_MAX: u64 = 100_000_000;

const HINT_CUT: &str = "the file is incomplete; download it again";
const HINT_DAMAGED: &str = "the file is damaged; download or convert it again";

/// The header of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// `__metadata__`.
    pub metadata: BTreeMap<String, String>,
    /// The tensors, by name.
    pub tensors: BTreeMap<String, Tensor>,
    /// The byte where tensor data begins.
    pub data_start: u64,
}

/// One tensor of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// The element type; a format of blocks where [`PACKED`] says so.
    pub dtype: DType,
    /// The sizes in elements, row-major; none for a single number, 0 for no elements.
    pub shape: Vec<u64>,
    /// The first byte of the data, from the start of the file.
    pub offset: u64,
    /// Bytes of the data.
    pub bytes: u64,
}

/// Checks that no tensor is in two files of one model.
///
/// # Errors
/// `BadFile` naming the tensor.
pub fn check_apart(headers: &[Header]) -> Result<()> {
    let mut seen = BTreeSet::new();
    // One file alone has each name once.
    let several = headers.iter().filter(|_| headers.len() > 1);
    match several.flat_map(|header| header.tensors.keys()).find(|name| !seen.insert(*name)) {
        Some(name) => {
            let what = format!("tensor {name} is in two of the model's files");
            Err(Error::bad_file(what).hint("give the files of one model, each once"))
        }
        None => Ok(()),
    }
}

/// Reads the header of one safetensors file from bytes pushed in chunks of any size.
#[derive(Clone, Debug)]
pub struct HeaderReader(Intake<Header>);

impl HeaderReader {
    /// A reader for the file of that name (used in errors only). `file_bytes` is the file's size
    /// where the source knows it.
    pub fn new(file: &str, file_bytes: Option<u64>) -> Self {
        HeaderReader(Intake::new(file, file_bytes))
    }

    /// Takes the next bytes; `true` when the header is whole. Bytes after it are not kept.
    ///
    /// # Errors
    ///
    /// `BadFile` for a malformed header, `Unsupported` for an element type RLX lacks; each names
    /// the tensor or the byte. After an error every call gives it again.
    pub fn push(&mut self, bytes: &[u8]) -> Result<bool> {
        if !self.0.push(bytes)? {
            return Ok(true);
        }
        self.run().or_else(|error| self.0.fail(error))
    }

    /// The source has no more bytes.
    ///
    /// # Errors
    ///
    /// `BadFile` when the header or a tensor's data is cut off; `Io` when the file was said to be
    /// longer.
    pub fn eof(&mut self) -> Result<()> {
        self.0.end()?;
        let result = match &self.0.header {
            Some(header) => check_ranges(&self.0.file, header, self.0.file_bytes),
            None => self.run().map(|_| ()),
        };
        result.or_else(|error| self.0.fail(error))
    }

    /// The header, once [`push`](Self::push) has answered `true`.
    pub fn header(&self) -> Option<&Header> {
        self.0.header.as_ref()
    }

    /// The header by value.
    pub fn into_header(self) -> Option<Header> {
        self.0.header
    }

    fn error(&self, byte: u64, what: String, hint: &str) -> Error {
        Error::bad_file(what).at(format!("{}, byte {byte}", self.0.file)).hint(hint)
    }

    fn run(&mut self) -> Result<bool> {
        let Some(head) = self.0.buffer.first_chunk::<8>() else {
            return match self.0.file_bytes {
                Some(size) if size < 8 => {
                    let what = format!("not a safetensors file: it ends after {size} bytes");
                    Err(self.error(0, what, HINT_CUT))
                }
                _ => Ok(false),
            };
        };
        let json_bytes = u64::from_le_bytes(*head);
        if json_bytes > JSON_BYTES_MAX {
            let what = format!(
                "not a safetensors file: its header would have {json_bytes} bytes, at most {JSON_BYTES_MAX} are allowed"
            );
            return Err(self.error(0, what, "give a .safetensors file"));
        }
        let data_start = 8 + json_bytes;
        if let Some(size) = self.0.file_bytes
            && data_start > size
        {
            let what = format!(
                "the header of {json_bytes} bytes runs past the end of the file at byte {size}"
            );
            return Err(self.error(0, what, HINT_CUT));
        }
        // At most 100 MB, so it fits a usize of 32 bits.
        let Some(text) = self.0.buffer.get(8..data_start as usize) else { return Ok(false) };
        let json = Json::parse(text, &self.0.file, 8).map_err(|error| {
            if error.hint.is_empty() { error.hint(HINT_DAMAGED) } else { error }
        })?;
        let header = header(&self.0.file, &json, data_start)?;
        check_ranges(&self.0.file, &header, self.0.file_bytes)?;
        self.0.buffer = Vec::new();
        self.0.header = Some(header);
        Ok(true)
    }
}

fn header(file: &str, json: &Json, data_start: u64) -> Result<Header> {
    let Some(members) = json.as_object() else {
        let what = format!("the header is {}, expected an object", type_name(json));
        return Err(Error::bad_file(what).at(format!("{file}, byte 8")).hint(HINT_DAMAGED));
    };
    let mut metadata = BTreeMap::new();
    let mut tensors = BTreeMap::new();
    for (name, value) in members {
        if name == "__metadata__" {
            for (key, value) in value.as_object().into_iter().flatten() {
                // Values are strings by the format; others are nothing to us.
                if let Some(text) = value.as_str() {
                    metadata.insert(key.clone(), text.to_string());
                }
            }
            continue;
        }
        tensors.insert(name.clone(), tensor(file, name, value, data_start)?);
    }
    let mut header = Header { metadata, tensors, data_start };
    packed::read(file, &mut header)?;
    Ok(header)
}

fn tensor(file: &str, name: &str, json: &Json, data_start: u64) -> Result<Tensor> {
    let bad = |what: String| {
        Error::bad_file(format!("tensor {name}: {what}")).at(file).hint(HINT_DAMAGED)
    };
    let integers = |key: &str| -> Result<Vec<u64>> {
        let value = json.get(key).ok_or_else(|| bad(format!("{key} is missing")))?;
        value
            .as_array()
            .and_then(|items| items.iter().map(Json::as_u64).collect())
            .ok_or_else(|| bad(format!("{key} is no array of non-negative integers")))
    };
    if json.as_object().is_none() {
        return Err(bad(format!("its description is {}, expected an object", type_name(json))));
    }
    let type_text = json
        .get("dtype")
        .and_then(Json::as_str)
        .ok_or_else(|| bad("dtype is missing or no string".to_string()))?;
    let dtype = dtype(type_text).ok_or_else(|| {
        Error::new(Code::Unsupported, format!("tensor {name}: dtype {type_text} is not supported"))
            .at(file)
            .hint("convert the tensor to F64, F32, F16, BF16, I64, I32, I16, I8, U32, U8 or BOOL")
    })?;
    let mut shape = integers("shape")?;
    if type_text == COMPLEX {
        shape.push(2);
    }
    let offsets = integers("data_offsets")?;
    let &[begin, end] = offsets.as_slice() else {
        return Err(bad(format!("data_offsets has {} numbers, expected 2", offsets.len())));
    };
    let needed = shape
        .iter()
        .try_fold(1u64, |n, &dim| n.checked_mul(dim))
        .and_then(|n| n.checked_mul(dtype.bytes() as u64))
        .ok_or_else(|| bad(format!("shape {shape:?} of {type_text} overflows 64 bits")))?;
    let bytes = end
        .checked_sub(begin)
        .ok_or_else(|| bad(format!("its data ends at {end}, before it begins at {begin}")))?;
    if bytes != needed {
        let what = format!("its data has {bytes} bytes, {shape:?} of {type_text} has {needed}");
        return Err(bad(what));
    }
    // Both are below 2^63, being i64s of the JSON, and `data_start` is below 2^27.
    let dtype = DType::Scalar(dtype);
    Ok(Tensor { dtype, shape, offset: data_start + begin, bytes })
}

/// Complex numbers, which are read as pairs of f32: an axis more, of 2.
const COMPLEX: &str = "C64";

fn dtype(text: &str) -> Option<Scalar> {
    Some(match text {
        "F64" => Scalar::F64,
        "F32" | COMPLEX => Scalar::F32,
        "F16" => Scalar::F16,
        "BF16" => Scalar::Bf16,
        "I64" => Scalar::I64,
        "I32" => Scalar::I32,
        "I16" => Scalar::I16,
        "I8" => Scalar::I8,
        "U32" => Scalar::U32,
        "U8" => Scalar::U8,
        "BOOL" => Scalar::Bool,
        _ => return None,
    })
}

/// Tensors lie inside the file, when its size is known, and apart from each other.
fn check_ranges(file: &str, header: &Header, file_bytes: Option<u64>) -> Result<()> {
    let mut sorted: Vec<_> = header.tensors.iter().filter(|(_, t)| t.bytes > 0).collect();
    order::sort_by_key(&mut sorted, |(_, tensor)| tensor.offset);
    for pair in sorted.windows(2) {
        let [(early, a), (late, b)] = [pair[0], pair[1]];
        if a.offset + a.bytes > b.offset {
            return Err(Error::bad_file(format!(
                "tensor {late}: its data overlaps that of {early}"
            ))
            .at(file)
            .hint(HINT_DAMAGED));
        }
    }
    for (name, tensor) in sorted {
        let end = tensor.offset + tensor.bytes;
        if let Some(size) = file_bytes
            && end > size
        {
            let what =
                format!("tensor {name}: its data ends at byte {end}, the file at byte {size}");
            return Err(Error::bad_file(what).at(file).hint(HINT_CUT));
        }
    }
    Ok(())
}
