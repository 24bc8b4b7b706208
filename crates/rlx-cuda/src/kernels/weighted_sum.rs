//! `weighted_sum`: rows of several experts to one, each by its share.

use super::elements::{computed, stored};
use super::numbers::Numbers;
use super::takes::{self, Taken};
use super::{Context, Kernel, mismatch, unsupported, word};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::Op;
use rlx_core::target::Target;
use rlx_core::types::Type;

/// Floats.
pub(super) fn takes(op: &Op, _: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &[])
}

pub(super) fn weighted_sum(step: &Step, cx: &Context<'_>) -> Result<Vec<Kernel>> {
    let [x, shares] = step.operands.as_slice() else { return Err(mismatch(step)) };
    let y = &step.results[0];
    let &[rows, each, columns] = x.ty.shape.static_dims()?.as_slice() else {
        return Err(mismatch(step));
    };
    let n = y.ty.shape.elements()?;
    if n == 0 {
        return Ok(Vec::new());
    }
    word(x.ty.shape.elements()?)?;
    let none = || unsupported(format!("sums of {}", x.ty.dtype));
    let (mut emit, mut numbers) = (cx.emit(step), Numbers::default());
    emit.argument(x)?;
    emit.argument(shares)?;
    emit.late_rows();
    emit.argument(y)?;
    emit.define("TYPE", stored(x.ty.dtype).ok_or_else(none)?);
    emit.define("SHARE", stored(shares.ty.dtype).ok_or_else(none)?);
    emit.define("VALUE", computed(x.ty.dtype).ok_or_else(none)?);
    emit.define("COUNT", numbers.size(n)?);
    emit.define("EACH", numbers.size(each)?);
    let columns_by = numbers.divisor(columns)?;
    emit.define("COLUMNS", columns_by.name());
    emit.define("BY_COLUMNS(i)", columns_by.quotient("i"));
    emit.numbers(&numbers);
    emit.elements();
    let text = include_str!("weighted_sum.cu");
    let kernel = emit.kernel("weighted_sum", text, [n.div_ceil(256), 1, 1], 256)?;
    Ok(vec![kernel.by_tokens(cx.live(step), 0, n / rows.max(1), 256)])
}
