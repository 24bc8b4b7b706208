//! Model families: one file each, one row in the registry.

mod llama;
mod registry;
mod tensors;

pub use llama::LlamaConfig;
pub use registry::{FAMILIES, Family, ModelConfig};
pub use tensors::{Naming, Tensors};
