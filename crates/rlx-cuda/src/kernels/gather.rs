//! `gather`: rows of an embedding table, decoded.

use super::elements::stored;
use super::takes::{self, Taken};
use super::{Context, Kernel, THREADS, decoder, matrix, unsupported};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::Op;
use rlx_core::target::Target;
use rlx_core::types::{Kind, Type};

/// Rows of a matrix, by ids of any shape.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &[])?;
    let [table, ids] = operands else { return Err("it takes two operands".into()) };
    if decoder(table.dtype).is_none() || table.kind != Kind::Tensor {
        return Err(format!("it reads no {}", table.dtype));
    }
    if ids.kind != Kind::Tensor || !ids.dtype.is_int() {
        return Err(format!("its kernel takes no {} as operand 1", ids.dtype));
    }
    if table.shape.rank() != 2 {
        return Err("its kernel takes rows of a matrix".into());
    }
    Ok(())
}

pub(super) fn gather(step: &Step, cx: &Context<'_>) -> Result<Vec<Kernel>> {
    let (table, ids) = (&step.operands[0], &step.operands[1]);
    let ((rows, k), (n, _)) = (matrix(table)?, matrix(&step.results[0])?);
    if step.part.is_some() {
        return Err(unsupported("a table in parts".into()));
    }
    if n == 0 || k == 0 {
        return Ok(Vec::new());
    }
    if rows == 0 {
        return Err(unsupported("rows of a table that has none".into()));
    }
    let none = || unsupported(format!("ids of {}", ids.ty.dtype));
    let width = if k.is_multiple_of(8) { 8 } else { 1 };
    let mut emit = cx.emit(step);
    emit.argument(table)?;
    emit.argument(ids)?;
    emit.late_rows();
    emit.argument(&step.results[0])?;
    emit.size("N", n)?;
    emit.size("K", k)?;
    emit.size("ROWS", rows)?;
    // The preprocessor compares it.
    emit.define("WIDTH", width);
    emit.size("THREADS", THREADS)?;
    emit.define("ID", stored(ids.ty.dtype).ok_or_else(none)?);
    emit.weights("", table.ty.dtype, k)?;
    emit.line(include_str!("ids.cuh"));
    emit.elements();
    let threads = n * (k / width);
    let grid = [threads.div_ceil(THREADS), 1, 1];
    let kernel = emit.kernel("gather", include_str!("gather.cu"), grid, THREADS as u32)?;
    Ok(vec![kernel.by_tokens(cx.live(step), 0, k / width, THREADS)])
}
