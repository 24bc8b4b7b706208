//! The vocabulary and the chat template of a fixture.

use rlx_core::gguf::{HeaderReader, ModelFiles};
use rlx_core::models;
use rlx_core::text::VocabData;

/// The vocabulary and the chat template of a file's bytes.
pub fn vocabulary(file: &[u8]) -> (VocabData, Option<String>) {
    let mut reader = HeaderReader::new("fixture", None);
    reader.push(file).unwrap();
    let files = ModelFiles::new(vec![reader.into_header().unwrap()]).unwrap();
    let template = files.metadata.opt_str("tokenizer.chat_template").unwrap().map(String::from);
    (models::vocabulary(&files.metadata).unwrap(), template)
}
