//! What a template is given: JSON whose objects keep the order in which they were written.
//!
//! Templates print objects (a tool's schema, the arguments of a call), and Python, for which they were
//! written, prints the keys of one in the order in which it got them.

use crate::safetensors::json::Json;
use crate::{Error, Result};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Lists and objects inside each other, at most; a template is given fewer.
const HEIGHT_MAX: usize = 127;

/// A value of JSON.
#[derive(Clone, Debug, PartialEq)]
pub enum TemplateValue {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number without a fraction or an exponent.
    Int(i64),
    /// Any other number.
    Float(f64),
    /// A string.
    Text(String),
    /// An array.
    List(Vec<TemplateValue>),
    /// An object: its keys differ, and stand in the order in which they were written.
    Map(Vec<(String, TemplateValue)>),
}

impl TemplateValue {
    /// Reads JSON. Of a key that an object has twice the last value counts, in the first one's place,
    /// as in Python.
    ///
    /// # Errors
    /// `Usage` for what is no JSON, or nests more than 127 lists.
    pub fn parse(json: &str) -> Result<Self> {
        let json = Json::parse_last(json, HEIGHT_MAX);
        Ok(json.map_err(|e| Error::usage(format!("not JSON: {} ({})", e.what, e.at)))?.into())
    }

    /// The value of an object's key.
    pub fn get(&self, key: &str) -> Option<&Self> {
        let Self::Map(entries) = self else { return None };
        entries.iter().find(|entry| entry.0 == key).map(|entry| &entry.1)
    }

    /// The elements of a list.
    pub fn as_list(&self) -> Option<&[Self]> {
        if let Self::List(items) = self { Some(items) } else { None }
    }

    /// Visits every string that is a value; the keys of objects are names that the template looks up.
    pub(super) fn for_each_text(&mut self, visit: &mut dyn FnMut(&mut String)) {
        match self {
            Self::Text(text) => visit(text),
            Self::List(items) => items.iter_mut().for_each(|item| item.for_each_text(visit)),
            Self::Map(entries) => {
                entries.iter_mut().for_each(|(_, value)| value.for_each_text(visit));
            }
            Self::Null | Self::Bool(_) | Self::Int(_) | Self::Float(_) => {}
        }
    }

    /// How many values a value is, itself and the keys of objects included.
    pub(super) fn n_values(&self) -> usize {
        1 + match self {
            Self::List(items) => items.iter().map(Self::n_values).sum(),
            Self::Map(entries) => entries.iter().map(|(_, value)| 1 + value.n_values()).sum(),
            _ => 0,
        }
    }

    /// How many lists and objects are inside each other.
    pub(super) fn height(&self) -> usize {
        match self {
            Self::List(items) => 1 + items.iter().map(Self::height).max().unwrap_or(0),
            Self::Map(entries) => {
                1 + entries.iter().map(|(_, value)| value.height()).max().unwrap_or(0)
            }
            _ => 0,
        }
    }
}

impl From<Json> for TemplateValue {
    fn from(json: Json) -> Self {
        match json {
            Json::Null => Self::Null,
            Json::Bool(value) => Self::Bool(value),
            Json::Integer(value) => Self::Int(value),
            Json::Float(value) => Self::Float(value),
            Json::String(text) => Self::Text(text),
            Json::Array(items) => Self::List(items.into_iter().map(Self::from).collect()),
            Json::Object(members) => {
                Self::Map(members.into_iter().map(|(key, value)| (key, value.into())).collect())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::TemplateValue::{self, Bool, Float, Int, List, Map, Null, Text};
    use alloc::string::ToString;
    use alloc::vec;

    #[test]
    fn keys_keep_their_order_and_the_last_value_of_one_counts() {
        let json =
            r#"{"z": [1, 2.5, 18446744073709551615, -3], "a": {"k": "é\n"}, "z": [true, null]}"#;
        let got = TemplateValue::parse(json).unwrap();
        let a = Map(vec![("k".into(), Text("é\n".into()))]);
        assert_eq!(got, Map(vec![("z".into(), List(vec![Bool(true), Null])), ("a".into(), a)]));
        let numbers = TemplateValue::parse("[1, 2.5, 18446744073709551615, -3]").unwrap();
        let big = Float(18_446_744_073_709_551_615.0);
        assert_eq!(numbers, List(vec![Int(1), Float(2.5), big, Int(-3)]));
    }

    #[test]
    fn what_is_no_json_or_nests_hundreds_of_lists_is_refused() {
        let e = TemplateValue::parse("[1,").unwrap_err().to_string();
        assert!(e.starts_with("not JSON: "), "{e}");
        let e = TemplateValue::parse(&"[".repeat(100_000)).unwrap_err().to_string();
        assert!(e.starts_with("not JSON: the JSON is nested too deep"), "{e}");
    }
}
