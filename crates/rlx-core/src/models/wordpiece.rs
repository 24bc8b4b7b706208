//! The WordPiece tokenizer of a GGUF file of an encoder.

use super::tokenizer::locate;
use crate::error::{Code, Result};
use crate::gguf::ModelFiles;
use crate::text::{WordPiece, WordPieceData};

use alloc::format;
use alloc::vec::Vec;

/// The WordPiece tokenizer of a GGUF file (`tokenizer.ggml.model` is `bert`).
///
/// # Errors
/// `BadFile` without tokens, or naming the key that is wrong; `Unsupported` for a kind of tokenizer
/// that is no WordPiece.
pub fn wordpiece(files: &ModelFiles) -> Result<WordPiece> {
    const MODEL: &str = "tokenizer.ggml.model";
    let meta = &files.metadata;
    let model = meta.str(MODEL)?;
    if model != "bert" {
        let mut e = meta.bad_value(MODEL, format!("tokenizer model `{model}` is no WordPiece"));
        e.code = Code::Unsupported;
        return Err(e.hint("text is encoded by WordPiece where tokenizer.ggml.model is `bert`"));
    }
    let tokens: Vec<&str> = meta.strings("tokenizer.ggml.tokens")?.iter().collect();
    let id = |name: &str| meta.opt_u32(&format!("tokenizer.ggml.{name}_token_id"));
    // Files of before the key are all of models without capitals.
    let lowercase = meta.opt_bool("tokenizer.ggml.normalizer.lowercase")?.unwrap_or(true);
    let kinds = meta.opt_i32s("tokenizer.ggml.token_type")?;
    let data = WordPieceData::from_gguf(&tokens, kinds, id("unknown")?, lowercase);
    let mut data = data.map_err(|e| locate(meta, e))?;
    // The key is spelled so.
    let sep = id("seperator")?.or(id("eos")?);
    data.cls = id("cls")?.or(id("bos")?).or(data.cls);
    data.sep = sep.or(data.sep);
    data.pad = id("padding")?.or(data.pad);
    if meta.opt_bool("tokenizer.ggml.add_bos_token")? == Some(false) {
        data.cls = None;
    }
    if meta.opt_bool("tokenizer.ggml.add_eos_token")? == Some(false) {
        data.sep = None;
    }
    WordPiece::new(data).map_err(|e| e.at(meta.file()))
}
