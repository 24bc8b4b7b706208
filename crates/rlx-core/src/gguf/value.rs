//! Values of metadata keys.

use alloc::string::String;
use alloc::vec::Vec;

/// A metadata value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// 8-bit unsigned.
    U8(u8),
    /// 8-bit signed.
    I8(i8),
    /// 16-bit unsigned.
    U16(u16),
    /// 16-bit signed.
    I16(i16),
    /// 32-bit unsigned.
    U32(u32),
    /// 32-bit signed.
    I32(i32),
    /// 64-bit unsigned.
    U64(u64),
    /// 64-bit signed.
    I64(i64),
    /// 32-bit float.
    F32(f32),
    /// 64-bit float.
    F64(f64),
    /// One byte, 0 or 1.
    Bool(bool),
    /// UTF-8.
    String(String),
    /// Elements of one type.
    Array(Array),
}

/// An array value, stored as compactly as in the file.
#[derive(Clone, Debug, PartialEq)]
pub enum Array {
    /// 8-bit unsigned.
    U8(Vec<u8>),
    /// 8-bit signed.
    I8(Vec<i8>),
    /// 16-bit unsigned.
    U16(Vec<u16>),
    /// 16-bit signed.
    I16(Vec<i16>),
    /// 32-bit unsigned.
    U32(Vec<u32>),
    /// 32-bit signed.
    I32(Vec<i32>),
    /// 64-bit unsigned.
    U64(Vec<u64>),
    /// 64-bit signed.
    I64(Vec<i64>),
    /// 32-bit float.
    F32(Vec<f32>),
    /// 64-bit float.
    F64(Vec<f64>),
    /// One byte each, 0 or 1.
    Bool(Vec<bool>),
    /// UTF-8 strings.
    Strings(Strings),
}

/// A list of strings in one allocation: a vocabulary has 150 000 of a few bytes each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Strings {
    text: String,
    ends: Vec<u32>, // where string i ends in `text`; it begins where i - 1 ends
}

impl Strings {
    /// An empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends; `false`, and no change, when the list would pass 4 GiB.
    pub fn push(&mut self, text: &str) -> bool {
        let Ok(end) = u32::try_from(self.text.len() as u64 + text.len() as u64) else {
            return false;
        };
        self.text.push_str(text);
        self.ends.push(end);
        true
    }

    /// The number of strings.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// String `i`.
    pub fn get(&self, i: usize) -> Option<&str> {
        let end = *self.ends.get(i)? as usize;
        let start = if i == 0 { 0 } else { self.ends[i - 1] as usize };
        Some(&self.text[start..end])
    }

    /// The strings in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        // `get` is `Some` for every i below `len`.
        (0..self.len()).map(|i| self.get(i).unwrap_or_default())
    }
}

impl<'a> FromIterator<&'a str> for Strings {
    /// Collects; strings past 4 GiB are left out.
    fn from_iter<I: IntoIterator<Item = &'a str>>(iter: I) -> Self {
        let mut strings = Self::new();
        for text in iter {
            strings.push(text);
        }
        strings
    }
}

/// A value's type in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    F32,
    Bool,
    String,
    Array,
    U64,
    I64,
    F64,
}

impl Kind {
    /// In order of the file's ids.
    const ALL: [Kind; 13] = [
        Kind::U8,
        Kind::I8,
        Kind::U16,
        Kind::I16,
        Kind::U32,
        Kind::I32,
        Kind::F32,
        Kind::Bool,
        Kind::String,
        Kind::Array,
        Kind::U64,
        Kind::I64,
        Kind::F64,
    ];

    pub(super) fn from_id(id: u32) -> Option<Kind> {
        Self::ALL.get(id as usize).copied()
    }

    pub(super) fn id(self) -> u32 {
        self as u32
    }

    /// Bytes of one value; a string's least (its length), and 0 for an array.
    pub(super) fn bytes(self) -> usize {
        match self {
            Kind::U8 | Kind::I8 | Kind::Bool => 1,
            Kind::U16 | Kind::I16 => 2,
            Kind::U32 | Kind::I32 | Kind::F32 => 4,
            Kind::U64 | Kind::I64 | Kind::F64 | Kind::String => 8,
            Kind::Array => 0,
        }
    }
}

impl Value {
    /// The type as errors name it: `u32`, `string`, `array of i32`.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::U8(_) => "u8",
            Value::I8(_) => "i8",
            Value::U16(_) => "u16",
            Value::I16(_) => "i16",
            Value::U32(_) => "u32",
            Value::I32(_) => "i32",
            Value::U64(_) => "u64",
            Value::I64(_) => "i64",
            Value::F32(_) => "f32",
            Value::F64(_) => "f64",
            Value::Bool(_) => "bool",
            Value::String(_) => "string",
            Value::Array(array) => match array {
                Array::U8(_) => "array of u8",
                Array::I8(_) => "array of i8",
                Array::U16(_) => "array of u16",
                Array::I16(_) => "array of i16",
                Array::U32(_) => "array of u32",
                Array::I32(_) => "array of i32",
                Array::U64(_) => "array of u64",
                Array::I64(_) => "array of i64",
                Array::F32(_) => "array of f32",
                Array::F64(_) => "array of f64",
                Array::Bool(_) => "array of bool",
                Array::Strings(_) => "array of strings",
            },
        }
    }

    /// The value of any integer type.
    pub fn as_integer(&self) -> Option<i128> {
        Some(match *self {
            Value::U8(v) => v.into(),
            Value::I8(v) => v.into(),
            Value::U16(v) => v.into(),
            Value::I16(v) => v.into(),
            Value::U32(v) => v.into(),
            Value::I32(v) => v.into(),
            Value::U64(v) => v.into(),
            Value::I64(v) => v.into(),
            _ => return None,
        })
    }

    pub(super) fn kind(&self) -> Kind {
        match self {
            Value::U8(_) => Kind::U8,
            Value::I8(_) => Kind::I8,
            Value::U16(_) => Kind::U16,
            Value::I16(_) => Kind::I16,
            Value::U32(_) => Kind::U32,
            Value::I32(_) => Kind::I32,
            Value::U64(_) => Kind::U64,
            Value::I64(_) => Kind::I64,
            Value::F32(_) => Kind::F32,
            Value::F64(_) => Kind::F64,
            Value::Bool(_) => Kind::Bool,
            Value::String(_) => Kind::String,
            Value::Array(_) => Kind::Array,
        }
    }
}

impl Array {
    /// The number of elements.
    pub fn len(&self) -> usize {
        match self {
            Array::U8(v) => v.len(),
            Array::I8(v) => v.len(),
            Array::U16(v) => v.len(),
            Array::I16(v) => v.len(),
            Array::U32(v) => v.len(),
            Array::I32(v) => v.len(),
            Array::U64(v) => v.len(),
            Array::I64(v) => v.len(),
            Array::F32(v) => v.len(),
            Array::F64(v) => v.len(),
            Array::Bool(v) => v.len(),
            Array::Strings(v) => v.len(),
        }
    }

    /// True when there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn kind(&self) -> Kind {
        match self {
            Array::U8(_) => Kind::U8,
            Array::I8(_) => Kind::I8,
            Array::U16(_) => Kind::U16,
            Array::I16(_) => Kind::I16,
            Array::U32(_) => Kind::U32,
            Array::I32(_) => Kind::I32,
            Array::U64(_) => Kind::U64,
            Array::I64(_) => Kind::I64,
            Array::F32(_) => Kind::F32,
            Array::F64(_) => Kind::F64,
            Array::Bool(_) => Kind::Bool,
            Array::Strings(_) => Kind::String,
        }
    }

    /// An empty array of that element type; `None` for arrays of arrays, which GGUF files of
    /// models do not have.
    pub(super) fn empty(kind: Kind) -> Option<Array> {
        Some(match kind {
            Kind::U8 => Array::U8(Vec::new()),
            Kind::I8 => Array::I8(Vec::new()),
            Kind::U16 => Array::U16(Vec::new()),
            Kind::I16 => Array::I16(Vec::new()),
            Kind::U32 => Array::U32(Vec::new()),
            Kind::I32 => Array::I32(Vec::new()),
            Kind::U64 => Array::U64(Vec::new()),
            Kind::I64 => Array::I64(Vec::new()),
            Kind::F32 => Array::F32(Vec::new()),
            Kind::F64 => Array::F64(Vec::new()),
            Kind::Bool => Array::Bool(Vec::new()),
            Kind::String => Array::Strings(Strings::new()),
            Kind::Array => return None,
        })
    }
}
