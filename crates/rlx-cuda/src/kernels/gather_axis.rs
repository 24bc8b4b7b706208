//! `gather` of any axis and rank, and `gather_elements`: elements of any scalar type, as they are.

use super::elements::stored;
use super::numbers::Numbers;
use super::takes::{self, Taken};
use super::units::unit;
use super::walk::{around, dims};
use super::{Context, Kernel, gather, mismatch, unsupported, word};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::Op;
use rlx_core::target::Target;
use rlx_core::types::Type;

/// A tensor of any scalar type, or rows that are decoded; ids of every type that the operators' rules allow.
pub(super) fn takes(op: &Op, operands: &[&Type], target: &Target) -> Taken {
    takes::knows(op, &["axis"])?;
    match (op, operands) {
        (Op::Gather(op), [table, _]) if op.is_embedding(table) => {
            gather::takes(&Op::Gather(op.clone()), operands, target)
        }
        _ => Ok(()),
    }
}

pub(super) fn run(step: &Step, cx: &Context<'_>) -> Result<Vec<Kernel>> {
    let (x, ids, y) = (&step.operands[0], &step.operands[1], &step.results[0]);
    let (axis, each) = match &step.op {
        Op::Gather(op) if op.is_embedding(&x.ty) => return gather::gather(step, cx),
        Op::Gather(op) => (op.axis, false),
        Op::GatherElements(op) => (op.axis, true),
        _ => return Err(mismatch(step)),
    };
    if step.part.is_some() {
        return Err(unsupported("a table in parts".into()));
    }
    let n = y.ty.shape.elements()?;
    let (_, rows, inner) = around(&dims(x)?, axis)?;
    if n == 0 {
        return Ok(Vec::new());
    }
    if rows == 0 {
        return Err(unsupported("elements of a table that has none".into()));
    }
    // As many ids for each place before the axis.
    let count = match each {
        true => around(&dims(y)?, axis)?.1,
        false => ids.ty.shape.elements()?,
    };
    let (mut emit, mut numbers) = (cx.emit(step), Numbers::default());
    for slice in [x, ids, y] {
        emit.argument(slice)?;
    }
    let bytes = x.ty.dtype.block_bytes() as u64;
    let starts = [inner * bytes, emit.arguments[0].offset, emit.arguments[2].offset];
    let fits = |wide: &u64| !each && *wide > bytes && starts.iter().all(|at| at % wide == 0);
    let wide = [16, 8, 4, 2].into_iter().find(fits).unwrap_or(bytes);
    let by = wide / bytes;
    word(x.ty.shape.elements()? / by)?;
    let none = || unsupported(format!("ids of {}", ids.ty.dtype));
    emit.define("UNIT", unit(wide));
    emit.define("ID", stored(ids.ty.dtype).ok_or_else(none)?);
    emit.define("COUNT", numbers.size(n / by)?);
    let (inner, count) = (numbers.divisor(inner / by)?, numbers.divisor(count)?);
    emit.define("INNER", inner.name());
    emit.define("BY_INNER(i)", inner.quotient("i"));
    emit.define("IDS", count.name());
    emit.define("BY_IDS(i)", count.quotient("i"));
    emit.define("ROWS", numbers.size(rows)?);
    emit.define("ID_AT", if each { "i" } else { "line - outer * IDS" });
    emit.numbers(&numbers);
    emit.line(include_str!("ids.cuh"));
    emit.elements();
    let blocks = (n / by).div_ceil(256);
    Ok(vec![emit.kernel("gather_axis", include_str!("gather_axis.cu"), [blocks, 1, 1], 256)?])
}
