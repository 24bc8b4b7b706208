//! What a template is given: JSON whose objects keep the order in which they were written.
//!
//! Templates print objects (a tool's schema, the arguments of a call), and Python, for which they were
//! written, prints the keys of one in the order in which it got them.

use crate::{Error, Result};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

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
    /// `Usage` for what is no JSON, or nests some hundred lists.
    pub fn parse(json: &str) -> Result<Self> {
        serde_json::from_str(json).map_err(|e| Error::usage(format!("not JSON: {e}")))
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

impl<'de> Deserialize<'de> for TemplateValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> core::result::Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

/// Makes a value of what a reader of JSON finds.
struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = TemplateValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of JSON")
    }

    fn visit_unit<E>(self) -> core::result::Result<TemplateValue, E> {
        Ok(TemplateValue::Null)
    }

    fn visit_bool<E>(self, value: bool) -> core::result::Result<TemplateValue, E> {
        Ok(TemplateValue::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> core::result::Result<TemplateValue, E> {
        Ok(TemplateValue::Int(value))
    }

    fn visit_u64<E>(self, value: u64) -> core::result::Result<TemplateValue, E> {
        Ok(i64::try_from(value).map_or(TemplateValue::Float(value as f64), TemplateValue::Int))
    }

    fn visit_f64<E>(self, value: f64) -> core::result::Result<TemplateValue, E> {
        Ok(TemplateValue::Float(value))
    }

    fn visit_str<E>(self, text: &str) -> core::result::Result<TemplateValue, E> {
        Ok(TemplateValue::Text(text.into()))
    }

    fn visit_string<E>(self, text: String) -> core::result::Result<TemplateValue, E> {
        Ok(TemplateValue::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(
        self,
        mut list: A,
    ) -> core::result::Result<TemplateValue, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(TemplateValue::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(
        self,
        mut map: A,
    ) -> core::result::Result<TemplateValue, A::Error> {
        let mut entries: Vec<(String, TemplateValue)> = Vec::new();
        let mut places = BTreeMap::new();
        while let Some((key, value)) = map.next_entry::<String, TemplateValue>()? {
            match places.get(&key) {
                Some(&place) => {
                    let entry: &mut (String, TemplateValue) = &mut entries[place];
                    entry.1 = value;
                }
                None => {
                    places.insert(key.clone(), entries.len());
                    entries.push((key, value));
                }
            }
        }
        Ok(TemplateValue::Map(entries))
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
        assert!(e.starts_with("not JSON: recursion limit"), "{e}");
    }
}
