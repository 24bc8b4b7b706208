//! What `takes` functions ask in common. Every reason is the end of a sentence that starts with
//! "mlx does not run zip: ".

use crate::tape::Kind;
use rlx_core::ops::Op;
use rlx_core::target::Target;
use rlx_core::types::{DType, Kind as TypeKind, Type};

/// Why an operator is not taken.
pub(super) type Taken = Result<(), String>;

/// Refuses attributes that the lowering does not know: one that an operator gains later is refused until its lowering
/// names it.
pub(super) fn knows(op: &Op, attributes: &[&str]) -> Taken {
    match op.attrs().0.iter().find(|a| !attributes.contains(&a.0.as_str())) {
        Some((name, _)) => Err(format!("its kernel has no {name}")),
        None => Ok(()),
    }
}

fn refuse(i: usize, ty: &Type) -> Taken {
    Err(format!("its kernel takes no {} as operand {i}", ty.dtype))
}

/// Refuses an operand that is no tensor of f32.
pub(super) fn is_f32(i: usize, ty: &Type) -> Taken {
    let fits = ty.kind == TypeKind::Tensor && ty.dtype == DType::F32;
    if fits { Ok(()) } else { refuse(i, ty) }
}

/// Refuses an operand that is no tensor of f32, f16 or bf16.
pub(super) fn is_float(i: usize, ty: &Type) -> Taken {
    let fits = ty.kind == TypeKind::Tensor && is_common(ty.dtype);
    if fits { Ok(()) } else { refuse(i, ty) }
}

/// Refuses operands that are no tensors of f32, f16 or bf16.
pub(super) fn are_floats(operands: &[&Type]) -> Taken {
    operands.iter().enumerate().try_for_each(|(i, ty)| is_float(i, ty))
}

/// Whether a type is f32, f16 or bf16.
pub(super) fn is_common(dtype: DType) -> bool {
    [DType::F32, DType::F16, DType::BF16].contains(&dtype)
}

/// Refuses an operand of complex numbers or f64, which Apple's GPUs have not.
pub(super) fn is_scalar(i: usize, ty: &Type) -> Taken {
    match Kind::of(ty.dtype) {
        Some(Kind::F64) | None => refuse(i, ty),
        Some(_) => Ok(()),
    }
}

/// Refuses operands of complex numbers, f64 or blocks.
pub(super) fn are_scalars(operands: &[&Type]) -> Taken {
    operands.iter().enumerate().try_for_each(|(i, ty)| is_scalar(i, ty))
}

/// Of views, which are taken whatever their operands are.
pub(super) fn nothing_more(_: &Op, operands: &[&Type], _: &Target) -> Taken {
    are_scalars(operands)
}
