//! What the kernels' own `takes` functions ask in common: attributes, element types, ranks.
//!
//! Every reason is the end of a sentence that starts with "webgpu does not run zip: ".

use super::scalar;
use crate::target::{BLOCK_HEADS, CACHES};
use rlx_core::ops::{Op, Unary};
use rlx_core::target::Target;
use rlx_core::types::{BlockFormat, DType, Kind, Type};

/// Why a kernel does not take an operator.
pub(super) type Taken = Result<(), String>;

/// Refuses attributes that the kernel does not know: one that an operator gains later is refused until its
/// kernel names it.
pub(super) fn knows(op: &Op, attributes: &[&str]) -> Taken {
    match op.attrs().0.iter().find(|a| !attributes.contains(&a.0.as_str())) {
        Some((name, _)) => Err(format!("its kernel has no {name}")),
        None => Ok(()),
    }
}

/// Refuses a function that WGSL does not compute well enough.
pub(super) fn unary(f: Unary) -> Taken {
    match scalar::unary(f) {
        Some(_) => Ok(()),
        None => Err(format!("its kernel has no function {}", f.name())),
    }
}

/// The refusal of an operand's element type.
pub(super) fn not(i: usize, ty: &Type) -> String {
    format!("its kernel takes no {} as operand {i}", ty.dtype)
}

/// Refuses an operand that is no tensor of f32.
pub(super) fn is_f32(i: usize, ty: &Type) -> Taken {
    let fits = ty.kind == Kind::Tensor && ty.dtype == DType::F32;
    if fits { Ok(()) } else { Err(not(i, ty)) }
}

/// Refuses blocks of x that no product of the target reads.
pub(super) fn blocks(i: usize, ty: &Type, target: &Target) -> Taken {
    let reads = match ty.dtype {
        DType::Block(BlockFormat::Q8_0) => target.int8,
        DType::Block(BlockFormat::Q15_0) => target.int16,
        _ => false,
    };
    if reads && ty.kind == Kind::Tensor { Ok(()) } else { Err(not(i, ty)) }
}

/// Refuses tensors that are not f32, and states that are neither words nor caches.
pub(super) fn floats_and_caches(operands: &[&Type]) -> Taken {
    for (i, ty) in operands.iter().enumerate() {
        match ty.kind {
            Kind::Tensor => is_f32(i, ty)?,
            Kind::State => cache(i, ty)?,
        }
    }
    Ok(())
}

/// Refuses a state that is neither words nor a cache of a type and a head that kernels read.
fn cache(i: usize, ty: &Type) -> Taken {
    if ty.dtype != DType::U32 && !CACHES.contains(&ty.dtype) {
        return Err(not(i, ty));
    }
    let whole = ty.shape.last().as_static().is_some_and(|e| e.is_multiple_of(BLOCK_HEADS));
    if ty.dtype.is_block() && !whole {
        return Err(format!("its caches of {} have heads of whole {BLOCK_HEADS}", ty.dtype));
    }
    Ok(())
}

/// Refuses an operand 0 without rows.
pub(super) fn rows(operands: &[&Type]) -> Taken {
    match operands.first() {
        Some(x) if x.shape.rank() > 0 => Ok(()),
        _ => Err("its kernel takes rows".into()),
    }
}

/// Refuses an operand 0 that is no matrix.
pub(super) fn matrix(operands: &[&Type]) -> Taken {
    match operands.first() {
        Some(x) if x.shape.rank() == 2 => Ok(()),
        _ => Err("its kernel takes a matrix".into()),
    }
}
