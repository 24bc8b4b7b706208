//! `iota`: indices along an axis.

use super::elements::stored;
use super::numbers::Numbers;
use super::takes::{self, Taken};
use super::walk::{around, dims};
use super::{Context, Kernel, mismatch, unsupported};
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::Op;
use rlx_core::target::Target;
use rlx_core::types::Type;

/// Floats and integers.
pub(super) fn takes(op: &Op, _: &[&Type], _: &Target) -> Taken {
    takes::knows(op, &["type", "dims", "axis"])?;
    match op {
        Op::Iota(op) if stored(op.dtype).is_none() => {
            Err(format!("its kernel makes no {}", op.dtype))
        }
        _ => Ok(()),
    }
}

pub(super) fn iota(step: &Step, cx: &Context<'_>) -> Result<Vec<Kernel>> {
    let Op::Iota(op) = &step.op else { return Err(mismatch(step)) };
    let y = &step.results[0];
    let n = y.ty.shape.elements()?;
    if n == 0 {
        return Ok(Vec::new());
    }
    let (_, size, inner) = around(&dims(y)?, op.axis)?;
    let none = || unsupported(format!("indices of {}", op.dtype));
    let (mut emit, mut numbers) = (cx.emit(step), Numbers::default());
    emit.argument(y)?;
    emit.define("TYPE", stored(op.dtype).ok_or_else(none)?);
    emit.define("COUNT", numbers.size(n)?);
    let (inner, size) = (numbers.divisor(inner)?, numbers.divisor(size)?);
    emit.define("SIZE", size.name());
    emit.define("BY_INNER(i)", inner.quotient("i"));
    emit.define("BY_SIZE(i)", size.quotient("i"));
    emit.numbers(&numbers);
    emit.line(include_str!("casts.cuh"));
    emit.elements();
    Ok(vec![emit.kernel("iota", include_str!("iota.cu"), [n.div_ceil(256), 1, 1], 256)?])
}
