//! The oracle: plain loops that say what an operator or a format means.
//!
//! Values are f32 where the program stores them and f64 in between, so a fused operator gives the
//! same bits as the ones it stands for. [`run`] is one step, [`interpret`] a whole graph without
//! any plan, [`ReferenceDevice`] replays planned programs.

pub mod dequantize;
pub mod device;
pub mod quantize_rows;

mod attention;
mod binary;
mod gather;
mod interpret;
mod kv_write;
mod matmul;
mod rms_norm;
mod rope;
mod rope_kv_write;
mod rope_table;
mod sample;
mod take_rows;
#[cfg(test)]
mod testing;
mod unary;
mod view;

pub use device::ReferenceDevice;
pub use interpret::{Interpreted, interpret};
pub use view::View;

use crate::error::{Error, Result};
use crate::ops::{Alias, Op};
use crate::types::Type;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

/// Runs one operator; returns the bytes of each result. A result that is a state is the next
/// version of the whole state.
///
/// # Errors
/// `BadGraph` from the type rule, or for sizes that make no sense; `Unsupported` for a packed type
/// without a decoder; `ContextFull` for a cache write past the capacity; `Internal` for operand
/// bytes that do not fit their type.
pub fn run(op: &Op, operands: &[View<'_>]) -> Result<Vec<Vec<u8>>> {
    let types: Vec<&Type> = operands.iter().map(|v| v.ty).collect();
    let results = op.infer(&types)?;
    for (i, v) in operands.iter().enumerate() {
        fits(op, "operand", i, v.ty, v.bytes.len())?;
    }
    let out = match op {
        Op::Gather(_) => gather::run(operands),
        Op::RmsNorm(op) => rms_norm::run(op, operands),
        Op::MatMul(op) => matmul::run(op, operands),
        Op::QuantizeRows(op) => quantize_rows::run(op, operands),
        Op::RopeTable(op) => rope_table::run(op, operands),
        Op::Rope(op) => rope::run(op, operands),
        Op::KvWrite(_) => kv_write::run(operands),
        Op::RopeKvWrite(op) => rope_kv_write::run(op, operands),
        Op::Attention(op) => attention::run(op, operands),
        Op::Unary(op) => unary::run(op, operands),
        Op::Binary(op) => binary::run(op, operands),
        Op::TakeRows(op) => take_rows::run(op, operands),
        Op::Sample(_) => sample::run(operands),
        Op::Reshape(_) | Op::Token(_) => window(op, operands, &results),
    }?;
    for (i, (bytes, ty)) in out.iter().zip(&results).enumerate() {
        fits(op, "result", i, ty, bytes.len())?;
    }
    Ok(out)
}

/// A view's bytes. Programs run no step for it; this is for [`interpret`].
fn window(op: &Op, operands: &[View<'_>], results: &[Type]) -> Result<Vec<Vec<u8>>> {
    let bytes = match (op.alias(), results) {
        (Alias::View { operand, byte_offset }, [ty]) => {
            let (from, len) = (byte_offset as usize, ty.bytes()? as usize);
            operands.get(operand).and_then(|v| v.bytes.get(from..)?.get(..len))
        }
        _ => None,
    };
    let bytes = bytes.ok_or_else(|| Error::internal(format!("{} is no view", op.name())))?;
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
fn arity(name: &str) -> Error {
    Error::internal(format!("{name}: wrong number of operands"))
}
