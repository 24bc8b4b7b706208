//! The tokenizer and the chat template that a GGUF file carries.

use crate::error::{Error, Result};
use crate::gguf::{Metadata, ModelFiles};
#[cfg(feature = "jinja")]
use crate::text::ChatTemplate;
use crate::text::{BlankRuns, LeadingBlank, TokenRule, Tokenizer, VocabData};
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// The tokenizer of a GGUF file.
///
/// # Errors
/// `BadFile` without tokens, or naming the key that is wrong; `Unsupported` for a kind of tokenizer
/// this version does not have.
pub fn tokenizer(files: &ModelFiles) -> Result<Tokenizer> {
    let meta = &files.metadata;
    Tokenizer::new(vocabulary(meta)?).map_err(|e| locate(meta, e))
}

/// What the metadata of a GGUF file says about its tokenizer.
///
/// # Errors
/// `BadFile` without tokens, or for a key of another type.
pub fn vocabulary(meta: &Metadata) -> Result<VocabData> {
    let Some(tokens) = meta.opt_strings("tokenizer.ggml.tokens")? else {
        return Err(Error::bad_file("the file has no tokenizer (tokenizer.ggml.tokens)")
            .at(meta.file())
            .hint("use a GGUF that its converter gave a vocabulary"));
    };
    let strings = |key: &str| -> Result<Vec<String>> {
        Ok(meta
            .opt_strings(key)?
            .map(|s| s.iter().map(ToString::to_string).collect())
            .unwrap_or_default())
    };
    let flag = |name: &str| meta.opt_bool(&alloc::format!("tokenizer.ggml.{name}"));
    let id = |name: &str| meta.opt_u32(&alloc::format!("tokenizer.ggml.{name}_token_id"));
    let model: String = meta.str("tokenizer.ggml.model")?.into();
    // llama.cpp looks at the key for these two kinds alone.
    let blank = flag("add_space_prefix")?.filter(|_| matches!(model.as_str(), "llama" | "t5"));
    let there = if model == "t5" { LeadingBlank::Missing } else { LeadingBlank::Always };
    let mut data = VocabData {
        pre: meta.opt_str("tokenizer.ggml.pre")?.unwrap_or_default().into(),
        tokens: tokens.iter().map(ToString::to_string).collect(),
        token_types: meta.opt_i32s("tokenizer.ggml.token_type")?.map(<[i32]>::to_vec),
        merges: strings("tokenizer.ggml.merges")?,
        bos: id("bos")?,
        eos: id("eos")?,
        eot: id("eot")?,
        eom: id("eom")?,
        unk: id("unknown")?,
        pad: id("padding")?,
        add_bos: flag("add_bos_token")?,
        add_eos: flag("add_eos_token")?,
        scores: meta.opt_f32s("tokenizer.ggml.scores")?.unwrap_or_default().to_vec(),
        leading_blank: blank.map(|blank| if blank { there } else { LeadingBlank::Never }),
        blank_runs: flag("remove_extra_whitespaces")?
            .filter(|joined| model == "t5" && !joined)
            .map(|_| BlankRuns::Kept),
        charsmap: meta.opt_bytes("tokenizer.ggml.precompiled_charsmap")?.unwrap_or_default(),
        model,
        ..VocabData::default()
    };
    if data.model == "gemma4" {
        // Files say that no BOS is added, and the published tokenizer adds one; so does llama.cpp.
        data.add_bos = Some(true);
        // Whatever the file calls it, its text is cut at line breaks alone.
        data.pre = "gemma4".into();
    }
    let name = meta.opt_str("general.name")?.unwrap_or_default();
    data.rules = rules_by_name(&name.to_lowercase(), &data);
    Ok(data)
}

/// Which tokens take the white space beside them. GGUF has no key for it: llama.cpp goes by what
/// `general.name` holds, and so must whoever reads the same files.
fn rules_by_name(name: &str, data: &VocabData) -> Vec<(u32, TokenRule, String)> {
    let rule = |take: &dyn Fn(&str, i32) -> bool, rule: TokenRule| {
        let types = data.token_types.as_deref().unwrap_or_default();
        let all = data.tokens.iter().enumerate();
        let taken = all.filter(|(id, token)| take(token, types.get(*id).copied().unwrap_or(1)));
        taken.map(|(id, _)| (id as u32, rule, String::new())).collect()
    };
    if name.contains("phi-3") || name.contains("phi3") {
        let no = ["<unk>", "<s>", "<|endoftext|>"];
        let take = |token: &str, kind: i32| matches!(kind, 2..=4) && !no.contains(&token);
        return rule(&take, TokenRule { right: true, ..TokenRule::default() });
    }
    if name.contains("modern-bert") {
        let left = TokenRule { left: true, ..TokenRule::default() };
        return rule(&|token, _| token == "[MASK]", left);
    }
    Vec::new()
}

/// The tokenizer names the key that is wrong; the file knows at which byte its value is.
pub(super) fn locate(meta: &Metadata, e: Error) -> Error {
    let mut located = meta.bad_value(&e.at, e.what);
    located.code = e.code;
    if !e.hint.is_empty() {
        located.hint = e.hint;
    }
    located
}

/// The chat template of a GGUF file.
///
/// # Errors
/// `Usage` if the file has none, `BadFile` with the line if it does not parse.
#[cfg(feature = "jinja")]
pub fn chat_template(files: &ModelFiles, tokenizer: &Tokenizer) -> Result<ChatTemplate> {
    ChatTemplate::new(files.metadata.opt_str("tokenizer.chat_template")?, tokenizer)
}

/// The chat template of a GGUF file for conversations with tools, if it has one of its own.
#[cfg(feature = "jinja")]
pub fn tool_template(files: &ModelFiles, tokenizer: &Tokenizer) -> Option<Result<ChatTemplate>> {
    match files.metadata.opt_str("tokenizer.chat_template.tool_use") {
        Ok(source) => ChatTemplate::of_tools(source, tokenizer),
        Err(e) => Some(Err(e)),
    }
}
