//! A small JSON reader: for safetensors headers, for a folder's configurations and tokenizers, for what templates
//! are given and what a page asks, in core and without std.
//!
//! It reads RFC 8259, plus the `NaN`, `Infinity` and `-Infinity` that Python writes. Members keep the order in
//! which they were written. A key that occurs twice in an object is an error in a file: readers differ in which
//! one they take.

use crate::order;
use crate::{Error, Result};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Objects and arrays inside each other.
pub const DEPTH_MAX: usize = 64;

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number written without fraction or exponent that fits 64 bits.
    Integer(i64),
    /// Any other number.
    Float(f64),
    /// A string, escapes resolved.
    String(String),
    /// An array.
    Array(Vec<Json>),
    /// An object: its keys differ, and stand in the order in which they were written.
    Object(Vec<(String, Json)>),
}

/// A member of an object. It is looked for from the first on, so who asks for many goes through them instead.
pub fn member<'a>(members: &'a [(String, Json)], key: &str) -> Option<&'a Json> {
    members.iter().find(|member| member.0 == key).map(|member| &member.1)
}

impl Json {
    /// Reads one value and nothing after it but blanks. `name` is the text's name in errors, `base`
    /// the byte of the file where the text begins.
    ///
    /// # Errors
    ///
    /// `BadFile` naming the byte when the text is not JSON, deeper than [`DEPTH_MAX`], or has a key
    /// twice.
    pub fn parse(text: &[u8], name: &str, base: u64) -> Result<Json> {
        let text = core::str::from_utf8(text).map_err(|e| {
            Error::bad_file("the JSON is not UTF-8")
                .at(format!("{name}, byte {}", base + e.valid_up_to() as u64))
        })?;
        Reader { text, pos: 0, name, base, depth_max: DEPTH_MAX, last_counts: false }.whole()
    }

    /// Reads one value as Python does: of a key that an object has twice the last value counts, in the first
    /// one's place. Objects and arrays may nest `depth_max` deep.
    ///
    /// # Errors
    /// `BadFile` naming the byte when the text is not JSON, or deeper.
    pub fn parse_last(text: &str, depth_max: usize) -> Result<Json> {
        Reader { text, pos: 0, name: "the text", base: 0, depth_max, last_counts: true }.whole()
    }

    /// The member of an object; `None` for another value.
    pub fn get(&self, key: &str) -> Option<&Json> {
        member(self.as_object()?, key)
    }

    /// An object.
    pub fn as_object(&self) -> Option<&[(String, Json)]> {
        match self {
            Json::Object(members) => Some(members),
            _ => None,
        }
    }

    /// An array.
    pub fn as_array(&self) -> Option<&[Json]> {
        match self {
            Json::Array(items) => Some(items),
            _ => None,
        }
    }

    /// A string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Json::String(text) => Some(text),
            _ => None,
        }
    }

    /// A bool.
    pub fn as_bool(&self) -> Option<bool> {
        match *self {
            Json::Bool(value) => Some(value),
            _ => None,
        }
    }

    /// A non-negative integer.
    pub fn as_u64(&self) -> Option<u64> {
        match *self {
            Json::Integer(value) => value.try_into().ok(),
            _ => None,
        }
    }

    /// Any number.
    pub fn as_f64(&self) -> Option<f64> {
        match *self {
            Json::Integer(value) => Some(value as f64),
            Json::Float(value) => Some(value),
            _ => None,
        }
    }
}

struct Reader<'a> {
    text: &'a str,
    pos: usize,
    name: &'a str,
    base: u64,
    depth_max: usize,
    /// Whether the last value of a key counts, where it would be an error to have two.
    last_counts: bool,
}

impl Reader<'_> {
    /// The value that the whole text is.
    fn whole(mut self) -> Result<Json> {
        let value = self.value(0)?;
        self.blanks();
        if self.pos < self.text.len() {
            return Err(self.error("the JSON goes on after its end"));
        }
        Ok(value)
    }

    fn error(&self, what: &str) -> Error {
        self.error_at(self.pos, what)
    }

    fn error_at(&self, pos: usize, what: &str) -> Error {
        Error::bad_file(what).at(format!("{}, byte {}", self.name, self.base + pos as u64))
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.pos).copied()
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.pos += 1;
        }
    }

    /// Takes `word` when it is next.
    fn eat(&mut self, word: &str) -> bool {
        let found = self.text.as_bytes()[self.pos..].starts_with(word.as_bytes());
        if found {
            self.pos += word.len();
        }
        found
    }

    fn value(&mut self, depth: usize) -> Result<Json> {
        if depth > self.depth_max {
            return Err(self.error("the JSON is nested too deep"));
        }
        self.blanks();
        match self.peek() {
            None => Err(self.error("the JSON ends where a value is expected")),
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => Ok(Json::String(self.string()?)),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(_) if self.eat("true") => Ok(Json::Bool(true)),
            Some(_) if self.eat("false") => Ok(Json::Bool(false)),
            Some(_) if self.eat("null") => Ok(Json::Null),
            Some(_) if self.eat("NaN") => Ok(Json::Float(f64::NAN)),
            Some(_) if self.eat("Infinity") => Ok(Json::Float(f64::INFINITY)),
            Some(_) => Err(self.error("a JSON value is expected")),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Json> {
        self.pos += 1;
        let (mut members, mut places) = (Vec::new(), Vec::new());
        self.blanks();
        if self.eat("}") {
            return Ok(Json::Object(members));
        }
        loop {
            self.blanks();
            places.push(self.pos);
            if self.peek() != Some(b'"') {
                return Err(self.error("a JSON key is expected"));
            }
            let key = self.string()?;
            self.blanks();
            if !self.eat(":") {
                return Err(self.error("a ':' is expected after a JSON key"));
            }
            let value = self.value(depth + 1)?;
            members.push((key, value));
            self.blanks();
            if self.eat("}") {
                self.settle(&mut members, &places)?;
                return Ok(Json::Object(members));
            }
            if !self.eat(",") {
                return Err(self.error("a ',' or '}' is expected in a JSON object"));
            }
        }
    }

    /// Sees to keys that occur twice; `places` are where they stand.
    fn settle(&self, members: &mut Vec<(String, Json)>, places: &[usize]) -> Result<()> {
        let mut by_key = Vec::from_iter(0..members.len());
        // Equal keys stay in their order.
        order::sort_by(&mut by_key, |&a, &b| members[a].0.cmp(&members[b].0));
        let mut first = 0;
        let mut again = Vec::new();
        for i in 1..by_key.len() {
            let (kept, later) = (by_key[first], by_key[i]);
            if members[kept].0 != members[later].0 {
                first = i;
                continue;
            }
            if !self.last_counts {
                let what = format!("the JSON key {} occurs twice", members[later].0);
                return Err(self.error_at(places[later], &what));
            }
            members[kept].1 = core::mem::replace(&mut members[later].1, Json::Null);
            again.push(later);
        }
        if !again.is_empty() {
            order::sort(&mut again);
            let (mut at, mut rest) = (0, again.as_slice());
            members.retain(|_| {
                let gone = rest.first() == Some(&at);
                rest = &rest[usize::from(gone)..];
                at += 1;
                !gone
            });
        }
        Ok(())
    }

    fn array(&mut self, depth: usize) -> Result<Json> {
        self.pos += 1;
        let mut items = Vec::new();
        self.blanks();
        if self.eat("]") {
            return Ok(Json::Array(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            self.blanks();
            if self.eat("]") {
                return Ok(Json::Array(items));
            }
            if !self.eat(",") {
                return Err(self.error("a ',' or ']' is expected in a JSON array"));
            }
        }
    }

    /// Digits, at least one.
    fn digits(&mut self) -> Result<()> {
        let start = self.pos;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.pos += 1;
        }
        if self.pos == start {
            return Err(self.error("a digit is expected in a JSON number"));
        }
        Ok(())
    }

    fn number(&mut self) -> Result<Json> {
        let start = self.pos;
        if self.eat("-") && self.eat("Infinity") {
            return Ok(Json::Float(f64::NEG_INFINITY));
        }
        let whole = self.pos;
        self.digits()?;
        if self.pos > whole + 1 && self.text.as_bytes()[whole] == b'0' {
            return Err(self.error_at(whole, "a JSON number begins with 0"));
        }
        let mut integer = true;
        if self.eat(".") {
            integer = false;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            integer = false;
            self.pos += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.pos += 1;
            }
            self.digits()?;
        }
        let text = &self.text[start..self.pos];
        if integer && let Ok(value) = text.parse() {
            return Ok(Json::Integer(value));
        }
        text.parse()
            .map(Json::Float)
            .map_err(|_| self.error_at(start, "a JSON number is malformed"))
    }

    fn string(&mut self) -> Result<String> {
        let open = self.pos;
        self.pos += 1;
        let mut out = String::new();
        loop {
            let rest = &self.text[self.pos..];
            // Quote, backslash and controls are ASCII, so the cut is between characters.
            let Some(plain) = rest.find(|c: char| c == '"' || c == '\\' || c < ' ') else {
                return Err(self.error_at(open, "a JSON string has no end"));
            };
            out.push_str(&rest[..plain]);
            self.pos += plain;
            if self.eat("\"") {
                return Ok(out);
            }
            if !self.eat("\\") {
                return Err(self.error("a control character is in a JSON string"));
            }
            out.push(self.escape()?);
        }
    }

    /// What follows a backslash.
    fn escape(&mut self) -> Result<char> {
        let start = self.pos - 1;
        let Some(letter) = self.peek() else {
            return Err(self.error_at(start, "a JSON escape has no end"));
        };
        if letter != b'u' {
            let c = match letter {
                b'"' | b'\\' | b'/' => letter as char,
                b'b' => '\u{8}',
                b'f' => '\u{c}',
                b'n' => '\n',
                b'r' => '\r',
                b't' => '\t',
                _ => return Err(self.error_at(start, "a JSON escape is unknown")),
            };
            self.pos += 1;
            return Ok(c);
        }
        self.pos += 1;
        let mut unit = self.hex4(start)?;
        if (0xd800..0xdc00).contains(&unit) && self.eat("\\u") {
            let low = self.hex4(start)?;
            if (0xdc00..0xe000).contains(&low) {
                unit = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
            }
        }
        char::from_u32(unit)
            .ok_or_else(|| self.error_at(start, "a JSON escape is half of a surrogate pair"))
    }

    fn hex4(&mut self, start: usize) -> Result<u32> {
        let digits = self.text.as_bytes().get(self.pos..self.pos + 4);
        let unit = digits.and_then(|digits| {
            digits.iter().try_fold(0, |n, &b| Some(n * 16 + (b as char).to_digit(16)?))
        });
        let unit =
            unit.ok_or_else(|| self.error_at(start, "a JSON escape needs four hex digits"))?;
        self.pos += 4;
        Ok(unit)
    }
}

/// A value's type as errors name it.
pub(super) fn type_name(value: &Json) -> String {
    let name = match value {
        Json::Null => "null",
        Json::Bool(_) => "a bool",
        Json::Integer(_) | Json::Float(_) => "a number",
        Json::String(_) => "a string",
        Json::Array(_) => "an array",
        Json::Object(_) => "an object",
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Json> {
        Json::parse(text.as_bytes(), "x.json", 8)
    }

    #[test]
    fn values_of_every_kind_are_read() {
        let json = parse(
            " {\"a\": [1, -2, 3.5, 1e3, 18446744073709551616, true, false, null],\r\n \"b\": {}, \"c\": [] } ",
        )
        .unwrap();
        let a = json.get("a").unwrap().as_array().unwrap();
        assert_eq!(a[0].as_u64(), Some(1));
        assert_eq!(a[1], Json::Integer(-2));
        assert_eq!(a[1].as_u64(), None);
        assert_eq!(a[2].as_f64(), Some(3.5));
        assert_eq!(a[3], Json::Float(1000.0));
        assert_eq!(a[4].as_f64(), Some(18446744073709551616.0));
        assert_eq!((a[5].as_bool(), a[6].as_bool()), (Some(true), Some(false)));
        assert_eq!(a[7], Json::Null);
        assert_eq!(json.get("b"), Some(&Json::Object(Vec::new())));
        assert_eq!(json.get("c"), Some(&Json::Array(Vec::new())));
    }

    #[test]
    fn pythons_non_finite_numbers_are_read() {
        let json = parse("[NaN, Infinity, -Infinity]").unwrap();
        let values: Vec<f64> = json.as_array().unwrap().iter().filter_map(Json::as_f64).collect();
        assert!(values[0].is_nan());
        assert_eq!(values[1..], [f64::INFINITY, f64::NEG_INFINITY]);
    }

    #[test]
    fn escapes_are_resolved() {
        let json = parse(r#""a\"\\\/\b\f\n\r\tAé\uD83D\ude00\u00e9""#).unwrap();
        assert_eq!(json.as_str(), Some("a\"\\/\u{8}\u{c}\n\r\tAé😀é"));
    }

    #[test]
    fn faults_name_the_byte() {
        let cases = [
            ("", "the JSON ends where a value is expected (x.json, byte 8)"),
            ("[1 2]", "a ',' or ']' is expected in a JSON array (x.json, byte 11)"),
            ("[1,]", "a JSON value is expected (x.json, byte 11)"),
            ("{\"a\" 1}", "a ':' is expected after a JSON key (x.json, byte 13)"),
            ("{\"a\":1 \"b\"}", "a ',' or '}' is expected in a JSON object (x.json, byte 15)"),
            ("{1:2}", "a JSON key is expected (x.json, byte 9)"),
            ("{\"a\":1,\"a\":2}", "the JSON key a occurs twice (x.json, byte 15)"),
            ("1 1", "the JSON goes on after its end (x.json, byte 10)"),
            ("01", "a JSON number begins with 0 (x.json, byte 8)"),
            ("-", "a digit is expected in a JSON number (x.json, byte 9)"),
            ("1.", "a digit is expected in a JSON number (x.json, byte 10)"),
            ("1e", "a digit is expected in a JSON number (x.json, byte 10)"),
            ("\"abc", "a JSON string has no end (x.json, byte 8)"),
            ("\"a\nb\"", "a control character is in a JSON string (x.json, byte 10)"),
            (r#""\x""#, "a JSON escape is unknown (x.json, byte 9)"),
            (r#""\u12""#, "a JSON escape needs four hex digits (x.json, byte 9)"),
            (r#""\ud800x""#, "a JSON escape is half of a surrogate pair (x.json, byte 9)"),
            ("nul", "a JSON value is expected (x.json, byte 8)"),
        ];
        for (text, message) in cases {
            assert_eq!(parse(text).unwrap_err().to_string(), message, "{text:?}");
        }
        let bad = Json::parse(b"\"\xff\"", "x.json", 0).unwrap_err();
        assert_eq!(bad.to_string(), "the JSON is not UTF-8 (x.json, byte 1)");
    }

    #[test]
    fn members_keep_their_order_and_of_a_key_twice_the_last_value_may_count() {
        let text = r#"{"c": 1, "a": 2, "d": 3, "a": 4, "b": {}, "c": 5, "c": 6}"#;
        let member = |key: &str, n: i64| (key.to_owned(), Json::Integer(n));
        let empty = ("b".to_owned(), Json::Object(Vec::new()));
        let wanted = Vec::from([member("c", 6), member("a", 4), member("d", 3), empty]);
        assert_eq!(Json::parse_last(text, DEPTH_MAX).unwrap(), Json::Object(wanted));
        assert!(parse(text).unwrap_err().what.ends_with("occurs twice"));
        let distinct = parse(r#"{"b": 1, "a": 2}"#).unwrap();
        assert_eq!(distinct, Json::Object(Vec::from([member("b", 1), member("a", 2)])));
        // Keys in any number cost no more than sorting them.
        let many: Vec<String> = (0..100_000).map(|i| format!("\"{}\": {i}", i % 50_000)).collect();
        let json = Json::parse_last(&format!("{{{}}}", many.join(",")), 1).unwrap();
        assert_eq!(json.as_object().map(<[_]>::len), Some(50_000));
        assert_eq!(json.get("7").and_then(Json::as_u64), Some(50_007));
    }

    #[test]
    fn nesting_past_64_is_refused() {
        let nested = |n: usize| parse(&("[".repeat(n) + &"]".repeat(n)));
        assert!(nested(DEPTH_MAX).is_ok());
        let error = nested(DEPTH_MAX + 2).unwrap_err();
        assert_eq!(error.what, "the JSON is nested too deep");
        assert!(nested(100_000).is_err());
    }

    use alloc::string::ToString;
}
