//! The tokenizer and the chat template of a transformers folder, from its small files.

use crate::error::{Code, Error, Result};
use crate::order;
use crate::safetensors::json::Json;
#[cfg(feature = "jinja")]
use crate::text::ChatTemplate;
use crate::text::{TokenRule, Tokenizer, VocabData};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// The files that [`TokenizerFiles::put`] takes, by their names in the folder.
pub const TOKENIZER_FILES: [&str; 7] = [
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "generation_config.json",
    "chat_template.jinja",
    "chat_template.json",
    TOOL_TEMPLATE,
];

/// The template for conversations with tools, in the folder of those that are not the usual one.
const TOOL_TEMPLATE: &str = "additional_chat_templates/tool_use.jinja";

/// The small files of a folder that say how its language model reads text, as far as they were given.
#[derive(Clone, Debug, Default)]
pub struct TokenizerFiles {
    /// Of `tokenizer.json`, and of `tokenizer.model`, which counts where there is no other.
    json: Option<VocabData>,
    model: Option<VocabData>,
    config: Option<Json>,
    generation: Option<Json>,
    template: Option<String>,
    tool_template: Option<String>,
    /// Of `chat_template.json`, which older processors have in place of it.
    templates: Option<Json>,
}

impl TokenizerFiles {
    /// Takes one of [`TOKENIZER_FILES`]; `at` is what errors call it.
    ///
    /// # Errors
    /// `BadFile` for what is in it, `Unsupported` for a kind of tokenizer that RLX does not have, `Usage`
    /// for a name that no such file has.
    pub fn put(&mut self, name: &str, at: &str, bytes: &[u8]) -> Result<()> {
        let json = || Json::parse(bytes, at, 0);
        let named = |e: Error| {
            let place = if e.at.is_empty() { at.into() } else { format!("{at}: {}", e.at) };
            e.at(place)
        };
        let text = || match core::str::from_utf8(bytes) {
            Ok(text) => Ok(String::from(text)),
            Err(_) => Err(Error::bad_file("the file is no text").at(at)),
        };
        match name {
            "tokenizer.json" => {
                self.json = Some(VocabData::from_tokenizer_json(&json()?).map_err(named)?);
            }
            "tokenizer.model" => {
                self.model = Some(VocabData::from_sentencepiece(bytes).map_err(named)?);
            }
            "tokenizer_config.json" => self.config = Some(json()?),
            "generation_config.json" => self.generation = Some(json()?),
            "chat_template.json" => self.templates = Some(json()?),
            "chat_template.jinja" => self.template = Some(text()?),
            TOOL_TEMPLATE => self.tool_template = Some(text()?),
            other => return Err(Error::usage(format!("{other} is no file of a tokenizer"))),
        }
        Ok(())
    }

    /// The tokenizer.
    ///
    /// # Errors
    /// As [`vocabulary`](Self::vocabulary) and [`Tokenizer::new`].
    pub fn tokenizer(&self) -> Result<Tokenizer> {
        Tokenizer::new(self.vocabulary()?)
    }

    /// What `tokenizer.model` says, where it was given.
    #[cfg(feature = "encode")]
    pub fn sentencepiece(&self) -> Option<&VocabData> {
        self.model.as_ref()
    }

    /// What the files say about the tokenizer.
    ///
    /// # Errors
    /// `Io` where there is neither of its files.
    pub fn vocabulary(&self) -> Result<VocabData> {
        let Some(mut data) = self.json.as_ref().or(self.model.as_ref()).cloned() else {
            let what = "the folder has neither tokenizer.json nor tokenizer.model";
            return Err(Error::new(Code::Io, what)
                .hint("put the tokenizer's files beside the weights, as the checkpoint has them"));
        };
        if let Some(config) = &self.config {
            configure(config, self.json.is_none(), &mut data);
        }
        let eos = self.generation.as_ref().and_then(|generation| generation.get("eos_token_id"));
        let one = eos.and_then(Json::as_u64);
        let many = eos.and_then(Json::as_array).unwrap_or(&[]).iter().filter_map(Json::as_u64);
        data.ends.extend(one.into_iter().chain(many).filter_map(|id| u32::try_from(id).ok()));
        Ok(data)
    }

    /// The temperature that `generation_config.json` asks for.
    pub fn temperature(&self) -> Option<f32> {
        let generation = self.generation.as_ref()?;
        generation.get("temperature").and_then(Json::as_f64).map(|t| t as f32)
    }

    /// The text of the chat template: of its own file, else of `chat_template.json`, else of `tokenizer_config.json`.
    /// Where one of these has several it is the one named `default`, or `tool_use` if there are `tools`.
    pub fn chat_template_text(&self, tools: bool) -> Option<&str> {
        let default = || self.templates()?.as_str().or_else(|| self.named("default"));
        let of_tools = if tools { self.tool_template_text() } else { None };
        of_tools.or(self.template.as_deref()).or_else(default)
    }

    /// The text of the template for conversations with tools, if there is one of its own.
    fn tool_template_text(&self) -> Option<&str> {
        // Templates in files of their own count in place of those in JSON.
        let in_json = || if self.template.is_some() { None } else { self.named("tool_use") };
        self.tool_template.as_deref().or_else(in_json)
    }

    /// The template, or a list or an object of several.
    fn templates(&self) -> Option<&Json> {
        let files = [&self.templates, &self.config];
        files.into_iter().flatten().find_map(|file| file.get("chat_template"))
    }

    fn named(&self, name: &str) -> Option<&str> {
        let templates = self.templates()?;
        let is = |t: &&Json| t.get("name").and_then(Json::as_str) == Some(name);
        match templates.as_array() {
            Some(list) => list.iter().find(is)?.get("template")?.as_str(),
            None => templates.get(name)?.as_str(),
        }
    }

    /// At which side of a text `tokenizer_config.json` has padding, where it says so.
    pub fn padding_side(&self) -> Option<&str> {
        self.config.as_ref()?.get("padding_side")?.as_str()
    }

    /// The text of a token that `tokenizer_config.json` names, such as `bos_token`.
    pub fn token_text(&self, name: &str) -> Option<&str> {
        token_text(self.config.as_ref()?, name)
    }

    /// The chat template.
    ///
    /// # Errors
    /// `Usage` where there is none, `BadFile` with the line where it does not parse.
    #[cfg(feature = "jinja")]
    pub fn chat_template(&self, tokenizer: &Tokenizer) -> Result<ChatTemplate> {
        ChatTemplate::new(self.chat_template_text(false), tokenizer)
    }

    /// The chat template for conversations with tools, if there is one of its own.
    #[cfg(feature = "jinja")]
    pub fn tool_template(&self, tokenizer: &Tokenizer) -> Option<Result<ChatTemplate>> {
        ChatTemplate::of_tools(self.tool_template_text(), tokenizer)
    }
}

/// A token of `tokenizer_config.json`: its text, or an object that has it.
fn token_text<'a>(config: &'a Json, name: &str) -> Option<&'a str> {
    let token = config.get(name)?;
    token.as_str().or_else(|| token.get("content")?.as_str())
}

/// What `tokenizer_config.json` says beside the vocabulary: which tokens begin and end texts. Whether they
/// are put there a `tokenizer.json` says itself.
fn configure(config: &Json, no_json: bool, data: &mut VocabData) {
    let id = |name: &str| -> Option<u32> {
        let text = token_text(config, name)?;
        data.tokens.iter().position(|t| t == text).map(|id| id as u32)
    };
    let (bos, eos, unk, pad) = (id("bos_token"), id("eos_token"), id("unk_token"), id("pad_token"));
    (data.bos, data.eos) = (data.bos.or(bos), eos.or(data.eos));
    (data.unk, data.pad) = (data.unk.or(unk), data.pad.or(pad));
    if no_json {
        let flag = |name: &str| config.get(name).and_then(Json::as_bool);
        data.add_bos = flag("add_bos_token").or(data.add_bos);
        data.add_eos = flag("add_eos_token").or(data.add_eos);
        read_added(config, data);
    }
}

/// Tokens that are added to a `tokenizer.model`, by id in `added_tokens_decoder`.
fn read_added(config: &Json, data: &mut VocabData) {
    let Some(added) = config.get("added_tokens_decoder").and_then(Json::as_object) else { return };
    let mut added: Vec<(usize, &Json)> =
        added.iter().filter_map(|(id, token)| Some((id.parse().ok()?, token))).collect();
    order::sort_by_key(&mut added, |token| token.0);
    for (id, token) in added {
        let Some(content) = token.get("content").and_then(Json::as_str) else { continue };
        let on = |key: &str| token.get(key).and_then(Json::as_bool).unwrap_or(false);
        let kind = if on("special") { 3 } else { 4 };
        let kinds = data.token_types.get_or_insert_default();
        // Ids stand one behind the other; one further on would be a token that nothing says anything of.
        if id > data.tokens.len() {
            return;
        }
        if id == data.tokens.len() {
            data.tokens.push(content.into());
            data.scores.push(0.0);
            kinds.push(kind);
        }
        let rule =
            TokenRule { left: on("lstrip"), right: on("rstrip"), whole_word: on("single_word") };
        data.rules.push((id as u32, rule, content.into()));
    }
}

#[cfg(test)]
mod tests {
    use super::TokenizerFiles;
    use crate::error::Code;
    use alloc::string::String;

    /// The texts of templates without and with tools, of files by their names.
    fn texts(files: &[(&str, &str)]) -> [Option<String>; 2] {
        let mut read = TokenizerFiles::default();
        for (name, text) in files {
            read.put(name, name, text.as_bytes()).expect("it is read");
        }
        [false, true].map(|tools| read.chat_template_text(tools).map(String::from))
    }

    fn some(a: &str, b: &str) -> [Option<String>; 2] {
        [a, b].map(|text| Some(text.into()))
    }

    const SEVERAL: &str = r#"{"chat_template": [{"name": "rag", "template": "r"},
        {"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]}"#;

    #[test]
    fn a_template_for_tools_is_the_one_of_this_name() {
        assert_eq!(texts(&[]), [None, None]);
        assert_eq!(texts(&[("tokenizer_config.json", SEVERAL)]), some("d", "t"));
        let object = r#"{"chat_template": {"default": "d", "tool_use": "t", "rag": 5}}"#;
        assert_eq!(texts(&[("chat_template.json", object)]), some("d", "t"));
        let one = r#"{"chat_template": "one"}"#;
        assert_eq!(texts(&[("tokenizer_config.json", one)]), some("one", "one"));
        let no_default = r#"{"chat_template": [{"name": "tool_use", "template": "t"}, 7, {}]}"#;
        assert_eq!(texts(&[("tokenizer_config.json", no_default)]), [None, Some("t".into())]);
    }

    #[test]
    fn a_file_of_its_own_counts_before_others() {
        let older = ("chat_template.json", r#"{"chat_template": "older"}"#);
        let config = ("tokenizer_config.json", SEVERAL);
        assert_eq!(texts(&[config, older]), some("older", "older"));
        let own = ("chat_template.jinja", "j");
        assert_eq!(texts(&[config, older, own]), some("j", "j"));
        let tools = ("additional_chat_templates/tool_use.jinja", "u");
        assert_eq!(texts(&[config, own, tools]), some("j", "u"));
        assert_eq!(texts(&[config, tools]), some("d", "u"));
        let mut read = TokenizerFiles::default();
        let error = read.put(tools.0, "here", &[0xff]).unwrap_err();
        assert_eq!((error.code, error.at.as_str()), (Code::BadFile, "here"));
    }
}
