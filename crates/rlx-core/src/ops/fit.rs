//! Pieces that type rules of the matmul and attention families share.

use super::{Operator, RowUse};
use crate::error::{Error, Result};
use crate::types::{DType, Dim, Kind, Shape, Type};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// Operands as an error shows them: `a is tensor<2xf32>, b is tensor<3xf32>`.
pub(super) fn shown(operands: &[(&str, &Type)]) -> String {
    let all: Vec<String> = operands.iter().map(|(name, ty)| format!("{name} is {ty}")).collect();
    all.join(", ")
}

/// The error of operands that do not fit each other.
pub(super) fn misfit(op: &str, operands: &[(&str, &Type)], need: &str) -> Error {
    Error::bad_graph(format!("{op}: {}; expected {need}", shown(operands)))
}

/// The element type that all operands share: tensors of one float type.
pub(super) fn same_floats(op: &str, operands: &[(&str, &Type)]) -> Result<DType> {
    let first = operands.first().map_or(DType::F32, |(_, ty)| ty.dtype);
    let ok = operands.iter().all(|(_, ty)| ty.kind == Kind::Tensor && ty.dtype == first);
    if ok && first.is_float() {
        return Ok(first);
    }
    Err(misfit(op, operands, "tensors of one float type"))
}

/// True for a tensor of this type that has one element: of no axis, or of one of size 1.
pub(super) fn is_scalar(ty: &Type, dtype: DType) -> bool {
    ty.kind == Kind::Tensor
        && ty.dtype == dtype
        && match ty.shape.0.as_slice() {
            [] => true,
            [one] => one.as_static() == Some(1),
            _ => false,
        }
}

/// True for a tensor that a product reads as weights: floats, or packed blocks.
pub(super) fn is_weight(ty: &Type) -> bool {
    ty.kind == Kind::Tensor && (ty.dtype.is_float() || ty.dtype.is_block())
}

/// The axes that both broadcast to (NumPy): aligned at the last, equal or 1. `None` when they do
/// not fit.
pub(super) fn broadcast(a: &[Dim], b: &[Dim]) -> Option<Vec<Dim>> {
    let rank = a.len().max(b.len());
    let one = Dim::from(1u64);
    let at = |dims: &[Dim], i: usize| {
        (i + dims.len()).checked_sub(rank).and_then(|j| dims.get(j)).cloned().unwrap_or(one.clone())
    };
    (0..rank)
        .map(|i| match (at(a, i), at(b, i)) {
            (x, y) if x == y => Some(x),
            (x, y) if x == one => Some(y),
            (x, y) if y == one => Some(x),
            _ => None,
        })
        .collect()
}

/// Checks the number of operands of an operator that goes along a sequence: the state and the
/// control block stand behind the tensors.
pub(super) fn recurrent_arity(
    name: &str,
    operands: &[&Type],
    tensors: usize,
    carry: bool,
) -> Result<()> {
    let n = operands.len();
    match carry {
        false if n == tensors => Ok(()),
        true if n == tensors + 1 || n == tensors + 2 => Ok(()),
        false => Err(Error::bad_graph(format!("{name} takes {tensors} operands, got {n}"))),
        true => Err(Error::bad_graph(format!(
            "{name} takes {} operands, a state and a control block that may be left out among \
             them; got {n}",
            tensors + 2
        ))),
    }
}

/// Results of such an operator: `y`, and the state of `batch` and `tail` if there is one in `rest`.
pub(super) fn recurrent_results(
    name: &str,
    y: Type,
    rest: &[&Type],
    batch: &[Dim],
    tail: &[Dim],
) -> Result<Vec<Type>> {
    let [state, ctl @ ..] = rest else { return Ok(vec![y]) };
    let need = Type::state(DType::F32, Shape(batch.iter().chain(tail).cloned().collect()));
    super::expect(name, "state", state, &need)?;
    for ctl in ctl {
        super::control(name, ctl)?;
    }
    Ok(vec![y, need])
}

/// Fails unless a vector of a norm or bias is `[n]` of f32 or of the activations' type.
pub(super) fn vector(op: &str, operand: &str, got: &Type, n: &Dim, x: DType) -> Result<()> {
    let fits = got.kind == Kind::Tensor
        && got.shape.0.as_slice() == core::slice::from_ref(n)
        && (got.dtype == DType::F32 || got.dtype == x);
    if fits {
        return Ok(());
    }
    let need = Type::tensor(DType::F32, Shape(vec![n.clone()]));
    let or = if x == DType::F32 { String::new() } else { format!(" or {x}") };
    Err(Error::bad_graph(format!("{op}: {operand} is {got}, expected {need}{or}")))
}

/// Which rows an elementwise operator needs of an operand: those of the result, unless the operand is repeated.
pub(super) fn same_rows<O: Operator>(op: &O, operand: usize, operands: &[&Type]) -> RowUse {
    let Ok(results) = op.infer(operands) else { return RowUse::All };
    let shape = |ty: Option<&Type>| ty.map(|ty| ty.shape.clone());
    match shape(operands.get(operand).copied()) == shape(results.first()) {
        true => RowUse::Same,
        false => RowUse::All,
    }
}

/// Which rows a recurrence over tokens needs: with a control block, and one sequence alone in each operand's
/// leading axes (before the last `own`), rows of earlier tokens.
pub(super) fn earlier_rows(x: &Type, own: usize, control: Option<usize>) -> RowUse {
    let leading = x.shape.rank().saturating_sub(own);
    let alone = x.shape.0.iter().take(leading).all(|d| d.as_static() == Some(1));
    if control.is_some() && alone { RowUse::Same } else { RowUse::All }
}
