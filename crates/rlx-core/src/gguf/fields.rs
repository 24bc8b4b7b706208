//! The fields of a header: magic, version, counts, scalar values, tensor descriptions.

use super::cursor::{Cursor, Step};
use super::header::TensorInfo;
use super::value::{Kind, Value};
use super::writer::tensor_bytes;
use super::{DIMS_MAX, HEAD_BYTES, HINT_CUT, HINT_PAST_END, NAME_BYTES_MAX, place};
use crate::types::{DType, GGML_REMOVED, from_ggml_id};
use crate::{Code, Error, Result};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// More tensors or pairs than any file has; the limit where the file's size is unknown.
const COUNT_MAX: u64 = u32::MAX as u64;

/// Little-endian numbers, packed.
pub(super) fn numbers<const N: usize, T>(
    bytes: &[u8],
    read: fn([u8; N]) -> T,
) -> impl Iterator<Item = T> {
    bytes.as_chunks::<N>().0.iter().map(move |chunk| read(*chunk))
}

/// A bool of `key`; the bytes 0 and 1 only.
pub(super) fn bool_of(cursor: &Cursor<'_>, byte: u8, at: u64, key: &str) -> Result<bool> {
    match byte {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(cursor.damaged(at, format!("bool {key} is {byte}, needed is 0 or 1"))),
    }
}

/// A value of a fixed size.
pub(super) fn scalar(cursor: &mut Cursor<'_>, kind: Kind, key: &str) -> Step<Value> {
    let what = || format!("the value of {key}");
    let at = cursor.at();
    Ok(match kind {
        Kind::U8 => Value::U8(u8::from_le_bytes(cursor.array(what)?)),
        Kind::I8 => Value::I8(i8::from_le_bytes(cursor.array(what)?)),
        Kind::U16 => Value::U16(u16::from_le_bytes(cursor.array(what)?)),
        Kind::I16 => Value::I16(i16::from_le_bytes(cursor.array(what)?)),
        Kind::U32 => Value::U32(u32::from_le_bytes(cursor.array(what)?)),
        Kind::I32 => Value::I32(i32::from_le_bytes(cursor.array(what)?)),
        Kind::U64 => Value::U64(u64::from_le_bytes(cursor.array(what)?)),
        Kind::I64 => Value::I64(i64::from_le_bytes(cursor.array(what)?)),
        Kind::F32 => Value::F32(f32::from_le_bytes(cursor.array(what)?)),
        Kind::F64 => Value::F64(f64::from_le_bytes(cursor.array(what)?)),
        Kind::Bool => {
            let [byte] = cursor.array(what)?;
            Value::Bool(bool_of(cursor, byte, at, key)?)
        }
        // The caller reads these two itself.
        Kind::String | Kind::Array => {
            return Err(Error::internal(format!("{key} is no scalar")).into());
        }
    })
}

/// The magic; what is often given in a GGUF file's place is named.
pub(super) fn magic(cursor: &mut Cursor<'_>) -> Step<()> {
    if let Some(size) = cursor.size
        && size < 4
    {
        let what = format!("not a GGUF file: it ends after {size} bytes");
        let error = Error::bad_file(what).at(place(cursor.file, 0)).hint(HINT_CUT);
        return Err(error.into());
    }
    let magic: [u8; 4] = cursor.array(|| "the magic".into())?;
    let error = match &magic {
        b"GGUF" => return Ok(()),
        other => match looks_like(other) {
            Some((what, hint)) => {
                Error::bad_file(format!("not a GGUF file: it looks like {what}")).hint(hint)
            }
            None => {
                let magic = magic.escape_ascii();
                Error::bad_file(format!("not a GGUF file: its magic is \"{magic}\", not \"GGUF\""))
                    .hint("give a .gguf file, or convert the model to GGUF")
            }
        },
    };
    Err(error.at(place(cursor.file, 0)).into())
}

/// What is often given in the place of a file of weights, by its first bytes: what it looks like, and what to do.
pub(crate) fn looks_like(magic: &[u8; 4]) -> Option<(&'static str, &'static str)> {
    Some(match magic {
        b"tjgg" => ("a GGJT file, the format before GGUF", "convert the model to GGUF"),
        b"fmgg" | b"lmgg" => ("a GGML file, a format before GGUF", "convert the model to GGUF"),
        b"PK\x03\x04" => {
            ("a zip archive, perhaps a PyTorch checkpoint", "convert it to GGUF or safetensors")
        }
        b"<!DO" | b"<!do" | b"<htm" | b"<HTM" => {
            ("an HTML page", "check the URL: the server answered with a page")
        }
        b"vers" => ("a Git LFS pointer", "fetch the file itself: git lfs pull"),
        _ => return None,
    })
}

/// The version: 2 or 3.
pub(super) fn version(cursor: &mut Cursor<'_>) -> Step<u32> {
    let at = cursor.at();
    let version = cursor.u32(|| "the version".into())?;
    let error = match version {
        2 | 3 => return Ok(version),
        0 => return Err(cursor.damaged(at, "GGUF version 0 does not exist".into()).into()),
        1 => Error::new(Code::Unsupported, "GGUF version 1 is not supported, 2 and 3 are")
            .hint("convert the model again with a current converter"),
        // A version in the upper bytes only: the number was written the other way round.
        _ if version & 0xffff == 0 => Error::new(
            Code::Unsupported,
            format!("version 0x{version:08x}: a big-endian GGUF file is not supported"),
        )
        .hint("convert the model again to little-endian GGUF"),
        _ => Error::new(
            Code::Unsupported,
            format!("GGUF version {version} is newer than the versions 2 and 3 that RLX reads"),
        )
        .hint("update RLX, or convert the model to GGUF version 3"),
    };
    Err(error.at(place(cursor.file, at)).into())
}

/// A count of things of at least `bytes_min` bytes each.
pub(super) fn count(cursor: &mut Cursor<'_>, name: &str, bytes_min: u64) -> Step<u64> {
    let at = cursor.at();
    let count = cursor.u64(|| format!("the {name}"))?;
    let most = match cursor.size {
        Some(size) => size.saturating_sub(HEAD_BYTES) / bytes_min,
        None => COUNT_MAX,
    };
    if count > most {
        let what = match cursor.size {
            Some(size) => format!("{name} {count} is more than a file of {size} bytes can hold"),
            None => format!("{name} {count} is out of range"),
        };
        return Err(cursor.damaged(at, what).hint(HINT_PAST_END).into());
    }
    Ok(count)
}

/// One tensor description; its `offset` is still relative to the start of the data.
pub(super) fn tensor_info(cursor: &mut Cursor<'_>, index: usize) -> Step<TensorInfo> {
    let at = cursor.at();
    let name =
        cursor.string(|| format!("the name of tensor {index}"), NAME_BYTES_MAX as u64)?.to_string();
    if name.is_empty() {
        return Err(cursor.damaged(at, format!("tensor {index} has an empty name")).into());
    }
    let dims_len_at = cursor.at();
    let n_dims = cursor.u32(|| format!("the dimensions of {name}"))?;
    if n_dims == 0 || n_dims as usize > DIMS_MAX {
        let what = format!("tensor {name} has {n_dims} dimensions, needed are 1 to {DIMS_MAX}");
        return Err(cursor.damaged(dims_len_at, what).into());
    }
    let dims_at = cursor.at();
    let mut dims = Vec::with_capacity(n_dims as usize);
    for axis in 0..n_dims {
        let dim_at = cursor.at();
        let dim = cursor.u64(|| format!("the dimensions of {name}"))?;
        if dim == 0 || dim > i64::MAX as u64 {
            // As a signed number: that is how a converter's fault looks.
            let what = format!("dimension {axis} of tensor {name} is {}", dim as i64);
            return Err(cursor.damaged(dim_at, what).into());
        }
        dims.push(dim);
    }
    dims.reverse();
    let elements = dims.iter().try_fold(1u64, |n, &dim| n.checked_mul(dim));
    if elements.is_none_or(|n| n > i64::MAX as u64) {
        let what = format!("tensor {name} has more than 2^63 elements: {dims:?}");
        return Err(cursor.damaged(dims_at, what).into());
    }
    let type_at = cursor.at();
    let id = cursor.u32(|| format!("the type of {name}"))?;
    let dtype = tensor_type(cursor, &name, id, type_at)?;
    let Some(bytes) = tensor_bytes(dtype, &dims) else {
        let row = dims[dims.len() - 1]; // 1 to 4 dims, checked above
        let per = dtype.block_elements() as u64;
        let what = if row % per != 0 {
            format!("tensor {name} has rows of {row} elements, {dtype} needs a multiple of {per}")
        } else {
            format!("tensor {name} has more than 2^64 bytes: {dims:?} of {dtype}")
        };
        return Err(cursor.damaged(type_at, what).into());
    };
    let offset = cursor.u64(|| format!("the offset of {name}"))?;
    Ok(TensorInfo { name, dtype, dims, offset, bytes, at })
}

fn tensor_type(cursor: &Cursor<'_>, name: &str, id: u32, at: u64) -> Result<DType> {
    if let Some(dtype) = from_ggml_id(id) {
        return Ok(dtype);
    }
    let unsupported = |what: String, hint: &str| {
        Err(Error::new(Code::Unsupported, what).at(place(cursor.file, at)).hint(hint))
    };
    match GGML_REMOVED.iter().find(|row| row.0 == id) {
        Some((_, removed)) => unsupported(
            format!("tensor {name} has type {id} ({removed}), which ggml has removed"),
            "quantise the original model again with a current converter",
        ),
        None => unsupported(
            format!("tensor {name} has the unknown type {id}"),
            "the file is damaged or newer than this RLX: update RLX or download it again",
        ),
    }
}
