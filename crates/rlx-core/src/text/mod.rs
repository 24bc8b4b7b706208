//! Text to token ids and back: vocabularies, tokenizers of several kinds, streaming text, chat templates.
//!
//! ```text
//! messages ─ template ─▶ text ─ special tokens cut out ─▶ normalized ─▶ words ─▶ merges or best path ─▶ ids
//! ids ─▶ bytes ─ stream: whole characters, stop strings ─▶ text
//! ```
//!
//! A [`Tokenizer`] is built from [`VocabData`], plain values that any file format can fill in: GGUF's
//! metadata, `tokenizer.json`, `tokenizer.model`. It is byte-level BPE, SentencePiece's BPE or Unigram.
//! Encoders have [`WordPiece`].

mod bpe;
mod charsmap;
#[cfg(feature = "vision")]
mod clip;
mod files;
mod prefixes;
mod pretokenize;
mod sentencepiece;
mod specials;
mod stream;
#[cfg(feature = "jinja")]
mod template;
mod tokenizer;
mod unicode;
// Some are WordPiece's alone.
#[cfg_attr(not(feature = "encoders"), allow(dead_code))]
mod unicode_tables;
mod unigram;
mod vocab;
#[cfg(feature = "encoders")]
mod wordpiece;

#[cfg(feature = "vision")]
pub use clip::ClipTokenizer;
#[cfg(feature = "encode")]
pub use pretokenize::pretokenizer_like;
pub use pretokenize::words;
pub use specials::TokenRule;
pub use stream::TextStream;
#[cfg(feature = "jinja")]
pub use template::{
    ChatTemplate, Message, RenderOptions, Rendered, Segment, TemplateValue, encode_chat,
};
pub use tokenizer::{Special, Tokenizer};
pub use vocab::{BlankRuns, LeadingBlank, VocabData};
#[cfg(feature = "encoders")]
pub use wordpiece::{WordPiece, WordPieceData};
