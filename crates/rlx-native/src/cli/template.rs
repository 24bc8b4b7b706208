//! `rlx template`: the prompt that a chat template makes of a conversation.

use super::print_text;
use crate::files::{ModelSource, small_file};
use crate::generate::now;
use clap::Args;
use rlx_core::models::{TOKENIZER_FILES, TokenizerFiles};
use rlx_core::text::{ChatTemplate, RenderOptions, TemplateValue};
use rlx_core::{Code, Error, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Args)]
pub struct TemplateArgs {
    /// A GGUF file, with or without tensors, or a transformers folder
    #[arg(required_unless_present = "template", conflicts_with = "template")]
    file: Option<PathBuf>,
    /// A file that is a template, in place of a model's
    #[arg(long, value_name = "FILE")]
    template: Option<PathBuf>,
    /// What the template knows as `bos_token` [default: the model's]
    #[arg(long, value_name = "TEXT")]
    bos: Option<String>,
    /// What the template knows as `eos_token` [default: the model's]
    #[arg(long, value_name = "TEXT")]
    eos: Option<String>,
    /// The conversation: a JSON array of messages, as OpenAI's API has them
    #[arg(long, value_name = "FILE")]
    messages: PathBuf,
    /// The tools that the model may call: a JSON array
    #[arg(long, value_name = "FILE")]
    tools: Option<PathBuf>,
    /// A further variable of the template, such as `enable_thinking=false`; may be given several times
    #[arg(long, value_name = "NAME=JSON")]
    set: Vec<String>,
    /// End the prompt behind the last message, and not where an answer begins
    #[arg(long)]
    no_generation_prompt: bool,
    /// The time that the template is told, in seconds since 1970 [default: now, in the system's time zone]
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    now: Option<i64>,
}

/// A template's text, and the texts of the tokens that begin and end one.
#[derive(Default)]
struct Source {
    template: Option<String>,
    bos: Option<String>,
    eos: Option<String>,
}

pub fn template(args: &TemplateArgs) -> Result<ExitCode> {
    let mut variables = BTreeMap::new();
    for text in &args.set {
        let (name, value) = variable(text)?;
        variables.insert(name.to_owned(), value);
    }
    let messages = list(&args.messages)?;
    if let Some(path) = &args.tools {
        variables.insert("tools".into(), list(path)?);
    }
    let (path, source) = match (&args.file, &args.template) {
        (Some(file), _) => (file, Source::open(file, args.tools.is_some())?),
        (None, Some(template)) => {
            (template, Source { template: Some(read(template)?), ..Source::default() })
        }
        // The command line has one of them.
        (None, None) => return Err(Error::usage("no template is given")),
    };
    let bos = args.bos.as_ref().or(source.bos.as_ref()).map_or("", String::as_str);
    let eos = args.eos.as_ref().or(source.eos.as_ref()).map_or("", String::as_str);
    let options = RenderOptions {
        add_generation_prompt: !args.no_generation_prompt,
        variables: variables.into_iter().collect(),
        now: Some(args.now.unwrap_or_else(now)),
    };
    let text = source.template.as_deref().filter(|text| !text.trim().is_empty());
    let text = text.ok_or_else(|| {
        Error::usage("the model has no chat template")
            .at(path.display().to_string())
            .hint("give one by --template")
    })?;
    let rendered = ChatTemplate::without_tokenizer(text, bos, eos)
        .and_then(|template| template.render_json(messages, &options))
        .map_err(|e| located(e, path))?;
    print_text(&rendered.text())?;
    Ok(ExitCode::SUCCESS)
}

impl Source {
    fn open(path: &Path, tools: bool) -> Result<Self> {
        if path.is_dir() {
            return Self::folder(path, tools);
        }
        let source = ModelSource::open(path)?;
        let meta = &source.files.metadata;
        let tokens = meta.opt_strings("tokenizer.ggml.tokens")?;
        let token = |name: &str| -> Result<Option<String>> {
            let id = meta.opt_u32(&format!("tokenizer.ggml.{name}_token_id"))?;
            let text = |id: u32| tokens.as_ref()?.get(id as usize);
            Ok(id.and_then(text).map(str::to_owned))
        };
        let of_tools = if tools { meta.opt_str("tokenizer.chat_template.tool_use")? } else { None };
        let template = of_tools.or(meta.opt_str("tokenizer.chat_template")?);
        Ok(Self { template: template.map(str::to_owned), bos: token("bos")?, eos: token("eos")? })
    }

    fn folder(path: &Path, tools: bool) -> Result<Self> {
        let mut files = TokenizerFiles::default();
        let mut found = false;
        for name in TOKENIZER_FILES
            .into_iter()
            .filter(|name| name.contains("template") || *name == "tokenizer_config.json")
        {
            let file = path.join(name);
            if let Some(bytes) = small_file(&file)? {
                files.put(name, &file.display().to_string(), (*bytes).as_ref())?;
                found = true;
            }
        }
        if !found {
            let what = "the folder has no tokenizer_config.json or chat_template.jinja";
            return Err(Error::new(Code::Io, what)
                .at(path.display().to_string())
                .hint("give a GGUF file or a transformers folder, or a template by --template"));
        }
        let token = |name: &str| files.token_text(name).map(str::to_owned);
        Ok(Self {
            template: files.chat_template_text(tools).map(str::to_owned),
            bos: token("bos_token"),
            eos: token("eos_token"),
        })
    }
}

/// A fault of the template, where its text is.
fn located(mut e: Error, path: &Path) -> Error {
    if let Some(line) = e.at.strip_prefix("tokenizer.chat_template") {
        e.at = format!("{}{line}", path.display());
        e.hint =
            if e.code == Code::BadFile { "correct the template".into() } else { String::new() };
    }
    e
}

fn variable(text: &str) -> Result<(&str, TemplateValue)> {
    const HINT: &str = "write NAME=JSON, such as `enable_thinking=false` or `effort=\"high\"`";
    let wrong = |what: String| Error::usage(what).at("--set").hint(HINT);
    let (name, json) = text.split_once('=').ok_or_else(|| wrong(format!("`{text}` has no `=`")))?;
    let value = TemplateValue::parse(json).map_err(|e| wrong(format!("`{text}`: {}", e.what)))?;
    Ok((name, value))
}

/// A file that holds a JSON array.
fn list(path: &Path) -> Result<TemplateValue> {
    let at = || path.display().to_string();
    let value = TemplateValue::parse(&read(path)?).map_err(|e| Error::bad_file(e.what).at(at()))?;
    if value.as_list().is_none() {
        return Err(Error::bad_file("this is no JSON array").at(at()));
    }
    Ok(value)
}

fn read(path: &Path) -> Result<String> {
    let at = || path.display().to_string();
    let bytes =
        small_file(path)?.ok_or_else(|| Error::new(Code::Io, "there is no such file").at(at()))?;
    let text = std::str::from_utf8((*bytes).as_ref());
    Ok(text.map_err(|_| Error::bad_file("the file is no text in UTF-8").at(at()))?.to_owned())
}
