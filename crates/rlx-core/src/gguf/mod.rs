//! GGUF: the header by pushed bytes, the shards of a model put together, and a writer.
//!
//! A GGUF file (little-endian, versions 2 and 3) is, in order:
//!
//! ```text
//! "GGUF"  u32 version  u64 tensors  u64 pairs        24 bytes
//! pairs   string key, u32 type, value                a string is u64 length + bytes
//! infos   string name, u32 n, n x u64 dims, u32 type, u64 offset
//! data    from the next multiple of general.alignment (32 when absent)
//! ```
//!
//! The file's dims go from the fastest axis to the slowest; [`TensorInfo::dims`] is row-major, so a
//! matmul weight is `[out, in]`. Nothing here opens a file: [`HeaderReader`] takes bytes in chunks
//! of any size, checks every count before it allocates, and says at which byte a file is wrong.
//! Version 1 and big-endian files are refused by name. Tensor bytes are never looked at.

mod cursor;
mod fields;
mod header;
mod metadata;
mod reader;
mod shards;
mod stream;
mod value;
mod writer;

pub(crate) use fields::looks_like;
pub use header::{Header, TensorInfo};
pub use metadata::{Entry, Metadata};
pub use reader::{HeaderReader, Progress};
pub use shards::ModelFiles;
pub use stream::{Sink, Stream};
pub use value::{Array, Strings, Value};
pub use writer::{TensorSpec, Writer};

use alloc::format;
use alloc::string::String;

/// The multiple that tensor offsets have when `general.alignment` is absent.
pub const DEFAULT_ALIGNMENT: u32 = 32;
/// The key that overrides [`DEFAULT_ALIGNMENT`].
pub const ALIGNMENT_KEY: &str = "general.alignment";
/// Bytes a tensor's name may have; ggml keeps 64 with the closing zero.
pub const NAME_BYTES_MAX: usize = 63;
/// Dimensions a tensor may have.
pub const DIMS_MAX: usize = 4;
/// Bytes a key may have.
const KEY_BYTES_MAX: u64 = 65535;
/// Bytes of magic, version and the two counts.
const HEAD_BYTES: u64 = 24;

const HINT_DAMAGED: &str = "the file is damaged; download or convert it again";
const HINT_CUT: &str = "the file is incomplete; download it again";
/// Where a count is wrong or the file is short: the bytes do not say which.
const HINT_PAST_END: &str = "the file is damaged or incomplete; download it again";

/// A place in a file as errors name it.
fn place(file: &str, byte: u64) -> String {
    format!("{file}, byte {byte}")
}

/// `n` rounded up to a multiple of `alignment`, a power of two; `None` past 64 bits.
fn align_up(n: u64, alignment: u32) -> Option<u64> {
    let mask = u64::from(alignment) - 1;
    Some(n.checked_add(mask)? & !mask)
}
