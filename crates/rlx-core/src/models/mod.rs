//! Model families: one file each, one row in the registry.

mod llama;
mod registry;
mod tensors;
#[cfg(feature = "text")]
mod tokenizer;

pub use llama::LlamaConfig;
pub use registry::{FAMILIES, Family, ModelConfig};
pub use tensors::{Like, Naming, Tensors};
#[cfg(feature = "jinja")]
pub use tokenizer::chat_template;
#[cfg(feature = "text")]
pub use tokenizer::tokenizer;
