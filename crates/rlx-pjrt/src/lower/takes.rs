//! What the lowerings' `takes` functions ask in common.
//!
//! Every reason is the end of a sentence that starts with "the device does not run zip: ".

use rlx_core::ops::Op;
use rlx_core::types::{BlockFormat, DType, Scalar, Type};

/// Why a lowering does not take an operator.
pub(super) type Taken = Result<(), String>;

/// Refuses attributes that the lowering does not know: one that an operator gains later is refused until its lowering
/// names it.
pub(super) fn knows(op: &Op, attributes: &[&str]) -> Taken {
    match op.attrs().0.iter().find(|a| !attributes.contains(&a.0.as_str())) {
        Some((name, _)) => Err(format!("its lowering has no {name}")),
        None => Ok(()),
    }
}

/// Refuses an operand whose type is not among those that fit.
pub(super) fn fits(i: usize, ty: &Type, fits: impl Fn(DType) -> bool) -> Taken {
    if fits(ty.dtype) { Ok(()) } else { Err(format!("its lowering takes no {} as operand {i}", ty.dtype)) }
}

/// Refuses operands that are no floats.
pub(super) fn are_floats(operands: &[&Type]) -> Taken {
    operands.iter().enumerate().try_for_each(|(i, ty)| fits(i, ty, DType::is_float))
}

/// Refuses complex and packed operands.
pub(super) fn are_real(operands: &[&Type]) -> Taken {
    let real = |t: DType| !t.is_block() && t != DType::Scalar(Scalar::C64);
    operands.iter().enumerate().try_for_each(|(i, ty)| fits(i, ty, real))
}

/// Refuses an operand that is no weight which is read: floats, or a packed format of files.
pub(super) fn is_weight(i: usize, ty: &Type) -> Taken {
    fits(i, ty, |t| match t {
        DType::Block(format) => decodes(format),
        scalar => scalar.is_float(),
    })
}

/// Whether weights of this format are decoded.
pub(super) fn decodes(format: BlockFormat) -> bool {
    super::formats::FORMATS.contains(&format)
}
