//! A step over part of its weights, for the replay.

use crate::error::{Error, Result};
use crate::ir::lir::{Part, Step};
use crate::ops::Op;
use crate::reference::{View, run_regions};
use crate::types::{DType, Dim, Shape, Type};
use alloc::format;
use alloc::vec::Vec;

/// Results of the step: the previous results (`whole`), with the part's columns or rows replaced.
///
/// # Errors
/// `Internal` for an operator without parts, or sizes that do not fit; otherwise as [`run_regions`].
pub(super) fn run(
    step: &Step,
    part: Part,
    operands: &[View<'_>],
    whole: Vec<&[u8]>,
) -> Result<Vec<Vec<u8>>> {
    let mut out: Vec<Vec<u8>> = whole.into_iter().map(<[u8]>::to_vec).collect();
    match &step.op {
        Op::MatMul(m) => {
            let mut operands = operands.to_vec();
            // The residual is whole: the step reads its own columns.
            let own =
                m.parts().residual.and_then(|at| Some((at, columns(operands.get(at)?, part)?)));
            if let Some((at, (ty, bytes))) = &own {
                operands[*at] = View::new(ty, bytes);
            }
            let made = run_regions(&step.op, &step.regions, &operands)?;
            for ((y, made), slice) in out.iter_mut().zip(&made).zip(&step.results) {
                place_columns(y, made, slice.ty.dtype, part).ok_or_else(|| misfit(step))?;
            }
        }
        Op::Gather(_) => {
            let ([table, ids], [y]) = (operands, out.as_mut_slice()) else {
                return Err(misfit(step));
            };
            let ids = ids.bytes.as_chunks::<4>().0;
            let row = y.len().checked_div(ids.len()).unwrap_or(0);
            let one = Type::tensor(DType::U32, Shape::of(&[1]));
            for (i, id) in ids.iter().enumerate() {
                // An id past the end reads the last row.
                let id = u64::from(u32::from_le_bytes(*id)).min(part.of.saturating_sub(1));
                let Some(local) = id.checked_sub(part.first).filter(|&n| n < part.rows) else {
                    continue;
                };
                let word = (local as u32).to_le_bytes();
                let made = run_regions(&step.op, &[], &[*table, View::new(&one, &word)])?;
                let to = y.get_mut(i * row..(i + 1) * row);
                let to = to.filter(|to| made.first().is_some_and(|m| m.len() == to.len()));
                to.ok_or_else(|| misfit(step))?.copy_from_slice(&made[0]);
            }
        }
        _ => return Err(misfit(step)),
    }
    Ok(out)
}

fn misfit(step: &Step) -> Error {
    Error::internal(format!("{} over part of a weight does not fit its operands", step.op.name()))
}

/// The part's columns of a whole value, and their type.
fn columns(x: &View<'_>, part: Part) -> Option<(Type, Vec<u8>)> {
    let size = x.ty.dtype.row_bytes(1)? as usize;
    let own = part.first as usize * size..(part.first + part.rows) as usize * size;
    let mut ty = x.ty.clone();
    *ty.shape.0.last_mut()? = Dim::from(part.rows);
    let mut bytes = Vec::new();
    for row in x.bytes.chunks_exact(part.of as usize * size) {
        bytes.extend(row.get(own.clone())?);
    }
    Some((ty, bytes))
}

/// Puts rows of the part's columns into rows of all columns.
fn place_columns(y: &mut [u8], made: &[u8], dtype: DType, part: Part) -> Option<()> {
    let size = dtype.row_bytes(1)? as usize;
    let first = part.first as usize * size;
    let (own, all) = (part.rows as usize * size, part.of as usize * size);
    if own == 0 || y.len() / all != made.len() / own {
        return None;
    }
    for (row, made) in y.chunks_exact_mut(all).zip(made.chunks_exact(own)) {
        row.get_mut(first..first + own)?.copy_from_slice(made);
    }
    Some(())
}
