//! The vocabulary and the chat template of a fixture, which may be the first shard of a model.

use rlx_core::gguf::HeaderReader;
use rlx_core::models;
use rlx_core::text::VocabData;

/// The vocabulary and the chat template of a file's bytes.
pub fn vocabulary(file: &[u8]) -> (VocabData, Option<String>) {
    let mut reader = HeaderReader::new("fixture", None);
    reader.push(file).unwrap();
    let metadata = reader.into_header().unwrap().metadata;
    let template = metadata.opt_str("tokenizer.chat_template").unwrap().map(String::from);
    (models::vocabulary(&metadata).unwrap(), template)
}
