//! Element types, and how numbers of them are written.

use crate::pjrt::Element;

/// An element type of StableHLO.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum El {
    /// 1 bit: 0 or 1.
    Bool,
    /// 8-bit signed integer.
    I8,
    /// 16-bit signed integer.
    I16,
    /// 32-bit signed integer.
    I32,
    /// 64-bit signed integer.
    I64,
    /// 8-bit unsigned integer.
    U8,
    /// 16-bit unsigned integer.
    U16,
    /// 32-bit unsigned integer.
    U32,
    /// 64-bit unsigned integer.
    U64,
    /// 16-bit IEEE float.
    F16,
    /// The upper half of an f32.
    Bf16,
    /// 32-bit IEEE float.
    F32,
    /// 64-bit IEEE float.
    F64,
    /// Two f32: real, imaginary.
    C64,
}

impl El {
    /// The name in the text.
    pub fn name(self) -> &'static str {
        match self {
            El::Bool => "i1",
            El::I8 => "i8",
            El::I16 => "i16",
            El::I32 => "i32",
            El::I64 => "i64",
            El::U8 => "ui8",
            El::U16 => "ui16",
            El::U32 => "ui32",
            El::U64 => "ui64",
            El::F16 => "f16",
            El::Bf16 => "bf16",
            El::F32 => "f32",
            El::F64 => "f64",
            El::C64 => "complex<f32>",
        }
    }

    /// The type of tensors that a device has of it.
    pub fn element(self) -> Element {
        match self {
            El::Bool => Element::Bool,
            El::I8 => Element::I8,
            El::I16 => Element::I16,
            El::I32 => Element::I32,
            El::I64 => Element::I64,
            El::U8 => Element::U8,
            El::U16 => Element::U16,
            El::U32 => Element::U32,
            El::U64 => Element::U64,
            El::F16 => Element::F16,
            El::Bf16 => Element::Bf16,
            El::F32 => Element::F32,
            El::F64 => Element::F64,
            El::C64 => Element::C64,
        }
    }

    /// Whether it is a float.
    pub fn is_float(self) -> bool {
        matches!(self, El::F16 | El::Bf16 | El::F32 | El::F64)
    }

    /// Whether it is a signed integer.
    pub fn is_signed(self) -> bool {
        matches!(self, El::I8 | El::I16 | El::I32 | El::I64)
    }

    /// Bits of one; of a boolean 1.
    pub fn bits(self) -> u32 {
        match self {
            El::Bool => 1,
            El::I8 | El::U8 => 8,
            El::I16 | El::U16 | El::F16 | El::Bf16 => 16,
            El::I32 | El::U32 | El::F32 => 32,
            El::I64 | El::U64 | El::F64 | El::C64 => 64,
        }
    }

    /// The type in which products and sums of this type are computed.
    pub fn wide(self) -> El {
        match self {
            El::F16 | El::Bf16 => El::F32,
            other => other,
        }
    }
}

/// A number as the text has it: decimal where that is short, and its bits otherwise.
pub(super) fn number(el: El, x: f64) -> String {
    match el {
        El::Bool => (x != 0.0).to_string(),
        El::C64 => format!("({}, 0.0)", number(El::F32, x)),
        _ if !el.is_float() => {
            let least = if el.is_signed() { -(2f64.powi(el.bits() as i32 - 1)) } else { 0.0 };
            let most = 2f64.powi(el.bits() as i32 - i32::from(el.is_signed())) - 1.0;
            // Numbers of 64 bits stay exact where a float is: the largest are ends of the type.
            match (el, x >= most, x <= least) {
                (El::I64, true, _) => i64::MAX.to_string(),
                (El::U64, true, _) => u64::MAX.to_string(),
                // The reader takes the number without its sign first, which this one does not have.
                (El::I64, _, true) => "\"0x0000000000000080\"".into(),
                (_, true, _) => format!("{most}"),
                (_, _, true) => format!("{least}"),
                _ => format!("{}", x.trunc()),
            }
        }
        _ => {
            let short = format!("{x:?}");
            let plain = x.is_finite() && !short.contains('e') && short.len() <= 8;
            match el {
                // Few digits are the nearest number of every type, and the reader rounds them.
                _ if plain => short,
                El::F16 => format!("0x{:04X}", half::f16::from_f64(x).to_bits()),
                El::Bf16 => format!("0x{:04X}", half::bf16::from_f64(x).to_bits()),
                El::F32 => format!("0x{:08X}", (x as f32).to_bits()),
                _ => format!("0x{:016X}", x.to_bits()),
            }
        }
    }
}
