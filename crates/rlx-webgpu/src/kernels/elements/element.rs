//! Elements of every scalar type up to 32 bits in arrays of words: how WGSL reads one, what it computes with,
//! and how it is written.
//!
//! A value starts at a whole word (the plan places it so) and its elements follow each other without gaps:
//! four bytes or booleans, two halves, or one of 32 bits share a word, the first in the lowest bits. A kernel
//! writes whole words: the invocation that makes a word makes all of its elements.

use crate::kernels::emit::Place;
use rlx_core::types::{DType, Scalar};

/// What WGSL computes with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::kernels) enum Register {
    F32,
    I32,
    U32,
    Bool,
}

impl Register {
    /// The type in WGSL.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::I32 => "i32",
            Self::U32 => "u32",
            Self::Bool => "bool",
        }
    }
}

/// A scalar type of at most 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::kernels) struct Element(Scalar);

impl Element {
    /// `None` for types of 64 bits and packed ones.
    pub fn of(dtype: DType) -> Option<Element> {
        match dtype {
            DType::Scalar(scalar) if scalar.bytes() <= 4 => Some(Element(scalar)),
            _ => None,
        }
    }

    /// The register that holds its values.
    pub fn register(self) -> Register {
        match self.0 {
            Scalar::I32 | Scalar::I16 | Scalar::I8 => Register::I32,
            Scalar::U32 | Scalar::U8 => Register::U32,
            Scalar::Bool => Register::Bool,
            _ => Register::F32,
        }
    }

    /// True for f16 and bf16.
    pub fn is_half(self) -> bool {
        matches!(self.0, Scalar::F16 | Scalar::Bf16)
    }

    /// Elements in a word.
    pub fn per_word(self) -> u64 {
        4 / self.0.bytes() as u64
    }

    /// The expression of the value that has these bits.
    pub fn value(self, bits: &str) -> String {
        match self.0 {
            Scalar::F16 => format!("unpack2x16float({bits}).x"),
            Scalar::Bf16 => format!("bitcast<f32>(({bits}) << 16u)"),
            Scalar::I32 => format!("bitcast<i32>({bits})"),
            Scalar::I16 => format!("(bitcast<i32>(({bits}) << 16u) >> 16u)"),
            Scalar::I8 => format!("(bitcast<i32>(({bits}) << 24u) >> 24u)"),
            Scalar::U32 | Scalar::U8 => bits.to_owned(),
            Scalar::Bool => format!("(({bits}) != 0u)"),
            _ => format!("bitcast<f32>({bits})"),
        }
    }

    /// The expression of a value's bits, rounded or wrapped to the type.
    pub fn bits(self, value: &str) -> String {
        match self.0 {
            Scalar::F16 => format!("f16_bits({value})"),
            Scalar::Bf16 => format!("bf16_bits({value})"),
            Scalar::I16 => format!("(bitcast<u32>({value}) & 0xffffu)"),
            Scalar::I8 => format!("(bitcast<u32>({value}) & 0xffu)"),
            Scalar::U32 => value.to_owned(),
            Scalar::U8 => format!("(({value}) & 0xffu)"),
            Scalar::Bool => format!("select(0u, 1u, {value})"),
            _ => format!("bitcast<u32>({value})"),
        }
    }

    /// The expression of a value as the type would hold it.
    pub fn rounded(self, value: &str) -> String {
        match self.0 {
            Scalar::F16 | Scalar::Bf16 | Scalar::I16 | Scalar::I8 | Scalar::U8 => {
                self.value(&self.bits(value))
            }
            _ => value.to_owned(),
        }
    }

    /// `fn bits_<name>(i: u32) -> u32`, the bits of element `i` of an array that starts at the word `start`.
    pub fn reader(self, name: &str, place: &Place, start: &str) -> String {
        self.reader_of(name, &|i| format!("{}[{start} + {i}]", place.var))
    }

    /// The reader over words, of which `word` prints the one at an index.
    fn reader_of(self, name: &str, word: &dyn Fn(&str) -> String) -> String {
        let text = match self.per_word() {
            1 => word("i"),
            2 => format!("({} >> ((i & 1u) * 16u)) & 0xffffu", word("(i >> 1u)")),
            _ => format!("({} >> ((i & 3u) * 8u)) & 0xffu", word("(i >> 2u)")),
        };
        format!("fn bits_{name}(i: u32) -> u32 {{ return {text}; }}\n")
    }

    /// The reader, and `fn load_<name>(i: u32) -> f32` (or what its register is) over it.
    pub fn loader(self, name: &str, place: &Place, start: &str) -> String {
        self.reader(name, place, start) + &self.load(name)
    }

    /// The same for an array of 16 bytes, in which the word `start` is the first.
    pub fn loader_in_quads(self, name: &str, place: &Place, start: &str) -> String {
        let word = |i: &str| format!("{0}[({start} + {i}) >> 2u][({start} + {i}) & 3u]", place.var);
        self.reader_of(name, &word) + &self.load(name)
    }

    fn load(self, name: &str) -> String {
        let (register, value) = (self.register().name(), self.value(&format!("bits_{name}(i)")));
        format!("fn load_{name}(i: u32) -> {register} {{ return {value}; }}\n")
    }

    /// WGSL functions that [`bits`](Self::bits) calls.
    pub fn helpers(self) -> &'static str {
        match self.0 {
            Scalar::F16 => wgsl!("f16_bits.wgsl"),
            Scalar::Bf16 => wgsl!("bf16_bits.wgsl"),
            _ => "",
        }
    }
}

/// The texts, each once.
pub(in crate::kernels) fn once(texts: impl IntoIterator<Item = impl Into<String>>) -> String {
    let mut all: Vec<String> = Vec::new();
    for text in texts {
        let text = text.into();
        if !all.contains(&text) {
            all.push(text);
        }
    }
    all.concat()
}
