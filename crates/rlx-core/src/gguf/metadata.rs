//! Metadata: typed reads whose errors name the key, what it is, what it should be, and the byte.

use super::value::{Array, Strings, Value};
use super::{HINT_DAMAGED, place};
use crate::{Error, Result};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// One metadata pair.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The value.
    pub value: Value,
    /// The byte of the file where the value begins, after its type; an array begins with its
    /// element type.
    pub at: u64,
}

/// The metadata of one file, by key.
#[derive(Clone, Debug, PartialEq)]
pub struct Metadata {
    file: String,
    entries: BTreeMap<String, Entry>,
}

/// A pair of getters: one for a key that must be there, one for a key that may.
macro_rules! getters {
    ($($(#[$doc:meta])* $get:ident $find:ident -> $t:ty, $need:literal, $read:expr;)*) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        ///
        /// `BadFile` when the key is missing or holds something else.
        pub fn $get(&self, key: &str) -> Result<$t> {
            self.$find(key)?.ok_or_else(|| self.missing(key))
        }

        /// The same for a key that may be absent.
        ///
        /// # Errors
        ///
        /// `BadFile` when the key holds something else.
        pub fn $find(&self, key: &str) -> Result<Option<$t>> {
            let Some(entry) = self.entries.get(key) else { return Ok(None) };
            let read: fn(&Value) -> Option<$t> = $read;
            match read(&entry.value) {
                Some(value) => Ok(Some(value)),
                None => Err(self.wrong_type(key, entry, $need)),
            }
        }
    )*};
}

impl Metadata {
    /// Metadata of the file of that name.
    pub fn new(file: impl Into<String>, entries: BTreeMap<String, Entry>) -> Self {
        Self { file: file.into(), entries }
    }

    /// The file's name, as errors show it.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The pair of that key.
    pub fn get(&self, key: &str) -> Option<&Entry> {
        self.entries.get(key)
    }

    /// The pairs, by key. Sort by [`Entry::at`] for the file's order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.entries.iter().map(|(key, entry)| (key.as_str(), entry))
    }

    getters! {
        /// A non-negative integer of any integer type that fits 32 bits.
        u32 opt_u32 -> u32, "u32", |v| v.as_integer()?.try_into().ok();
        /// A non-negative integer of any integer type.
        u64 opt_u64 -> u64, "u64", |v| v.as_integer()?.try_into().ok();
        /// A float of either width.
        f32 opt_f32 -> f32, "f32", |v| match *v {
            Value::F32(v) => Some(v),
            Value::F64(v) => Some(v as f32),
            _ => None,
        };
        /// A bool.
        bool opt_bool -> bool, "bool", |v| match *v {
            Value::Bool(v) => Some(v),
            _ => None,
        };
        /// The bytes of a list of i8 or u8.
        bytes opt_bytes -> Vec<u8>, "array of i8 or u8", |v| match v {
            Value::Array(Array::U8(v)) => Some(v.clone()),
            Value::Array(Array::I8(v)) => Some(v.iter().map(|&b| b as u8).collect()),
            _ => None,
        };
        /// Non-negative integers of any 32-bit type; one integer counts as a list of one.
        u32s opt_u32s -> Vec<u32>, "array of u32", |v| match v {
            Value::Array(Array::U32(v)) => Some(v.clone()),
            Value::Array(Array::I32(v)) => v.iter().map(|&v| u32::try_from(v).ok()).collect(),
            other => Some(alloc::vec![u32::try_from(other.as_integer()?).ok()?]),
        };
    }

    /// A string.
    ///
    /// # Errors
    ///
    /// `BadFile` when the key is missing or holds something else.
    pub fn str(&self, key: &str) -> Result<&str> {
        self.opt_str(key)?.ok_or_else(|| self.missing(key))
    }

    /// A string that may be absent.
    ///
    /// # Errors
    ///
    /// `BadFile` when the key holds something else.
    pub fn opt_str(&self, key: &str) -> Result<Option<&str>> {
        self.borrow(key, "string", |v| match v {
            Value::String(v) => Some(v.as_str()),
            _ => None,
        })
    }

    /// A list of strings.
    ///
    /// # Errors
    ///
    /// `BadFile` when the key is missing or holds something else.
    pub fn strings(&self, key: &str) -> Result<&Strings> {
        self.opt_strings(key)?.ok_or_else(|| self.missing(key))
    }

    /// A list of strings that may be absent.
    ///
    /// # Errors
    ///
    /// `BadFile` when the key holds something else.
    pub fn opt_strings(&self, key: &str) -> Result<Option<&Strings>> {
        self.borrow(key, "array of strings", |v| match v {
            Value::Array(Array::Strings(v)) => Some(v),
            _ => None,
        })
    }

    /// A list of i32 that may be absent.
    ///
    /// # Errors
    ///
    /// `BadFile` when the key holds something else.
    pub fn opt_i32s(&self, key: &str) -> Result<Option<&[i32]>> {
        self.borrow(key, "array of i32", |v| match v {
            Value::Array(Array::I32(v)) => Some(v.as_slice()),
            _ => None,
        })
    }

    /// A list of f32 that may be absent.
    ///
    /// # Errors
    ///
    /// `BadFile` when the key holds something else.
    pub fn opt_f32s(&self, key: &str) -> Result<Option<&[f32]>> {
        self.borrow(key, "array of f32", |v| match v {
            Value::Array(Array::F32(v)) => Some(v.as_slice()),
            _ => None,
        })
    }

    /// The error for a key that is not there.
    pub fn missing(&self, key: &str) -> Error {
        Error::bad_file(format!("metadata key {key} is missing"))
            .at(self.file.clone())
            .hint("use a file that its converter finished, made for language models")
    }

    /// An error about the value of a key; it names the byte where the value begins.
    pub fn bad_value(&self, key: &str, what: impl Into<String>) -> Error {
        let at = match self.entries.get(key) {
            Some(entry) => place(&self.file, entry.at),
            None => self.file.clone(),
        };
        Error::bad_file(what).at(at).hint(HINT_DAMAGED)
    }

    /// Names the byte of the type field, which is the four before the value.
    fn wrong_type(&self, key: &str, entry: &Entry, need: &str) -> Error {
        let got = match entry.value.as_integer() {
            Some(value) => format!("the {} {value}", entry.value.type_name()),
            None => entry.value.type_name().to_string(),
        };
        Error::bad_file(format!("{key} is {got}, expected {need}"))
            .at(place(&self.file, entry.at.saturating_sub(4)))
            .hint("convert the model again with a current converter")
    }

    fn borrow<'a, T>(
        &'a self,
        key: &str,
        need: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(entry) = self.entries.get(key) else { return Ok(None) };
        match read(&entry.value) {
            Some(value) => Ok(Some(value)),
            None => Err(self.wrong_type(key, entry, need)),
        }
    }
}
