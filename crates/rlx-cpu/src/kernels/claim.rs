//! Tests of operands that several kernels' `takes` share. Each gives the reason as the end of "cpu does not
//! run zip: …".

use crate::target::CACHES;
use rlx_core::target::Target;
use rlx_core::types::{DType, Kind, Type};

/// Fails unless operand `i` is a tensor of one of these types.
pub(super) fn one_of(operands: &[&Type], i: usize, types: &[DType]) -> Result<(), String> {
    match operands.get(i) {
        Some(ty) if ty.kind != Kind::Tensor || !types.contains(&ty.dtype) => Err(refused(ty, i)),
        _ => Ok(()),
    }
}

/// Fails unless every operand is a tensor of f32, or a state of words, which are the kernel's own business.
pub(super) fn floats(operands: &[&Type]) -> Result<(), String> {
    each(operands, |ty| match ty.kind {
        Kind::Tensor => ty.dtype == DType::F32,
        Kind::State => ty.dtype == DType::U32,
    })
}

/// The same of a kernel that reads or writes caches, which are states too.
pub(super) fn floats_and_caches(operands: &[&Type]) -> Result<(), String> {
    each(operands, |ty| match ty.kind {
        Kind::Tensor => ty.dtype == DType::F32,
        Kind::State => ty.dtype == DType::U32 || CACHES.contains(&ty.dtype),
    })
}

/// Fails unless operand 0 is a matrix.
pub(super) fn matrix(operands: &[&Type]) -> Result<(), String> {
    match operands.first() {
        Some(x) if x.shape.rank() == 2 => Ok(()),
        _ => Err("its kernel takes a matrix".into()),
    }
}

/// Fails unless operand `i` is of a type that matrix products and look-ups decode.
pub(super) fn weight(operands: &[&Type], i: usize, target: &Target) -> Result<(), String> {
    match operands.get(i) {
        Some(ty) if !target.reads(ty.dtype) => Err(format!("it reads no {}", ty.dtype)),
        _ => Ok(()),
    }
}

/// Why operand `i` is not taken.
pub(super) fn refused(ty: &Type, i: usize) -> String {
    format!("its kernel takes no {} as operand {i}", ty.dtype)
}

fn each(operands: &[&Type], fits: impl Fn(&Type) -> bool) -> Result<(), String> {
    match operands.iter().enumerate().find(|(_, ty)| !fits(ty)) {
        Some((i, ty)) => Err(refused(ty, i)),
        None => Ok(()),
    }
}

/// Fails unless every operand is a tensor of one of these types.
#[cfg(feature = "graphs")]
pub(super) fn all_of(operands: &[&Type], types: &[DType]) -> Result<(), String> {
    each(operands, |ty| ty.kind == Kind::Tensor && types.contains(&ty.dtype))
}
