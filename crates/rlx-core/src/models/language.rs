//! What a language model's files say beside its network: tokenizer, chat template, temperature.

use super::tokenizer::{chat_template, tokenizer, tool_template};
use super::tokenizer_files::TokenizerFiles;
use crate::error::Result;
use crate::gguf::ModelFiles;
use crate::text::{ChatTemplate, Tokenizer};

/// What a language model's files say beside its network.
pub struct Language {
    /// The tokenizer.
    pub tokenizer: Tokenizer,
    /// The chat template, or why there is none.
    pub template: Result<ChatTemplate>,
    /// The one for conversations with tools, where there is one beside it, or why it cannot be read.
    pub tool_template: Option<Result<ChatTemplate>>,
    /// The temperature that the files ask for.
    pub temperature: Option<f32>,
}

impl Language {
    /// Of a GGUF file or its shards.
    ///
    /// # Errors
    /// As [`tokenizer`]; `BadFile` for a key of another type.
    pub fn of_gguf(files: &ModelFiles) -> Result<Self> {
        let tokenizer = tokenizer(files)?;
        Ok(Language {
            template: chat_template(files, &tokenizer),
            tool_template: tool_template(files, &tokenizer),
            temperature: files.metadata.opt_f32("general.sampling.temp")?,
            tokenizer,
        })
    }

    /// Of the small files of a transformers folder.
    ///
    /// # Errors
    /// As [`TokenizerFiles::tokenizer`].
    pub fn of_folder(files: &TokenizerFiles) -> Result<Self> {
        let tokenizer = files.tokenizer()?;
        Ok(Language {
            template: files.chat_template(&tokenizer),
            tool_template: files.tool_template(&tokenizer),
            temperature: files.temperature(),
            tokenizer,
        })
    }
}
