//! Indices that operands hold: u32, i32 or i64; a negative one counts from the end.

use crate::kernels::elements::indices::Words;
use crate::kernels::emit::{Emit, Place};
use crate::kernels::takes::{self, Taken};
use crate::kernels::unsupported;
use rlx_core::Result;
use rlx_core::ir::lir::Slice;
use rlx_core::types::{DType, Kind, Type};

/// Tensors of u32, i32 or i64.
pub(super) fn takes(i: usize, ty: &Type) -> Taken {
    let integer = [DType::U32, DType::I32, DType::I64].contains(&ty.dtype);
    if ty.kind == Kind::Tensor && integer { Ok(()) } else { Err(takes::not(i, ty)) }
}

/// `fn place(j: u32) -> u32`, the index that element `j` of `ids` stands for on an axis of `n`: one outside
/// is the nearest of the axis where `nearest` is set, and otherwise `NOWHERE`.
///
/// # Errors
/// `Unsupported` for axes of 2^31 elements and more, or of none.
pub(super) fn places(
    ids: &Slice,
    n: u64,
    nearest: bool,
    words: &mut Words,
    emit: &mut Emit<'_>,
) -> Result<String> {
    if n == 0 || n > i32::MAX as u64 {
        return Err(unsupported(format!("indices of an axis of {n} elements")));
    }
    let Place { var, byte } = emit.read(ids)?;
    let (start, n) = (words.bits(byte / 4), words.size(n)?);
    let (below, above) =
        if nearest { ("0u", format!("{n} - 1u")) } else { ("NOWHERE", "NOWHERE".into()) };
    let text = match ids.ty.dtype {
        DType::U32 => {
            format!("let id = {var}[{start} + j];\n    return select({above}, id, id < {n});")
        }
        DType::I32 => format!(
            "let bits = {var}[{start} + j];\n    let id = bitcast<i32>(bits);\n    \
             if id >= 0 {{ return select({above}, bits, bits < {n}); }}\n    \
             return select({below}, bits + {n}, id >= -bitcast<i32>({n}));"
        ),
        _ => format!(
            "let low = {var}[{start} + 2u * j];\n    let high = {var}[{start} + 2u * j + 1u];\n    \
             if high == 0u {{ return select({above}, low, low < {n}); }}\n    \
             if high < 0x80000000u {{ return {above}; }}\n    \
             return select({below}, low + {n}, high == 0xffffffffu && low + {n} < {n});"
        ),
    };
    Ok(format!("const NOWHERE = 0xffffffffu;\nfn place(j: u32) -> u32 {{\n    {text}\n}}\n"))
}
