//! Element types, dimensions, shapes.

mod block_format;
mod dtype;

pub use block_format::{BlockFormat, GGML_REMOVED, from_ggml_id, to_ggml_id};
pub use dtype::{DType, Scalar};
