//! Element types, dimensions, shapes.

mod binding;
mod block_format;
mod dim;
mod dim_text;
mod dtype;
mod shape;
#[cfg(feature = "quant")]
pub mod small_float;
mod value;

pub use binding::{DimBinding, infer_binding};
pub use block_format::{BlockFormat, GGML_REMOVED, from_ggml_id, to_ggml_id};
pub use dim::{BATCH, Binding, Dim, DimOp, OUT_ROWS, PAST_SEQ, SEQ, Symbol};
pub use dtype::{DType, Scalar};
pub use shape::{Kind, Shape, Type};
#[cfg(feature = "quant")]
pub use small_float::SmallFloat;
pub use value::ValueId;
