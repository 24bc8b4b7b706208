//! Values as text: as Python's `str`, and as its `json.dumps`.

use super::meter::{Result, failed};
use super::value::{TextBuilder, Value};
use alloc::format;
use alloc::string::ToString;

/// A value as an expression writes it.
pub(super) fn write_str(value: &Value, out: &mut TextBuilder) -> Result<()> {
    match value {
        Value::Text(text) => out.push(text),
        Value::Undefined => Ok(()),
        other => write_repr(other, out),
    }
}

/// A value as it stands in a list.
fn write_repr(value: &Value, out: &mut TextBuilder) -> Result<()> {
    match value {
        Value::Undefined => out.push("Undefined"),
        Value::None => out.push("None"),
        Value::Bool(true) => out.push("True"),
        Value::Bool(false) => out.push("False"),
        Value::Int(value) => out.push(&value.to_string()),
        Value::Float(value) => out.push(&Value::number(*value)),
        Value::Text(text) => write_quoted(text, out),
        Value::List(items) => {
            out.push("[")?;
            for (i, item) in items.iter().enumerate() {
                out.push(if i > 0 { ", " } else { "" })?;
                write_repr(item, out)?;
            }
            out.push("]")
        }
        Value::Map(entries) => {
            out.push("{")?;
            for (i, (key, value)) in entries.iter().enumerate() {
                out.push(if i > 0 { ", " } else { "" })?;
                write_repr(key, out)?;
                out.push(": ")?;
                write_repr(value, out)?;
            }
            out.push("}")
        }
        other => out.push(&format!("<{}>", other.kind())),
    }
}

fn write_quoted(text: &str, out: &mut TextBuilder) -> Result<()> {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push_char(quote)?;
    write_escaped(text, out, &|c| match c {
        '\n' => Some("\\n"),
        '\r' => Some("\\r"),
        '\t' => Some("\\t"),
        '\\' => Some("\\\\"),
        '\'' if quote == '\'' => Some("\\'"),
        _ => None,
    })?;
    out.push_char(quote)
}

/// A text whose characters are replaced or stay; what stays is written in one piece.
pub(super) fn write_escaped(
    text: &str,
    out: &mut TextBuilder,
    escape: &dyn Fn(char) -> Option<&'static str>,
) -> Result<()> {
    let mut from = 0;
    for (at, c) in text.char_indices() {
        if let Some(escaped) = escape(c) {
            out.push(&text[from..at])?;
            out.push(escaped)?;
            from = at + c.len_utf8();
        }
    }
    out.push(&text[from..])
}

/// How JSON is printed.
pub(super) struct JsonStyle<'t> {
    /// Blanks for each level; without, all is one line.
    pub(super) indent: Option<usize>,
    /// Between items and behind a key.
    pub(super) separators: (&'t str, &'t str),
    pub(super) ascii: bool,
}

/// A value as JSON. Lists and maps nest no deeper than `MAX_HEIGHT`, so this does not either.
pub(super) fn write_json(
    value: &Value,
    style: &JsonStyle<'_>,
    level: usize,
    out: &mut TextBuilder,
) -> Result<()> {
    let line = |level: usize, out: &mut TextBuilder| match style.indent {
        Some(indent) => {
            out.push("\n")?;
            out.pad(indent.saturating_mul(level))
        }
        None => Ok(()),
    };
    match value {
        Value::Undefined | Value::None => out.push("null"),
        Value::Bool(value) => out.push(if *value { "true" } else { "false" }),
        Value::Int(value) => out.push(&value.to_string()),
        Value::Float(value) if value.is_nan() => out.push("NaN"),
        Value::Float(value) if value.is_infinite() => {
            out.push(if *value > 0.0 { "Infinity" } else { "-Infinity" })
        }
        Value::Float(value) => out.push(&Value::number(*value)),
        Value::Text(text) => write_json_text(text, style.ascii, out),
        Value::List(items) => {
            out.push("[")?;
            for (i, item) in items.iter().enumerate() {
                out.push(if i > 0 { style.separators.0 } else { "" })?;
                line(level + 1, out)?;
                write_json(item, style, level + 1, out)?;
            }
            if !items.is_empty() {
                line(level, out)?;
            }
            out.push("]")
        }
        Value::Map(entries) => {
            out.push("{")?;
            for (i, (key, value)) in entries.iter().enumerate() {
                out.push(if i > 0 { style.separators.0 } else { "" })?;
                line(level + 1, out)?;
                if let Value::Text(key) = key {
                    write_json_text(key, style.ascii, out)?;
                } else {
                    out.push("\"")?;
                    write_json(key, style, level, out)?;
                    out.push("\"")?;
                }
                out.push(style.separators.1)?;
                write_json(value, style, level + 1, out)?;
            }
            if !entries.is_empty() {
                line(level, out)?;
            }
            out.push("}")
        }
        other => failed(format!("{} has no form in JSON", other.kind())),
    }
}

fn write_json_text(text: &str, ascii: bool, out: &mut TextBuilder) -> Result<()> {
    out.push("\"")?;
    let mut from = 0;
    for (at, c) in text.char_indices() {
        let short = match c {
            '"' => "\\\"",
            '\\' => "\\\\",
            '\n' => "\\n",
            '\r' => "\\r",
            '\t' => "\\t",
            '\u{8}' => "\\b",
            '\u{c}' => "\\f",
            c if (c as u32) < 0x20 || (ascii && !c.is_ascii()) => "",
            _ => continue,
        };
        out.push(&text[from..at])?;
        out.push(short)?;
        if short.is_empty() {
            for unit in c.encode_utf16(&mut [0; 2]) {
                out.push(&format!("\\u{unit:04x}"))?;
            }
        }
        from = at + c.len_utf8();
    }
    out.push(&text[from..])?;
    out.push("\"")
}
