//! What a form may be written as.

use crate::gbnf;
use llguidance::api::TopLevelGrammar;
use rlx_core::{Error, Result};
use serde_json::{Map, Value, json};

/// Whitespace between the parts of a JSON text: what printers write, and not without end, so that a model that
/// would write blanks for ever has to go on.
const WHITESPACE: &str = r"\x20|\r?\n(\x20{0,32}|\x09{0,8})";

/// Most bytes of a grammar's text.
const MOST_BYTES: usize = 1 << 20;

/// A form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grammar<'a> {
    /// A JSON object, whatever it holds.
    Json,
    /// A JSON text of this schema (draft 2020-12, as far as llguidance knows it; a keyword that it does not know is
    /// an error).
    Schema(&'a str),
    /// A text that the regular expression matches as a whole (the syntax of Rust's crate `regex`, without
    /// look-around).
    Regex(&'a str),
    /// llama.cpp's grammars: rules `name ::= …`, of which `root` is the answer.
    Gbnf(&'a str),
    /// llguidance's dialect of Lark's grammars, of which `start` is the answer.
    Lark(&'a str),
}

impl<'a> Grammar<'a> {
    /// The form with this name: `json`, `schema`, `regex`, `gbnf`, `lark`.
    ///
    /// # Errors
    /// `Usage` for another name.
    pub fn named(kind: &str, text: &'a str) -> Result<Self> {
        Ok(match kind {
            "json" => Self::Json,
            "schema" => Self::Schema(text),
            "regex" => Self::Regex(text),
            "gbnf" => Self::Gbnf(text),
            "lark" => Self::Lark(text),
            _ => {
                return Err(Error::usage(format!("unknown kind of grammar {kind:?}"))
                    .hint("known: json, schema, regex, gbnf, lark"));
            }
        })
    }

    /// The grammar as llguidance takes it.
    pub(crate) fn top_level(self) -> Result<TopLevelGrammar> {
        let text = match self {
            Self::Json => "",
            Self::Schema(text) | Self::Regex(text) | Self::Gbnf(text) | Self::Lark(text) => text,
        };
        if text.len() > MOST_BYTES {
            let what = format!("the grammar has {} bytes, at most {MOST_BYTES}", text.len());
            return Err(Error::usage(what).hint("shorten it"));
        }
        Ok(match self {
            Self::Json => TopLevelGrammar::from_json_schema(schema(json!({"type": "object"}))?),
            Self::Schema(text) => {
                let value = serde_json::from_str(text)
                    .map_err(|e| Error::usage(format!("the JSON schema is no JSON text: {e}")))?;
                TopLevelGrammar::from_json_schema(schema(value)?)
            }
            Self::Regex(text) => TopLevelGrammar::from_regex(text),
            Self::Gbnf(text) => TopLevelGrammar::from_lark(gbnf::to_lark(text)?),
            Self::Lark(text) => TopLevelGrammar::from_lark(text.to_string()),
        })
    }
}

/// A schema with what whitespace its texts may have, unless it says so itself.
fn schema(value: Value) -> Result<Value> {
    let mut schema = match value {
        Value::Object(schema) => schema,
        Value::Bool(true) => Map::new(),
        other => {
            return Err(Error::usage(format!("a JSON schema is an object, not {other}")));
        }
    };
    schema.entry("x-guidance").or_insert_with(|| json!({"whitespace_pattern": WHITESPACE}));
    Ok(Value::Object(schema))
}
