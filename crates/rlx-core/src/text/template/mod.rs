//! Chat templates: Jinja, as model files carry it, rendered so that no message can forge structure.
//!
//! A rendered prompt mixes the template's control tokens with what people and tools wrote. Both are
//! text by then, and content that spells `<|im_end|>` would end its turn. So before rendering every
//! string of the conversation is **guarded**: where it spells a control token, or enough of one
//! that the template could complete it, a mark goes in behind the first character. The mark is a
//! private-use character that occurs nowhere in the template or its input; the template trims,
//! splits, upper-cases and joins around it as around any letter. A control token is then
//! recognised only where no mark breaks it, the marks are dropped, and what lies between control
//! tokens is tokenized with [`Special::Literal`].
//!
//! Marked are positions that begin (in any ASCII case) a whole control token, three bytes or more
//! of one (a template may cut text out of the middle), or any part of one that reaches the end of
//! the string (the next string may go on). What a template compares with content keeps working
//! unless it compares with control tokens; a `length` counts the marks.
//!
//! A template is also a program of a stranger's. The interpreter is our own, because what bounds
//! one has to be paid for in every operator, filter and value: [`meter`] says what bounds what.

mod ast;
mod date;
mod eval;
mod filters;
mod input;
mod lexer;
mod meter;
mod methods;
mod operators;
mod parser;
mod print;
#[cfg(test)]
mod tests;
mod value;

use self::ast::Program;
use self::eval::Run;
pub use self::input::TemplateValue;
use self::meter::{Fault, INPUT_BYTES_PER_VALUE, MAX_HEIGHT, MAX_TEMPLATE_BYTES, Meter};
use self::value::Value;
use super::{Special, Tokenizer};
use crate::order;
use crate::{Code, Error, Result};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use serde::Deserialize;

/// A turn of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Message {
    /// `system`, `user`, `assistant`, or what else the template knows.
    pub role: String,
    /// The text, as it was written.
    pub content: String,
}

impl Message {
    /// A turn of `role`.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        Self { role: role.into(), content: content.into() }
    }
}

/// What a template is told besides the messages.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RenderOptions {
    /// End the prompt where the assistant's answer begins.
    pub add_generation_prompt: bool,
    /// Further variables: `tools`, `enable_thinking`, … Guarded like the messages. Of a name that is there twice the
    /// first counts.
    pub variables: Vec<(String, TemplateValue)>,
    /// Local time in seconds since 1970, for `strftime_now`; without it that function is not
    /// defined and templates use the date they were written with.
    pub now: Option<i64>,
}

/// A piece of a rendered prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The text, without marks.
    pub text: String,
    /// Whether control tokens in it are plain text. If not, it is one control token.
    pub literal: bool,
}

/// A rendered prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendered {
    /// Control tokens of the template, and what lies between.
    pub segments: Vec<Segment>,
}

impl Rendered {
    /// The whole prompt, as the template alone would have written it.
    pub fn text(&self) -> String {
        self.segments.iter().map(|segment| segment.text.as_str()).collect()
    }
}

/// A model's chat template.
#[derive(Clone, Debug)]
pub struct ChatTemplate {
    /// What errors call it.
    key: &'static str,
    source: Arc<str>,
    program: Arc<Program>,
    /// Its private-use characters, which cannot be marks.
    private_use: Vec<char>,
    bos: String,
    eos: String,
    /// The texts of the control tokens, the longest first: it is the one that is recognised.
    controls: Vec<String>,
    /// Their first bytes in lower case, so that most positions are passed over at once.
    first_bytes: Vec<u8>,
}

impl ChatTemplate {
    /// Reads a template: `tokenizer.chat_template`, for the tokenizer of the same file.
    ///
    /// # Errors
    /// The file has no template, or one that is not Jinja, or is too long or too deeply nested.
    pub fn new(source: Option<&str>, tokenizer: &Tokenizer) -> Result<Self> {
        let source = source.filter(|source| !source.trim().is_empty()).ok_or_else(|| {
            Error::usage("the model has no chat template").at(CHAT_TEMPLATE).hint(HINT)
        })?;
        Self::of_file(CHAT_TEMPLATE, source, tokenizer)
    }

    /// Reads the template for conversations with tools, where a file has one beside the other:
    /// `tokenizer.chat_template.tool_use`. `None` where it has none.
    ///
    /// Other names that templates may have, such as `rag`, are nobody's here: they are for uses that RLX does not have,
    /// and a file that has them too is as good for the others.
    pub fn of_tools(source: Option<&str>, tokenizer: &Tokenizer) -> Option<Result<Self>> {
        let source = source.filter(|source| !source.trim().is_empty())?;
        Some(Self::of_file(TOOL_USE, source, tokenizer))
    }

    fn of_file(key: &'static str, source: &str, tokenizer: &Tokenizer) -> Result<Self> {
        let (bos, eos) = (tokenizer.text_of(tokenizer.bos()), tokenizer.text_of(tokenizer.eos()));
        let mut template = Self::read(key, source, &bos, &eos)?;
        template.controls = tokenizer.control_texts().map(String::from).collect();
        order::sort_by_key(&mut template.controls, |text| core::cmp::Reverse(text.len()));
        let first = |text: &String| text.as_bytes().first().map(u8::to_ascii_lowercase);
        template.first_bytes = template.controls.iter().filter_map(first).collect();
        order::sort(&mut template.first_bytes);
        template.first_bytes.dedup();
        Ok(template)
    }

    /// Reads a template of which the text of a prompt is wanted and not its tokens: no text is a control
    /// token. `bos` and `eos` are what it knows as `bos_token` and `eos_token`.
    ///
    /// # Errors
    /// The template is not Jinja, or is too long or too deeply nested.
    pub fn without_tokenizer(source: &str, bos: &str, eos: &str) -> Result<Self> {
        Self::read(CHAT_TEMPLATE, source, bos, eos)
    }

    fn read(key: &'static str, source: &str, bos: &str, eos: &str) -> Result<Self> {
        if source.len() > MAX_TEMPLATE_BYTES {
            let n = source.len();
            let what =
                format!("the chat template has {n} bytes, at most {MAX_TEMPLATE_BYTES} are read");
            return Err(Error::bad_file(what).at(key).hint(HINT));
        }
        let source = source.replace("\r\n", "\n").replace('\r', "\n");
        let program =
            parser::parse(&source).map_err(|(line, what)| fault(Fault::Failed(what), key, line))?;
        Ok(Self {
            key,
            source: source.as_str().into(),
            program: Arc::new(program),
            private_use: source.chars().filter(|&c| c >= '\u{100000}').collect(),
            bos: bos.into(),
            eos: eos.into(),
            controls: Vec::new(),
            first_bytes: Vec::new(),
        })
    }

    /// The template as its file has it, line breaks aside.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Renders a conversation.
    ///
    /// # Errors
    /// What the template raises, in its own words, and faults of the template: also that it does
    /// not end, needs too much memory, or nests too deeply.
    pub fn render(&self, messages: &[Message], options: &RenderOptions) -> Result<Rendered> {
        let turn = |message: &Message| {
            let text = |text: &String| TemplateValue::Text(text.clone());
            let turn = [("role", text(&message.role)), ("content", text(&message.content))];
            TemplateValue::Map(turn.map(|(key, value)| (key.into(), value)).into())
        };
        let messages = TemplateValue::List(messages.iter().map(turn).collect());
        self.render_json(messages, options)
    }

    /// Renders a conversation with all that OpenAI's shapes allow: parts, tool calls, names.
    ///
    /// # Errors
    /// As [`render`](Self::render).
    pub fn render_json(
        &self,
        messages: TemplateValue,
        options: &RenderOptions,
    ) -> Result<Rendered> {
        // The first of a name counts. Templates are written for a renderer that defines the last two, as none.
        let mut entries = Vec::from([(String::from("messages"), messages)]);
        entries.extend(options.variables.iter().cloned());
        entries.extend(["tools", "documents"].map(|name| (name.into(), TemplateValue::Null)));
        let mut input = TemplateValue::Map(entries);

        if input.height() > usize::from(MAX_HEIGHT) {
            let what = format!("the messages nest lists deeper than {MAX_HEIGHT}");
            return Err(Error::usage(what).hint("nest them less deeply"));
        }
        let mark = self.unused_character(&mut input)?;
        let mut n_bytes = 0;
        input.for_each_text(&mut |text| {
            *text = self.guard(text, mark);
            n_bytes += text.len();
        });
        let meter = Meter::new(n_bytes + INPUT_BYTES_PER_VALUE * input.n_values());
        let mut run = Run::new(&self.program, &meter, options.now);
        let text = run.render(&mut |name| match name {
            "add_generation_prompt" => Ok(Some(Value::Bool(options.add_generation_prompt))),
            "bos_token" => Value::text(&self.bos, &meter).map(Some),
            "eos_token" => Value::text(&self.eos, &meter).map(Some),
            name => input.get(name).map(|json| Value::from_json(json, &meter)).transpose(),
        });
        let text = text.map_err(|e| {
            let mut e = fault(e, self.key, run.line);
            e.what.retain(|c| c != mark);
            e
        })?;
        Ok(Rendered { segments: self.segments(&text, mark) })
    }

    /// A private-use character that neither the template nor its input has.
    fn unused_character(&self, input: &mut TemplateValue) -> Result<char> {
        const FIRST: char = '\u{100000}';
        let mut used = vec![false; 1 << 16];
        let mut note = |c: char| {
            if c >= FIRST {
                used[(c as usize) - FIRST as usize] = true;
            }
        };
        self.private_use.iter().for_each(|&c| note(c));
        self.controls.iter().flat_map(|text| text.chars()).for_each(&mut note);
        input.for_each_text(&mut |text| text.chars().for_each(&mut note));
        let mut free = (FIRST..='\u{10fffd}').zip(&used).filter(|(_, used)| !**used);
        free.next()
            .map(|(c, _)| c)
            .ok_or_else(|| Error::usage("the messages use every private-use character"))
    }

    /// `text` with a mark wherever a control token could begin.
    fn guard(&self, text: &str, mark: char) -> String {
        let trimmed = text.trim_end().len();
        let mut out = String::with_capacity(text.len() + 8);
        for (at, c) in text.char_indices() {
            out.push(c);
            let rest = &text.as_bytes()[at..];
            let begins = |control: &String| {
                let same = control.bytes().zip(rest).take_while(|(a, b)| a.eq_ignore_ascii_case(b));
                let n = same.count();
                n == control.len() || n >= 3 || (n > 0 && at + n >= trimmed)
            };
            if self.may_begin(rest) && self.controls.iter().any(begins) {
                out.push(mark);
            }
        }
        out
    }

    fn may_begin(&self, rest: &[u8]) -> bool {
        rest.first().is_some_and(|byte| self.first_bytes.contains(&byte.to_ascii_lowercase()))
    }

    /// Cuts a rendered text at its unmarked control tokens and drops the marks.
    fn segments(&self, text: &str, mark: char) -> Vec<Segment> {
        let mut segments = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            let candidates: &[String] =
                if self.may_begin(rest.as_bytes()) { &self.controls } else { &[] };
            let found = candidates.iter().find(|control| {
                // The mark of a control token of one character can only stand behind it.
                let marked = |rest: &str| rest.starts_with(mark) && control.chars().count() == 1;
                rest.strip_prefix(control.as_str()).is_some_and(|rest| !marked(rest))
            });
            if let Some(control) = found {
                if !literal.is_empty() {
                    segments.push(Segment { text: core::mem::take(&mut literal), literal: true });
                }
                segments.push(Segment { text: control.clone(), literal: false });
                rest = &rest[control.len()..];
            } else {
                if c != mark {
                    literal.push(c);
                }
                rest = &rest[c.len_utf8()..];
            }
        }
        if !literal.is_empty() {
            segments.push(Segment { text: literal, literal: true });
        }
        segments
    }
}

/// The tokens of a rendered prompt. No EOS is added, and a BOS only if the file wants one and the
/// template wrote none.
pub fn encode_chat(tokenizer: &Tokenizer, prompt: &Rendered) -> Vec<u32> {
    let mut ids = Vec::new();
    for Segment { text, literal } in &prompt.segments {
        let special = if *literal { Special::Literal } else { Special::Parse };
        tokenizer.encode_into(text, special, &mut ids);
    }
    if let Some(bos) = tokenizer.bos()
        && tokenizer.add_bos()
        && ids.first() != Some(&bos)
    {
        ids.insert(0, bos);
    }
    ids
}

const CHAT_TEMPLATE: &str = "tokenizer.chat_template";
const TOOL_USE: &str = "tokenizer.chat_template.tool_use";
const HINT: &str = "use `--raw` to send the prompt as it is";
/// Characters of a fault that are shown: a template may raise a text of megabytes.
const FAULT_CHARS: usize = 1000;

/// A fault of a template as an error: raised by it, or a fault of it.
fn fault(fault: Fault, key: &str, line: u32) -> Error {
    let cut = |what: String| what.chars().take(FAULT_CHARS).collect::<String>();
    let what = match fault {
        Fault::Raised(message) => {
            let what = format!("the chat template refused the conversation: {}", cut(message));
            return Error::usage(what).at(key);
        }
        Fault::Failed(what) => format!("the chat template failed: {}", cut(what)),
        Fault::Limit(what) => format!("the chat template {what}"),
    };
    Error::new(Code::BadFile, what).at(format!("{key}, line {line}")).hint(HINT)
}
