//! Element types as the shim numbers them.

use rlx_core::types::{DType, Scalar};

/// An element type of MLX.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Bool = 0,
    U8 = 1,
    U32 = 3,
    U64 = 4,
    I8 = 5,
    I16 = 6,
    I32 = 7,
    I64 = 8,
    F16 = 9,
    F32 = 10,
    F64 = 11,
    Bf16 = 12,
}

impl Kind {
    /// The kind of a scalar type; none for complex numbers, which RLX asks nothing of here.
    pub(crate) fn of(dtype: DType) -> Option<Kind> {
        let DType::Scalar(scalar) = dtype else { return None };
        Some(match scalar {
            Scalar::F64 => Kind::F64,
            Scalar::F32 => Kind::F32,
            Scalar::F16 => Kind::F16,
            Scalar::Bf16 => Kind::Bf16,
            Scalar::I64 => Kind::I64,
            Scalar::I32 => Kind::I32,
            Scalar::I16 => Kind::I16,
            Scalar::I8 => Kind::I8,
            Scalar::U32 => Kind::U32,
            Scalar::U8 => Kind::U8,
            Scalar::Bool => Kind::Bool,
            Scalar::C64 => return None,
        })
    }

    /// Whether numbers of it have a fraction.
    pub(crate) fn is_float(self) -> bool {
        matches!(self, Kind::F16 | Kind::F32 | Kind::F64 | Kind::Bf16)
    }
}
