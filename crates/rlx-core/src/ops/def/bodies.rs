//! Pieces of control flow's type rules: what a region takes and gives.

use super::rules;
use crate::error::{Error, Result};
use crate::ops::Signature;
use crate::types::{DType, Kind, Scalar, Type};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// The error of an operator that was asked for its type without its regions.
pub(crate) fn missing(op: &str) -> Error {
    Error::bad_graph(format!("{op} has no type without its regions"))
}

/// Fails unless the value is one bool.
pub(crate) fn condition(op: &str, what: &str, ty: &Type) -> Result<()> {
    if rules::is_scalar(ty, DType::Scalar(Scalar::Bool)) {
        return Ok(());
    }
    Err(Error::bad_graph(format!("{op}: {what} is {ty}, expected one bool")))
}

/// Fails on a state: regions see tensors alone.
pub(crate) fn tensors(op: &str, operands: &[&Type]) -> Result<()> {
    match operands.iter().find(|t| t.kind == Kind::State) {
        Some(ty) => {
            Err(Error::bad_graph(format!("{op}: an operand is {ty}, regions take tensors"))
                .hint("pass a state through state_read and write the result back"))
        }
        None => Ok(()),
    }
}

/// Fails on control flow that gives nothing.
pub(crate) fn some(op: &str, results: &[Type]) -> Result<()> {
    match results {
        [] => Err(Error::bad_graph(format!("{op} has no results"))),
        _ => Ok(()),
    }
}

/// Fails unless region `name` has parameters of these types.
pub(crate) fn takes<'a>(
    op: &str,
    name: &str,
    region: &Signature,
    need: impl Iterator<Item = &'a Type> + Clone,
) -> Result<()> {
    if region.params.iter().eq(need.clone()) {
        return Ok(());
    }
    let (have, need) = (list(region.params.iter()), list(need));
    Err(Error::bad_graph(format!("{op}: {name} takes ({have}), its operands are ({need})")))
}

/// Fails unless region `name` gives `need`, which `what` describes.
pub(crate) fn gives(op: &str, name: &str, have: &[Type], need: &[Type], what: &str) -> Result<()> {
    if have == need {
        return Ok(());
    }
    let (have, need) = (list(have.iter()), list(need.iter()));
    Err(Error::bad_graph(format!("{op}: {name} gives ({have}), {what} ({need})")))
}

fn list<'a>(types: impl Iterator<Item = &'a Type>) -> String {
    types.map(|t| format!("{t}")).collect::<Vec<_>>().join(", ")
}
