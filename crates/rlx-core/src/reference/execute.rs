//! One operator at a time, over bytes.

use super::View;
use crate::error::{Error, Result};
use crate::ir::mir::Graph;
use crate::ops::table::operators;
use crate::ops::{Alias, Op, Operator, Signature};
use crate::types::Type;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// An operator as the reference runs it: plain loops, a file each in `ops/`. What the type rule refuses
/// never comes here.
pub(super) trait Run: Operator {
    /// The bytes of each result.
    fn run(&self, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>>;

    /// The same of control flow, which has bodies.
    fn run_regions(&self, regions: &[Graph], operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
        let _ = regions;
        self.run(operands)
    }
}

/// The operator of each row of the table; without a `Run` one does not compile.
macro_rules! dispatch {
    ($($(#[doc = $doc:literal])* $(#[cfg($gate:meta)])? $op:ident,)*) => {
        fn dispatch(op: &Op, regions: &[Graph], operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
            match op {
                $($(#[cfg($gate)])? Op::$op(op) => op.run_regions(regions, operands),)*
                Op::Custom(op) => {
                    let operands: Vec<_> = operands.iter().map(|v| (v.ty, v.bytes)).collect();
                    op.0.run(&operands)
                }
            }
        }
    };
}

operators!(dispatch);

/// Runs one operator; returns the bytes of each result. A result that is a state is the next
/// version of the whole state.
///
/// # Errors
/// `BadGraph` from the type rule, or for sizes that make no sense; `Unsupported` for a packed type
/// without a decoder; `ContextFull` for a cache write past the capacity; `Internal` for operand
/// bytes that do not fit their type.
pub fn run(op: &Op, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
    run_regions(op, &[], operands)
}

/// [`run`] of an operator with its regions.
///
/// # Errors
/// As `run`.
pub fn run_regions(op: &Op, regions: &[Graph], operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
    let types: Vec<&Type> = operands.iter().map(|v| v.ty).collect();
    let bodies: Vec<Signature> = regions.iter().map(Graph::signature).collect();
    let results = op.infer_regions(&types, &bodies)?;
    for (i, v) in operands.iter().enumerate() {
        fits(op, "operand", i, v.ty, v.bytes.len())?;
    }
    let out = dispatch(op, regions, operands)?;
    if out.len() != results.len() {
        let (name, need, got) = (op.name(), results.len(), out.len());
        return Err(Error::internal(format!("{name}: {got} results, its rule gives {need}")));
    }
    for (i, (bytes, ty)) in out.iter().zip(&results).enumerate() {
        fits(op, "result", i, ty, bytes.len())?;
    }
    Ok(out)
}

/// A view's bytes. Programs run no step for it; this is for [`interpret`](super::interpret).
pub(super) fn view<O: Operator>(op: &O, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
    let types: Vec<&Type> = operands.iter().map(|v| v.ty).collect();
    let bytes = match (op.alias(&types), op.infer(&types)?.as_slice()) {
        (Alias::View { operand, byte_offset }, [ty]) => {
            let (from, len) = (byte_offset as usize, ty.bytes()? as usize);
            operands.get(operand).and_then(|v| v.bytes.get(from..)?.get(..len))
        }
        _ => None,
    };
    let bytes = bytes.ok_or_else(|| Error::internal(format!("{} is no view", O::NAME)))?;
    Ok(vec![bytes.to_vec()])
}

fn fits(op: &Op, what: &str, i: usize, ty: &Type, have: usize) -> Result<()> {
    let need = ty.bytes()?;
    if need == have as u64 {
        return Ok(());
    }
    Err(Error::internal(format!("{}: {what} {i} is {ty} of {need} bytes, got {have}", op.name())))
}

/// The error of an operand list that the type rule should have refused.
pub(super) fn arity(name: &str) -> Error {
    Error::internal(format!("{name}: wrong number of operands"))
}
