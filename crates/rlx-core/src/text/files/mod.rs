//! Tokenizers from the files of a transformers folder: `tokenizer.json` and `tokenizer.model`.

mod json;
mod sentencepiece;
mod splits;
