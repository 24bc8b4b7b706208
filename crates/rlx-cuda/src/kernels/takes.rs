//! What the kernels' own `takes` functions ask in common.
//!
//! Every reason is the end of a sentence that starts with "cuda does not run zip: ".

use rlx_core::ops::Op;
use rlx_core::types::{DType, Kind, Type};

/// Why a kernel does not take an operator.
pub(super) type Taken = Result<(), String>;

/// Refuses attributes that the kernel does not know: one that an operator gains later is refused until its kernel
/// names it.
pub(super) fn knows(op: &Op, attributes: &[&str]) -> Taken {
    match op.attrs().0.iter().find(|a| !attributes.contains(&a.0.as_str())) {
        Some((name, _)) => Err(format!("its kernel has no {name}")),
        None => Ok(()),
    }
}

/// Refuses an operand that is no tensor of f32.
pub(super) fn is_f32(i: usize, ty: &Type) -> Taken {
    let fits = ty.kind == Kind::Tensor && ty.dtype == DType::F32;
    if fits { Ok(()) } else { Err(format!("its kernel takes no {} as operand {i}", ty.dtype)) }
}

/// Refuses operands that are no tensors of f32.
pub(super) fn are_f32(operands: &[&Type]) -> Taken {
    operands.iter().enumerate().try_for_each(|(i, ty)| is_f32(i, ty))
}

/// Refuses an operand that is no tensor of f32, f16 or bf16.
pub(super) fn is_float(i: usize, ty: &Type) -> Taken {
    let fits = ty.kind == Kind::Tensor && [DType::F32, DType::F16, DType::BF16].contains(&ty.dtype);
    if fits { Ok(()) } else { Err(format!("its kernel takes no {} as operand {i}", ty.dtype)) }
}

/// Refuses operands that are no tensors of f32, f16 or bf16.
pub(super) fn are_floats(operands: &[&Type]) -> Taken {
    operands.iter().enumerate().try_for_each(|(i, ty)| is_float(i, ty))
}
