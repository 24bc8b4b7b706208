//! Element types: scalars and ggml's packed blocks.

use super::BlockFormat;
use core::fmt;

/// A scalar element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scalar {
    /// 64-bit IEEE float.
    F64,
    /// 32-bit IEEE float.
    F32,
    /// 16-bit IEEE float.
    F16,
    /// The upper half of an f32.
    Bf16,
    /// 64-bit signed integer.
    I64,
    /// 32-bit signed integer.
    I32,
    /// 16-bit signed integer.
    I16,
    /// 8-bit signed integer.
    I8,
    /// 32-bit unsigned integer.
    U32,
    /// 8-bit unsigned integer.
    U8,
    /// One byte, 0 or 1.
    Bool,
    /// Two f32: real, imaginary.
    C64,
}

impl Scalar {
    /// Every scalar with its name in text IR and its bytes.
    pub const ALL: [(Scalar, &'static str, usize); 12] = [
        (Scalar::F64, "f64", 8),
        (Scalar::F32, "f32", 4),
        (Scalar::F16, "f16", 2),
        (Scalar::Bf16, "bf16", 2),
        (Scalar::I64, "i64", 8),
        (Scalar::I32, "i32", 4),
        (Scalar::I16, "i16", 2),
        (Scalar::I8, "i8", 1),
        (Scalar::U32, "u32", 4),
        (Scalar::U8, "u8", 1),
        (Scalar::Bool, "bool", 1),
        (Scalar::C64, "c64", 8),
    ];

    /// Bytes of one element.
    pub fn bytes(self) -> usize {
        Self::ALL[self as usize].2
    }

    /// The name in text IR.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

/// An element type: a scalar, or a block of elements packed together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DType {
    /// One element, one value.
    Scalar(Scalar),
    /// A row is a sequence of whole blocks; elements have no address of their own.
    Block(BlockFormat),
}

impl DType {
    /// 32-bit float.
    pub const F32: DType = DType::Scalar(Scalar::F32);
    /// 16-bit float.
    pub const F16: DType = DType::Scalar(Scalar::F16);
    /// bfloat16.
    pub const BF16: DType = DType::Scalar(Scalar::Bf16);
    /// 32-bit unsigned integer.
    pub const U32: DType = DType::Scalar(Scalar::U32);
    /// 32-bit signed integer.
    pub const I32: DType = DType::Scalar(Scalar::I32);

    /// 64-bit float.
    pub const F64: DType = DType::Scalar(Scalar::F64);
    /// 64-bit signed integer.
    pub const I64: DType = DType::Scalar(Scalar::I64);
    /// A byte, 0 or 1.
    pub const BOOL: DType = DType::Scalar(Scalar::Bool);

    /// Elements that share a block: 1 for a scalar.
    pub fn block_elements(self) -> usize {
        match self {
            Self::Scalar(_) => 1,
            Self::Block(b) => b.elements(),
        }
    }

    /// Bytes of one block: of one element for a scalar.
    pub fn block_bytes(self) -> usize {
        match self {
            Self::Scalar(s) => s.bytes(),
            Self::Block(b) => b.bytes(),
        }
    }

    /// Bytes of `elements` in a row, or `None` when they are no whole number of blocks or overflow.
    pub fn row_bytes(self, elements: u64) -> Option<u64> {
        let per = self.block_elements() as u64;
        if !elements.is_multiple_of(per) {
            return None;
        }
        (elements / per).checked_mul(self.block_bytes() as u64)
    }

    /// True for a packed type.
    pub fn is_block(self) -> bool {
        matches!(self, Self::Block(_))
    }

    /// True for `f64 f32 f16 bf16`.
    pub fn is_float(self) -> bool {
        matches!(self, Self::Scalar(Scalar::F64 | Scalar::F32 | Scalar::F16 | Scalar::Bf16))
    }

    /// True for `i64 i32 i16 i8 u32 u8`.
    pub fn is_int(self) -> bool {
        use Scalar::{I8, I16, I32, I64, U8, U32};
        matches!(self, Self::Scalar(I64 | I32 | I16 | I8 | U32 | U8))
    }

    /// The name in text IR: `f32`, `q4_k`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Scalar(s) => s.name(),
            Self::Block(b) => b.name(),
        }
    }

    /// The type of that name.
    pub fn from_name(name: &str) -> Option<DType> {
        Scalar::ALL
            .iter()
            .find(|row| row.1 == name)
            .map(|row| DType::Scalar(row.0))
            .or_else(|| BlockFormat::from_name(name).map(DType::Block))
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
