//! `scatter_add`: updates added at indices of an axis.

use super::elements::{computed, stored};
use super::numbers::Numbers;
use super::takes::{self, Taken};
use super::walk::{around, dims};
use super::{Context, Kernel, mismatch, unsupported, word};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::Op;
use rlx_core::target::Target;
use rlx_core::types::Type;

/// Floats and integers; ids of every type that the operator's rule allows.
pub(super) fn takes(op: &Op, operands: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["axis"])?;
    match operands.first() {
        Some(x) if stored(x.dtype).is_some() => Ok(()),
        _ => Err("its kernel takes floats and integers".into()),
    }
}

pub(super) fn scatter_add(step: &Step, cx: &Context<'_>) -> Result<Vec<Kernel>> {
    let Op::ScatterAdd(op) = &step.op else { return Err(mismatch(step)) };
    let [target, ids, updates] = step.operands.as_slice() else { return Err(mismatch(step)) };
    let n = target.ty.shape.elements()?;
    if n == 0 {
        return Ok(Vec::new());
    }
    let (_, rows, inner) = around(&dims(target)?, op.axis)?;
    word(updates.ty.shape.elements()?)?;
    let none = || unsupported(format!("updates of {}", target.ty.dtype));
    let (mut emit, mut numbers) = (cx.emit(step), Numbers::default());
    for slice in [target, ids, updates, &step.results[0]] {
        emit.argument(slice)?;
    }
    emit.define("TYPE", stored(target.ty.dtype).ok_or_else(none)?);
    emit.define("ID", stored(ids.ty.dtype).ok_or_else(none)?);
    let kind = computed(target.ty.dtype).ok_or_else(none)?;
    let is_float = target.ty.dtype.is_float();
    emit.define("SUM(a, b)", if is_float { "((a) + (b))" } else { "sum_of(a, b)" });
    emit.define("VALUE", kind);
    emit.define("COUNT", numbers.size(n)?);
    let (inner, rows) = (numbers.divisor(inner)?, numbers.divisor(rows)?);
    emit.define("INNER", inner.name());
    emit.define("BY_INNER(i)", inner.quotient("i"));
    emit.define("ROWS", rows.name());
    emit.define("BY_ROWS(i)", rows.quotient("i"));
    emit.define("IDS", numbers.size(ids.ty.shape.elements()?)?);
    emit.numbers(&numbers);
    emit.line(include_str!("integers.cuh"));
    emit.line(include_str!("ids.cuh"));
    emit.elements();
    let text = include_str!("scatter_add.cu");
    Ok(vec![emit.kernel("scatter_add", text, [n.div_ceil(256), 1, 1], 256)?])
}
