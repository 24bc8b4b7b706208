//! Model families. A family is a file, and its row in [`FAMILIES`] here.

mod bert;
mod checkpoint;
mod encoder;
#[cfg(feature = "text")]
mod encoder_files;
mod entries;
mod entry;
mod family;
mod keys;
mod llama;
mod model;
mod naming;
mod nomic_bert;
mod pooling;
mod registry;
mod rotary;
mod tensors;
#[cfg(feature = "text")]
mod tokenizer;
#[cfg(feature = "text")]
mod tokenizer_files;
mod transformers;

pub use bert::BertConfig;
pub use checkpoint::Checkpoint;
#[cfg(feature = "text")]
pub use encoder_files::{EmbedOptions, FolderTexts};
pub use entry::Entry;
pub use family::Family;
pub use keys::{Keys, Neutral};
pub use llama::{Layer, LlamaConfig};
pub use model::{ENCODE, Facts, Model, Task, USUAL_CONTEXT};
pub use naming::Naming;
pub use nomic_bert::NomicBertConfig;
pub use pooling::{Pooling, PoolingKind};
pub use registry::{open, presets};
pub use rotary::Rotary;
pub use tensors::Tensors;
#[cfg(feature = "jinja")]
pub use tokenizer::chat_template;
#[cfg(feature = "text")]
pub use tokenizer::{tokenizer, vocabulary, wordpiece};
#[cfg(feature = "text")]
pub use tokenizer_files::{TOKENIZER_FILES, TokenizerFiles};

/// Every family, by the row in its own file.
pub const FAMILIES: &[Family] = &[llama::FAMILY, bert::FAMILY, nomic_bert::FAMILY];
