//! What ranks of a group exchange: no kernel of ours, but work of the driver's.

use super::takes::Taken;
use super::{Context, Exchange, Kernel, Work, mismatch};
use crate::driver::Exchanged;
use rlx_core::Result;
use rlx_core::ir::lir::Step;
use rlx_core::ops::Op;
use rlx_core::target::Target;
use rlx_core::types::{DType, Kind, Type};

/// The ranks of an exchange, and what becomes of their tensors.
fn exchanged(op: &Op, ty: &Type) -> Option<(u64, Exchanged)> {
    match op {
        Op::AllReduce(op) => Some((op.ranks, Exchanged::Sum(ty.dtype))),
        Op::AllGather(op) => Some((op.ranks, Exchanged::All)),
        _ => None,
    }
}

pub(super) fn takes(op: &Op, operands: &[&Type], target: &Target) -> Taken {
    let [x] = operands else { return Err("its work takes one operand".into()) };
    let Some((ranks, what)) = exchanged(op, x) else { return Err("it is no exchange".into()) };
    let own = target.claims.ranks.count;
    if ranks != own {
        return Err(format!("it is of {ranks} devices, and {own} run together"));
    }
    let sums = [DType::F32, DType::F16, DType::BF16].contains(&x.dtype);
    if x.kind != Kind::Tensor || x.dtype.is_block() || (what != Exchanged::All && !sums) {
        return Err(format!("its work takes no {} as operand 0", x.dtype));
    }
    Ok(())
}

/// An exchange as the driver's work; none for another operator.
pub(super) fn work(step: &Step, cx: &Context<'_>) -> Result<Option<Vec<Work>>> {
    let ([x], [y]) = (step.operands.as_slice(), step.results.as_slice()) else { return Ok(None) };
    let Some((_, what)) = exchanged(&step.op, &x.ty) else { return Ok(None) };
    if x.bytes == 0 {
        return Ok(Some(Vec::new()));
    }
    let emit = cx.emit(step);
    let exchange = Exchange { what, x: emit.place(x)?, y: emit.place(y)?, bytes: x.bytes };
    Ok(Some(vec![Work::Exchange(exchange)]))
}

/// The builder of the table's row, whose work is found before builders are asked.
pub(super) fn exchange(step: &Step, _: &Context<'_>) -> Result<Vec<Kernel>> {
    Err(mismatch(step))
}
