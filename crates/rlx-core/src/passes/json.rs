//! Reports as JSON: a value is its text, put together by hand. Core has no serializer.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Display;

/// A string in quotes, with what RFC 8259 asks to be escaped.
pub(super) fn text(s: &str) -> String {
    let mut out = String::from("\"");
    for c in s.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if u32::from(c) < 0x20 => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A value, or `null`.
pub(super) fn or_null(value: Option<impl Display>) -> String {
    value.map_or_else(|| "null".into(), |v| v.to_string())
}

/// `[a, b]` of values that are JSON already.
pub(super) fn array(values: impl IntoIterator<Item = String>) -> String {
    format!("[{}]", values.into_iter().collect::<Vec<_>>().join(","))
}

/// `{"key": value}` of values that are JSON already.
pub(super) fn object(members: &[(&str, String)]) -> String {
    let members: Vec<String> = members.iter().map(|(k, v)| format!("{}:{v}", text(k))).collect();
    format!("{{{}}}", members.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_control_characters_are_escaped() {
        assert_eq!(text("a\"b\\c\n\u{1}é"), "\"a\\\"b\\\\c\\n\\u0001é\"");
        assert_eq!(
            object(&[("k", array([or_null(Some(1)), or_null(None::<u8>)]))]),
            "{\"k\":[1,null]}"
        );
    }
}
