//! Elements of every scalar type, as `elements.cuh` names them.

use super::emit::Emit;
use rlx_core::types::{DType, Scalar};

/// The type in a kernel's text; none for packed elements and complex ones, with which kernels do not compute.
pub(super) fn stored(dtype: DType) -> Option<&'static str> {
    let DType::Scalar(scalar) = dtype else { return None };
    Some(match scalar {
        Scalar::F64 => "f64",
        Scalar::F32 => "f32",
        Scalar::F16 => "f16",
        Scalar::Bf16 => "bf16",
        Scalar::I64 => "i64",
        Scalar::I32 => "i32",
        Scalar::I16 => "i16",
        Scalar::I8 => "i8",
        Scalar::U32 => "u32",
        Scalar::U8 => "u8",
        Scalar::Bool => "flag",
        Scalar::C64 => return None,
    })
}

/// The type that its values are computed in.
pub(super) fn computed(dtype: DType) -> Option<&'static str> {
    Some(match stored(dtype)? {
        "f16" | "bf16" => "f32",
        "flag" => "bool",
        same => same,
    })
}

impl Emit<'_> {
    /// Puts the definitions of element types in front of the operator's text.
    pub fn elements(&mut self) {
        self.definitions.insert_str(0, include_str!("elements.cuh"));
    }
}
