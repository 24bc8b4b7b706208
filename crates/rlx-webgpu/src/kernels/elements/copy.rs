//! Results whose elements are elements of one operand, at places that an index on each axis adds up to:
//! `transpose`, `expand`, `slice` and `reverse` are such walks. Bits are moved as they are.

use super::each::Each;
use super::element::Element;
use super::indices::{MOST_WORDS, Walk, Words};
use crate::kernels::emit::Emit;
use crate::kernels::takes::{self, Taken};
use crate::kernels::{Launch, unsupported};
use rlx_core::ir::lir::Slice;
use rlx_core::types::{DType, Type};
use rlx_core::{Error, Result};

/// A type that moves as elements of 8, 16 or 32 bits, and how many of them are one of its own.
pub(in crate::kernels) fn moved(dtype: DType) -> Option<(Element, u64)> {
    if dtype.is_block() {
        return None;
    }
    match dtype.block_bytes() {
        1 => Element::of(DType::BOOL).map(|e| (e, 1)),
        2 => Element::of(DType::F16).map(|e| (e, 1)),
        n => Element::of(DType::U32).map(|e| (e, n as u64 / 4)),
    }
}

/// The same of a step's operand.
pub(in crate::kernels) fn halves(ty: &Type) -> Result<(Element, u64)> {
    moved(ty.dtype).ok_or_else(|| unsupported(format!("the movement of {ty}")))
}

/// A type as what moves: elements, how many of them are one of its own, and its sizes in its own. A packed row is
/// its bytes, in the largest elements that it is whole ones of.
pub(in crate::kernels) fn pieces(ty: &Type) -> Result<(Element, u64, Vec<u64>)> {
    let mut dims = ty.shape.static_dims()?;
    if !ty.dtype.is_block() {
        let (element, parts) = halves(ty)?;
        return Ok((element, parts, dims));
    }
    let nothing = || Error::internal(format!("{ty} has no rows"));
    let last = dims.last_mut().ok_or_else(nothing)?;
    let bytes = ty.dtype.row_bytes(*last).ok_or_else(nothing)?;
    let (unit, size) = match bytes {
        n if n.is_multiple_of(4) => (DType::U32, 4),
        n if n.is_multiple_of(2) => (DType::F16, 2),
        _ => (DType::BOOL, 1),
    };
    *last = bytes / size;
    Ok((Element::of(unit).ok_or_else(nothing)?, 1, dims))
}

/// Any scalar type, of so many axes that their strides are step constants.
pub(in crate::kernels) fn takes(operands: &[&Type], rank: usize) -> Taken {
    for (i, ty) in operands.iter().enumerate() {
        if moved(ty.dtype).is_none() {
            return Err(takes::not(i, ty));
        }
    }
    // One more for halves of 64 bits, and the start.
    if 4 + Walk::most_words(rank + 1, operands.len()) > MOST_WORDS {
        return Err(format!("its kernel has no room for {rank} axes"));
    }
    Ok(())
}

/// A copy of `x` into `y`: from element `start` on, `strides` elements along each axis of `y`.
pub(in crate::kernels) fn copy(
    entry: &'static str,
    formula: &str,
    (x, y): (&Slice, &Slice),
    start: i64,
    strides: Vec<i64>,
    emit: &mut Emit<'_>,
) -> Result<Option<Launch>> {
    let (element, parts, mut dims) = pieces(&y.ty)?;
    let wide = |n: i64| {
        n.checked_mul(parts as i64).ok_or_else(|| Error::internal("a stride beyond 64 bits"))
    };
    let mut strides = strides.into_iter().map(wide).collect::<Result<Vec<i64>>>()?;
    if parts > 1 {
        dims.push(parts);
        strides.push(1);
    }
    let n = dims.iter().product::<u64>();
    if n == 0 {
        return Ok(None);
    }
    let mut words = Words::default();
    let walk = Walk::new(&dims, &[strides]);
    let (text, at) = walk.text("c", "i", &mut words)?;
    let from = words.signed(wide(start)?)?;
    let place = emit.read(x)?;
    let base = words.bits(place.word());
    Each {
        entry,
        head: [
            format!("{entry:<11} {formula}"),
            format!("x {}, y {}", x.ty.dtype, y.ty.dtype),
            "y's twice, once more or less for words that are read in part".into(),
            "exact".into(),
        ],
        functions: vec![element.reader("x", &place, &base)],
        body: format!("{text}return bits_x({from} + {});", at[0]),
        result: y,
        n,
        element,
    }
    .launch(words, emit)
}
